# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""siwatch's tables in an SQLite file, with Python's own sqlite3: copy it, and leave out what you do not need.

docs/backend-sqlite.md explains the order of the calls, docs/schema.md the tables.
"""

import sqlite3
import time


def connect(app: str, client_ids: list[str], path="/var/lib/siwatch/siwatch.sqlite"):
    # One connection for each thread: Python refuses to use one in another.
    # mode=rw: a mistyped path is an error, not a new file. isolation_level=None: each statement commits by itself.
    db = sqlite3.connect(f"file:{path}?mode=rw", uri=True, isolation_level=None)
    for pragma in ("busy_timeout = 5000", "synchronous = FULL", "wal_autocheckpoint = 0", "secure_delete = ON"):
        db.execute(f"PRAGMA {pragma}")
    # A mistyped app has no users: no session would ever end, and nothing would say so. A new client is known from siwatch's next start on.
    known = {client_id for (client_id,) in db.execute("SELECT client_id FROM app_client WHERE app = ?", (app,))}
    if not client_ids or not known.issuperset(client_ids):
        raise ValueError(f"of the app {app}, siwatch knows the clients {sorted(known)} and not all of {client_ids}")
    return db


def keep_notification(db, body: bytes) -> int:
    """Keeps what Apple posted; returns the HTTP status to answer with."""
    if not 0 < len(body) <= 65536:
        return 400
    try:
        db.execute("INSERT INTO notification_queue (payload) VALUES (CAST(? AS TEXT))", (body,))
    except sqlite3.Error:
        return 503
    return 200


def keep_grant(db, client_id: str, claims: dict, refresh_token: str | None) -> int:
    """Keeps a sign-in. `claims` are those of the id_token, verified. Returns the `signed_in_at` of the session."""
    # iat is cut to the second. Its first millisecond would lie before a revocation earlier in that second, which would end
    # this new session; so take its last.
    signed_in_at = claims["iat"] * 1000 + 999
    # Apple writes true or "true". Where it is absent, nothing is known.
    is_private = claims.get("is_private_email")
    db.execute(
        "INSERT INTO grant_queue (client_id, user_id, refresh_token, email, email_is_private, granted_at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            client_id,
            claims["sub"],
            refresh_token,
            claims.get("email"),
            None if is_private is None else is_private in (True, "true"),
            signed_in_at,
        ),
    )
    return signed_in_at


def keep_code(db, client_id: str, claims: dict, code: str, nonce: str | None = None, redirect_uri: str | None = None) -> int:
    """Hands over a sign-in with its code. `claims` are those of the id_token that came with it, verified; `nonce` is what was
    sent to Apple, `redirect_uri` that of the web flow. Returns the `signed_in_at` of the session."""
    db.execute(
        "INSERT INTO grant_queue (client_id, user_id, authorization_code, redirect_uri, nonce) VALUES (?, ?, ?, ?, ?)",
        (client_id, claims["sub"], code, redirect_uri, nonce),
    )
    return claims["iat"] * 1000 + 999


def ask_revocation(db, client_id: str, sub: str) -> None:
    """The user has deleted the account: what siwatch holds of them is to end at Apple."""
    db.execute("INSERT INTO revocation_queue (client_id, user_id) VALUES (?, ?)", (client_id, sub))


def must_end_session(db, app: str, sub: str, signed_in_at: int) -> bool:
    row = db.execute(
        "SELECT state, reason, changed_at FROM user_state WHERE user_id = ? AND app = ?", (sub, app)
    ).fetchone()
    if row is None:
        return False
    state, reason, changed_at = row
    # A time that is minutes ahead is a wrong clock's, and would outlive each revocation.
    is_older = changed_at > signed_in_at or signed_in_at > time.time() * 1000 + 300_000
    return (state == "revoked" or (state, reason) == ("notFound", "account_deleted")) and is_older


def begin_session(db, app: str, sub: str, signed_in_at: int, commit) -> bool:
    """Makes a session; `commit` writes it to your own database. False: it has ended meanwhile, so end it again."""
    commit()
    # Only now: a follower that had passed the end before the commit has not seen this session.
    return not must_end_session(db, app, sub, signed_in_at)


def newest_change(db) -> int:
    """Where to begin to follow. Afterwards ask must_end_session for every session."""
    return db.execute("SELECT coalesce(max(id), 0) FROM credential_change").fetchone()[0]


def changes_after(db, last_seen: int):
    """The next 500 changes: ask again until there are fewer. LookupError if some may have been missed: begin again."""
    changes = db.execute(
        "SELECT id, app, user_id, to_state FROM credential_change"
        " WHERE id > ? AND kind = 'state' ORDER BY id LIMIT 500",
        (last_seen,),
    ).fetchall()
    # After the rows, so that none can go unseen in between. An empty table has told nothing yet, or was emptied.
    oldest, newest = db.execute(
        "SELECT coalesce((SELECT min(id) FROM credential_change), 1),"
        " coalesce((SELECT max(id) FROM credential_change), 0)"
    ).fetchone()
    if oldest > last_seen + 1 or newest < last_seen:
        raise LookupError(f"changes after {last_seen} may be gone: the table has {oldest} to {newest}")
    return changes


def sessions_to_end(db, change, sessions: dict) -> list:
    """Which sessions of that user end. `sessions` has the `signed_in_at` of each."""
    _, app, sub, to_state = change
    if to_state == "authorized":
        return []
    # The change is of one client, and the user may still be signed in at another: the rule decides.
    return [session for session, signed_in_at in sessions.items() if must_end_session(db, app, sub, signed_in_at)]


def follow(db, last_seen: int):
    """Yields changes for ever. Keep the id of each in your own database, together with what you did about it."""
    version = None
    while True:
        (now,) = db.execute("PRAGMA data_version").fetchone()
        if now == version:
            time.sleep(1)
            continue
        version = now
        is_full = True
        while is_full:
            changes = changes_after(db, last_seen)
            for change in changes:
                yield change
                last_seen = change[0]
            is_full = len(changes) == 500

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

// siwatch's tables in an SQLite file, with Node.js's own node:sqlite: copy it, and leave out what you do not need.
// docs/backend-sqlite.md explains the order of the calls, docs/schema.md the tables.

import { existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { setTimeout } from "node:timers/promises";

const app = "example";
const clientIDs = ["com.example.app", "com.example.web"];
const path = "/var/lib/siwatch/siwatch.sqlite";

// DatabaseSync would make an empty file of a mistyped path. A worker thread opens a connection of its own.
if (!existsSync(path)) throw new Error(`${path} is not there, or its folder is closed to this user`);
const db = new DatabaseSync(path);
db.exec(`
  PRAGMA busy_timeout = 5000;
  PRAGMA synchronous = FULL;
  PRAGMA wal_autocheckpoint = 0;
  PRAGMA secure_delete = ON;
`);

// A mistyped app has no users: no session would ever end, and nothing would say so. A new client is known from siwatch's next start on.
const known = db.prepare("SELECT client_id FROM app_client WHERE app = ?").all(app).map((row) => row.client_id);
if (!clientIDs.every((clientID) => known.includes(clientID))) {
  throw new Error(`of the app ${app}, siwatch knows the clients ${known} and not all of ${clientIDs}`);
}

const notification = db.prepare("INSERT INTO notification_queue (payload) VALUES (CAST(? AS TEXT))");
const grant = db.prepare(
  `INSERT INTO grant_queue (client_id, user_id, refresh_token, email, email_is_private, granted_at)
   VALUES (?, ?, ?, ?, ?, ?)`,
);
const code = db.prepare(
  "INSERT INTO grant_queue (client_id, user_id, authorization_code, redirect_uri, nonce) VALUES (?, ?, ?, ?, ?)",
);
const revocation = db.prepare("INSERT INTO revocation_queue (client_id, user_id) VALUES (?, ?)");
const user = db.prepare("SELECT state, reason, changed_at FROM user_state WHERE user_id = ? AND app = ?");
const changes = db.prepare(
  `SELECT id, app, user_id, to_state FROM credential_change
    WHERE id > ? AND kind = 'state' ORDER BY id LIMIT 500`,
);
const kept = db.prepare(
  `SELECT coalesce((SELECT min(id) FROM credential_change), 1) AS oldest,
          coalesce((SELECT max(id) FROM credential_change), 0) AS newest`,
);
const dataVersion = db.prepare("PRAGMA data_version");

// Keeps what Apple posted; returns the HTTP status to answer with.
export function keepNotification(body /* Buffer */) {
  if (body.length === 0 || body.length > 65536) return 400;
  try {
    notification.run(body);
    return 200;
  } catch {
    return 503;
  }
}

// Keeps a sign-in. `claims` are those of the id_token, verified. Returns the `signedInAt` of the session.
export function keepGrant(clientID, claims, refreshToken) {
  // iat is cut to the second. Its first millisecond would lie before a revocation earlier in that second, which would end
  // this new session; so take its last.
  const signedInAt = claims.iat * 1000 + 999;
  // Apple writes true or "true". Where it is absent, nothing is known.
  const isPrivate = claims.is_private_email === undefined ? null : Number(String(claims.is_private_email) === "true");
  grant.run(clientID, claims.sub, refreshToken ?? null, claims.email ?? null, isPrivate, signedInAt);
  return signedInAt;
}

// Hands over a sign-in with its code. `claims` are those of the id_token that came with it, verified; `nonce` is what was
// sent to Apple, `redirectURI` that of the web flow. Returns the `signedInAt` of the session.
export function keepCode(clientID, claims, authorizationCode, { nonce = null, redirectURI = null } = {}) {
  code.run(clientID, claims.sub, authorizationCode, redirectURI, nonce);
  return claims.iat * 1000 + 999;
}

// The user has deleted the account: what siwatch holds of them is to end at Apple.
export function askRevocation(clientID, sub) {
  revocation.run(clientID, sub);
}

export function mustEndSession(app, sub, signedInAt) {
  const row = user.get(sub, app);
  if (!row) return false;
  const ended = row.state === "revoked" || (row.state === "notFound" && row.reason === "account_deleted");
  // A time that is minutes ahead is a wrong clock's, and would outlive each revocation.
  return ended && (row.changed_at > signedInAt || signedInAt > Date.now() + 300_000);
}

// Makes a session; `commit` writes it to your own database. False: it has ended meanwhile, so end it again.
export async function beginSession(app, sub, signedInAt, commit) {
  await commit();
  // Only now: a follower that had passed the end before the commit has not seen this session.
  return !mustEndSession(app, sub, signedInAt);
}

// Where to begin to follow. Afterwards ask mustEndSession for every session.
export function newestChange() {
  return kept.get().newest;
}

// The next 500 changes: ask again until there are fewer. Throws if some may have been missed: begin again.
export function changesAfter(lastSeen) {
  const rows = changes.all(lastSeen);
  // After the rows, so that none can go unseen in between. An empty table has told nothing yet, or was emptied.
  const { oldest, newest } = kept.get();
  if (oldest > lastSeen + 1 || newest < lastSeen) {
    throw new RangeError(`changes after ${lastSeen} may be gone: the table has ${oldest} to ${newest}`);
  }
  return rows;
}

// Which sessions of that user end. `sessions` are objects with a `signedInAt`.
export function sessionsToEnd(change, sessions) {
  if (change.to_state === "authorized") return [];
  // The change is of one client, and the user may still be signed in at another: the rule decides.
  return sessions.filter((session) => mustEndSession(change.app, change.user_id, session.signedInAt));
}

// Yields changes for ever. Keep the id of each in your own database, together with what you did about it.
export async function* follow(lastSeen) {
  let version;
  for (;;) {
    const now = dataVersion.get().data_version;
    if (now === version) {
      await setTimeout(1000);
      continue;
    }
    version = now;
    let rows;
    do {
      rows = changesAfter(lastSeen);
      for (const change of rows) {
        yield change;
        lastSeen = change.id;
      }
    } while (rows.length === 500);
  }
}

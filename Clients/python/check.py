#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Walks the client against a siwatch at work, one JSON line a step. At the first failure it says why and exits with 1.

    SIWATCH_URL=… SIWATCH_TOKEN=… CLIENT_ID=… Clients/python/check.py GOOD_CODE BAD_CODE [NONCE]

Apple takes GOOD_CODE and refuses BAD_CODE. The sign-in of GOOD_CODE is deleted again. APP names the app if there are several. With
SIWATCH_CLIENT=asyncio, it walks the client for asyncio.
"""

import asyncio
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

from siwatch import Change, ChangesGone, SignInRejected, Siwatch, SiwatchError
from siwatch.aio import AsyncSiwatch

BEYOND = "999999999999999-mh6ev6r4"


class Awaited:
    """The client for asyncio, with calls that block."""

    def __init__(self, url: str, token: str) -> None:
        self._siwatch, self._loop = AsyncSiwatch(url, token), asyncio.new_event_loop()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._siwatch, name)
        return lambda *arguments, **options: self._loop.run_until_complete(call(*arguments, **options))

    def changes(self, *arguments: Any, **options: Any) -> Iterator[Change]:
        changes = self._siwatch.changes(*arguments, **options)
        while True:
            yield self._loop.run_until_complete(changes.__anext__())


Client: Any = Awaited if os.environ.get("SIWATCH_CLIENT") == "asyncio" else Siwatch


def step(name: str, passed: bool, **facts: Any) -> None:
    print(json.dumps({"step": name, **facts}), flush=True)
    if not passed:
        sys.exit(f"{name}: this is not what was expected")


def follow(siwatch: Any, after: str, app: "str | None", user_id: str, state: str) -> str:
    changes: Iterator[Change] = siwatch.changes(after, app=app)
    for change in changes:
        if change.user_id == user_id and change.to_state == state:
            step(f"change_{state}", True, id=change.id, user_id=change.user_id, reason=change.reason)
            return change.id
    raise AssertionError


def main(good_code: str, bad_code: str, nonce: "str | None" = None) -> None:
    url, token, client_id, app = (os.environ.get(name) for name in ("SIWATCH_URL", "SIWATCH_TOKEN", "CLIENT_ID", "APP"))
    assert url and token and client_id, "SIWATCH_URL, SIWATCH_TOKEN or CLIENT_ID is missing"
    siwatch = Client(url, token)

    position = siwatch.position()
    step("position", position != "", next=position)

    # Not made of the code: a thief of the code would be signed in too.
    key = str(uuid.uuid4())
    sign_in = siwatch.sign_in(client_id, good_code, nonce=nonce, wait=30, key=key)
    user_id = sign_in.user.user_id if sign_in.user else ""
    signed_in_at = sign_in.signed_in_at or 0
    step("sign_in", user_id != "", id=sign_in.id, outcome=sign_in.outcome, user_id=user_id, signed_in_at=signed_in_at)
    again = siwatch.sign_in(client_id, good_code, nonce=nonce, key=key)
    step("sign_in_again", again.id == sign_in.id, id=again.id, outcome=again.outcome)

    try:
        step("sign_in_rejected", False, outcome=siwatch.sign_in(client_id, bad_code, wait=30).outcome)
    except SignInRejected as error:
        step("sign_in_rejected", error.id != sign_in.id, id=error.id, reason=error.reason)

    user = siwatch.state(user_id, app)
    step("state", user is not None and user.state == "authorized", state=user and user.state, reason=user and user.reason)
    nobody = siwatch.state("000000.nobody.0000", app)
    step("state_of_nobody", nobody is None, state=nobody)
    ends = siwatch.ends_session(user_id, signed_in_at, app)
    step("ends_session", ends is False, ends_session=ends)
    position = follow(siwatch, position, app, user_id, "authorized")

    deletion = siwatch.delete(client_id, user_id)
    step("delete", deletion.id != "", id=deletion.id, outcome=deletion.outcome)
    follow(siwatch, position, app, user_id, "revoked")
    deadline = time.monotonic() + 30
    while deletion.outcome != "done" and time.monotonic() < deadline:
        time.sleep(0.2)
        deletion = siwatch.deletion(deletion.id)
    step("deletion", deletion.outcome == "done" and len(deletion.tokens) > 0, outcome=deletion.outcome, tokens=deletion.tokens)
    ends = siwatch.ends_session(user_id, signed_in_at, app)
    step("ends_session_after", ends is True, ends_session=ends)

    try:
        step("changes_gone", False, id=next(siwatch.changes(BEYOND, app=app)).id)
    except ChangesGone as error:
        step("changes_gone", error.next is not None, next=error.next)
    try:
        step("unauthorized", False, next=Client(url, token + "x").position())
    except SiwatchError as error:
        step("unauthorized", error.status == 401, status=error.status, type=error.type)


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("a step takes too long"))
    signal.alarm(120)
    try:
        main(*sys.argv[1:])
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}")

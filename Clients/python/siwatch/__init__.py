# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""A client of siwatch's HTTP interface, with the standard library only. Its calls block; those of `siwatch.aio` do not.

Durations are in seconds. Points in time are in milliseconds since 1970 UTC. docs/schema.md explains states, outcomes and reasons.
"""

from __future__ import annotations

import base64
import hmac
import json
import math
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Callable, cast

from siwatch import _wire
from siwatch._events import AccountDeletedEvent, AuthorizedEvent, DeliveryTestEvent, EmailEvent, RevokedEvent, WebhookEvent
from siwatch._wire import Change, ChangesGone, Deletion, SignIn, SignInRejected, SiwatchError, User, WebhookRejected

__all__ = [
    "AccountDeletedEvent", "AuthorizedEvent", "Change", "ChangesGone", "Deletion", "DeliveryTestEvent", "EmailEvent", "RevokedEvent",
    "SignIn", "SignInRejected", "Siwatch", "SiwatchError", "User", "WebhookEvent", "WebhookRejected", "verify_webhook",
]  # fmt: skip

for _error in (SiwatchError, SignInRejected, ChangesGone, WebhookRejected):
    _error.__module__ = __name__  # For tracebacks.


class Siwatch(_wire.Door):
    """What a backend tells siwatch and asks of it. Threads may share it.

    Each method raises `SiwatchError`. If it is temporary, `sign_in` and `delete` try again for ten seconds first, the others for `patience`
    in all. From then on calls of that kind raise it at once, in all threads. Every `away` seconds one of them asks whether siwatch is back.
    All tries of a call have the same key, so siwatch keeps the request once.
    """

    def __init__(self, url: str, token: str, *, timeout: float = 5, patience: float = 2, away: float = 5) -> None:
        """`url` is `http://host:port`, `https://…` or `unix:/path`. `timeout`: how long siwatch may be silent, besides its wait."""
        super().__init__(url, token, timeout=timeout, patience=patience, away=away)
        self._idle: list[HTTPConnection] = []
        self._process = os.getpid()

    def sign_in(
        self, client_id: str, code: str | None = None, *, nonce: str | None = None, redirect_uri: str | None = None,
        user_id: str | None = None, refresh_token: str | None = None, email: str | None = None, is_private_email: bool | None = None,
        signed_in_at: int | None = None, wait: float = 10, key: str | None = None,
    ) -> SignIn:  # fmt: skip
        """Tells a sign-in, and waits up to `wait` seconds for its outcome. It is `waiting` if that was too short.

        With a `code`, siwatch exchanges it at Apple. With a `refresh_token`, or with neither, you have verified the sign-in yourself.
        A later call with the same `key` is about the same sign-in. Raises `SignInRejected`.
        """
        deadline = time.monotonic() + wait
        request = self._post(
            "sign-ins", key, client_id=client_id, code=code, nonce=nonce, redirect_uri=redirect_uri, user_id=user_id,
            refresh_token=refresh_token, email=email, is_private_email=is_private_email, signed_in_at=signed_in_at, wait=_wire.part(wait),
        )  # fmt: skip
        while True:
            sign_in, rest = _wire.read_sign_in(self._ask(request)), _wire.part(deadline - time.monotonic())
            if sign_in.outcome != "waiting" or rest == 0:
                return sign_in
            time.sleep(_wire.BREATH)
            request = self._get("sign-ins", sign_in.id, patience=10, wait=rest)

    def delete(self, client_id: str, user_id: str, *, requested_at: int | None = None, key: str | None = None) -> Deletion:
        """Tells that a user has deleted the account. siwatch then revokes the user's tokens at Apple. `requested_at`: if not now."""
        request = self._post("deletions", key, client_id=client_id, user_id=user_id, requested_at=requested_at)
        return _wire.read(Deletion, self._ask(request))

    def deletion(self, id: str) -> Deletion:
        """How far a deletion is."""
        return _wire.read(Deletion, self._ask(self._get("deletions", id)))

    def state(self, user_id: str, app: str | None = None) -> User | None:
        """The state of a user, or None if siwatch does not know the user. `app` is needed if there are several."""
        try:
            return _wire.read(User, self._ask(self._get("users", user_id, app=app)))
        except SiwatchError as error:
            if error.type == _wire.PROBLEM + "not-found":
                return None
            raise

    def ends_session(self, user_id: str, signed_in_at: int, app: str | None = None) -> bool:
        """Whether a session is to end. Ask at each request, and after the commit of a new session."""
        return bool(self._ask(self._get("users", user_id, "ends-session", signed_in_at=signed_in_at, app=app))["ends_session"])

    def position(self) -> str:
        """The `id` after which to follow at first. Keep it, then ask `ends_session` for each session that you keep."""
        return str(self._ask(self._get("changes"))["next"])

    def changes(self, after: str | None = None, *, app: str | None = None, wait: int = 25) -> Iterator[Change]:
        """Yields for ever the changes after the one with the id `after`, or from now on. Keep the `id` of each that you have handled.

        It tries again for as long as siwatch does not answer. Each request waits up to `wait` seconds, 25 at most. Raises `ChangesGone`.
        """
        if after is None:
            after = str(self._ask(self._get("changes", patience=math.inf))["next"])
        while True:
            page = self._ask(self._get("changes", patience=math.inf, after=after, app=app, wait=wait))
            yield from (_wire.read(Change, change) for change in page["changes"])
            after = page["next"]
            if not page["changes"]:
                time.sleep(_wire.BREATH)

    def _ask(self, request: _wire.Request) -> Any:
        tries = _wire.Tries(self, request)
        while True:
            try:
                answer = self._try(request, tries.limit())
                tries.answered()
                return answer
            except SiwatchError as error:
                time.sleep(tries.pause(error))

    def _try(self, request: _wire.Request, limit: float) -> Any:
        connection = self._connection()
        connection.timeout = limit
        if connection.sock is not None:
            connection.sock.settimeout(connection.timeout)
        try:
            connection.request(request.method, request.target, request.body, request.headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, HTTPException) as error:
            connection.close()
            # siwatch has probably closed the idle connections, too.
            self._idle.clear()
            raise _wire.no_answer(error) from error
        self._idle.append(connection)
        return _wire.judged(response.status, response.headers, content)

    def _connection(self) -> HTTPConnection:
        # A forked child must not speak on the connections of its parent.
        if self._process != os.getpid():
            self._idle, self._process = [], os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            kinds: dict[str, Callable[[str], HTTPConnection]] = {"unix": _UnixConnection, "http": HTTPConnection, "https": HTTPSConnection}
            return kinds[self._url.scheme](self._url.netloc or self._url.path)


def verify_webhook(
    secrets: Sequence[str], headers: Mapping[str, str], body: bytes, tolerance: int = 300, now: float | None = None
) -> WebhookEvent:
    """Verifies a webhook by Standard Webhooks 1.0, and returns its body, parsed.

    Give both `secrets` while one changes. `body` is as it came, byte by byte. The webhook's time may differ from `now` by `tolerance`,
    both in seconds. The same `webhook-id` comes again until you answer 2xx. Raises `WebhookRejected`, `ValueError` for a bad
    secret, or `TypeError` for a body that was decoded or parsed before.
    """
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"The body has to be the bytes as they came, and this is {type(body).__name__}. "
            "Flask: request.get_data(). Django: request.body. FastAPI, Starlette: await request.body()."
        )
    try:
        keys = [base64.b64decode(secret.removeprefix("whsec_"), validate=True) for secret in secrets]
    except ValueError:
        keys = []
    if not keys or not all(keys):
        raise ValueError("A secret is missing, or none that `siwatch secret new webhook` made: whsec_ and base64.")
    lowered = {name.lower(): value for name, value in headers.items()}
    id, timestamp, signatures = (lowered.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (id and timestamp.isascii() and timestamp.isdecimal()):
        raise WebhookRejected("webhook-id is missing, or webhook-timestamp is no whole number.")
    if abs((time.time() if now is None else now) - float(timestamp)) > tolerance:
        raise WebhookRejected("The webhook is too old, or from the future.")
    signed = f"{id}.{timestamp}.".encode("utf-8", "replace") + bytes(body)
    expected = [b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256")) for key in keys]
    if not any(hmac.compare_digest(one, other) for one in expected for other in signatures.encode("utf-8", "replace").split(b" ")):
        raise WebhookRejected("No signature is by one of the secrets.")
    return cast(WebhookEvent, json.loads(bytes(body)))


class _UnixConnection(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)

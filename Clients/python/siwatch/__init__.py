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
import random
import socket
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Callable, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

__all__ = [
    "Change", "ChangesGone", "Deletion", "SignIn", "SignInRejected", "Siwatch", "SiwatchError", "User", "WebhookRejected", "verify_webhook",
]  # fmt: skip

_T = TypeVar("_T")
_PROBLEM = "urn:siwatch:problem:"
_STRANGER = {"title": "This is not siwatch's HTTP door"}
_BREATH = 0.2  # Between two waits, because a siwatch that is about to stop answers at once.


class SiwatchError(Exception):
    """siwatch refused a request, or no whole answer came: then `status` is None.

    `type` and `detail` are those of the problem document. If the error `is_temporary`, the same call may succeed later.
    """

    type: str | None
    detail: str | None

    def __init__(self, status: int | None, problem: Mapping[str, Any], retry_after: int = 0) -> None:
        self.status, self.retry_after = status, retry_after
        self.is_temporary = status in (None, 408, 429, 502, 503, 504)
        vars(self).update({name: problem.get(name) for name in ("type", "detail", "reason", "id", "next")})
        super().__init__(": ".join(str(part) for part in (status, problem.get("title"), self.detail, problem.get("reason")) if part))


class SignInRejected(SiwatchError):
    """Apple or siwatch rejected the sign-in `id`. `reason` says why: `code_expired`, for instance. `detail` says it for people."""

    id: int
    reason: str


class ChangesGone(SiwatchError):
    """Changes are missing. Ask `ends_session` for each session that you keep, and follow again after `next`."""

    next: int


class WebhookRejected(Exception):
    """The request is no webhook of siwatch, or it is too old. Answer 400."""


@dataclass(frozen=True)
class User:
    """The state of a user: `authorized`, `revoked` or `notFound`."""

    app: str
    user_id: str
    state: str
    reason: str
    changed_at: int | None = None
    verified_at: int | None = None
    email: str | None = None
    is_private_email: bool | None = None
    email_forwarding: str | None = None


@dataclass(frozen=True)
class SignIn:
    """A sign-in. While its `outcome` is `waiting`, nobody is signed in and there is no `user`. Keep `signed_in_at` with the session."""

    id: int
    client_id: str
    outcome: str
    signed_in_at: int | None = None
    real_user_status: int | None = None
    settled_at: int | None = None
    user: User | None = None


@dataclass(frozen=True)
class Deletion:
    """The deletion of an account: `waiting`, `held` until an operator confirms it, or `done`. `tokens` is the receipt."""

    id: int
    outcome: str
    requested_at: int | None = None
    tokens: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Change:
    """A change of a user at one client: of the state or of the e-mail address, as `kind` says."""

    id: int
    app: str
    client_id: str
    user_id: str
    kind: str
    occurred_at: int
    recorded_at: int
    from_state: str | None = None
    to_state: str | None = None
    reason: str | None = None
    email: str | None = None
    email_forwarding: str | None = None
    source: str | None = None


class _Door:
    """Where siwatch is, and how it is asked."""

    def __init__(self, url: str, token: str, *, timeout: float = 5) -> None:
        """`url` is `http://host:port`, `https://…` or `unix:/path`. `timeout`: how long siwatch may be silent, besides its wait."""
        self._url, self._token, self._timeout = urlsplit(url), token.strip(), timeout
        if self._url.scheme not in ("http", "https", "unix"):
            raise ValueError("The URL begins with none of http:, https: and unix:.")

    def _request(self, path: str, query: Any, body: Any, key: str | None) -> tuple[str, str | None, dict[str, str]]:
        """Target, body and headers, the same for all tries."""
        target = "" if self._url.scheme == "unix" else self._url.path.rstrip("/")
        target += path + (f"?{urlencode(_given(query))}" if query else "")
        headers = {"Authorization": f"Bearer {self._token}"}
        if body is None:
            return target, None, headers
        headers.update({"Content-Type": "application/json", "Idempotency-Key": key or str(uuid.uuid4())})
        return target, json.dumps(_given(body)), headers


class Siwatch(_Door):
    """What a backend tells siwatch and asks of it. Threads may share it.

    Each method raises `SiwatchError`. If it is temporary, `sign_in` and `delete` try again for ten seconds first, the others for two. All
    tries of a call have the same key, so siwatch keeps the request once.
    """

    def __init__(self, url: str, token: str, *, timeout: float = 5) -> None:
        """`url` is `http://host:port`, `https://…` or `unix:/path`. `timeout`: how long siwatch may be silent, besides its wait."""
        super().__init__(url, token, timeout=timeout)
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
        deadline, part = time.monotonic() + wait, _part(wait)
        body = {
            "client_id": client_id, "code": code, "nonce": nonce, "redirect_uri": redirect_uri, "user_id": user_id, "wait": part,
            "refresh_token": refresh_token, "email": email, "is_private_email": is_private_email, "signed_in_at": signed_in_at,
        }  # fmt: skip
        members = self._ask("POST", "/v1/sign-ins", body=body, key=key, wait=part, patience=10)
        while True:
            sign_in, part = _sign_in(members), _part(deadline - time.monotonic())
            if sign_in.outcome != "waiting" or part == 0:
                return sign_in
            time.sleep(_BREATH)
            members = self._ask("GET", f"/v1/sign-ins/{sign_in.id}", query={"wait": part}, wait=part, patience=10)

    def delete(self, client_id: str, user_id: str, *, key: str | None = None) -> Deletion:
        """Tells that a user has deleted the account. siwatch then revokes the user's tokens at Apple."""
        body = {"client_id": client_id, "user_id": user_id}
        return _read(Deletion, self._ask("POST", "/v1/deletions", body=body, key=key, patience=10))

    def deletion(self, id: int) -> Deletion:
        """How far a deletion is."""
        return _read(Deletion, self._ask("GET", f"/v1/deletions/{id}"))

    def state(self, user_id: str, app: str | None = None) -> User | None:
        """The state of a user, or None if siwatch does not know the user. `app` is needed if there are several."""
        try:
            return _read(User, self._ask("GET", _user_path(user_id), query={"app": app}))
        except SiwatchError as error:
            if error.type == _PROBLEM + "not-found":
                return None
            raise

    def ends_session(self, user_id: str, signed_in_at: int, app: str | None = None) -> bool:
        """Whether a session is to end. Ask at each request, and after the commit of a new session."""
        query = {"signed_in_at": signed_in_at, "app": app}
        ends: bool = self._ask("GET", _user_path(user_id) + "/ends-session", query=query)["ends_session"]
        return ends

    def position(self) -> int:
        """The `id` after which to follow at first. Keep it, then ask `ends_session` for each session that you keep."""
        position: int = self._ask("GET", "/v1/changes")["next"]
        return position

    def changes(self, after: int | None = None, *, app: str | None = None, wait: int = 25) -> Iterator[Change]:
        """Yields for ever the changes after the one with the id `after`, or from now on. Keep the `id` of each that you have handled.

        It tries again for as long as siwatch does not answer. Each request waits up to `wait` seconds, 25 at most. Raises `ChangesGone`.
        """
        after = self.position() if after is None else after
        while True:
            page = self._ask("GET", "/v1/changes", query={"after": after, "app": app, "wait": wait}, wait=wait, patience=math.inf)
            yield from (_read(Change, change) for change in page["changes"])
            after = page["next"]
            if not page["changes"]:
                time.sleep(_BREATH)

    def _ask(
        self, method: str, path: str, *, query: Any = None, body: Any = None, key: str | None = None, wait: float = 0, patience: float = 2
    ) -> Any:
        request, tries = self._request(path, query, body, key), _Tries(patience)
        while True:
            try:
                return self._try(method, *request, self._timeout + wait)
            except SiwatchError as error:
                time.sleep(tries.pause(error))

    def _try(self, method: str, target: str, body: str | None, headers: dict[str, str], timeout: float) -> Any:
        connection = self._connection()
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        try:
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            members = _members(response.headers, response.read())
        except (OSError, HTTPException) as error:
            connection.close()
            # siwatch has probably closed the idle connections, too.
            self._idle.clear()
            raise _no_answer(error) from error
        self._idle.append(connection)
        return _judged(response.status, response.headers, members)

    def _connection(self) -> HTTPConnection:
        # A forked child must not speak on the connections of its parent.
        if self._process != os.getpid():
            self._idle, self._process = [], os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            kinds: dict[str, Callable[[str], HTTPConnection]]
            kinds = {"unix": _UnixConnection, "http": HTTPConnection, "https": HTTPSConnection}
            return kinds[self._url.scheme](self._url.netloc or self._url.path)


def verify_webhook(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, tolerance: int = 300, now: float | None = None) -> Any:
    """Verifies a webhook by Standard Webhooks 1.0, and returns its body, parsed.

    Give both `secrets` while one changes. `body` is as it came, byte by byte. The webhook's time may differ from `now` by `tolerance`,
    both in seconds. The same `webhook-id` comes again until you answer 2xx. Raises `WebhookRejected`, or `ValueError` for a bad secret.
    """
    try:
        keys = [base64.b64decode(secret.removeprefix("whsec_"), validate=True) for secret in secrets]
    except ValueError:
        keys = []
    if not keys or not all(keys):
        raise ValueError("A secret is missing, or none that `siwatch delivery secret` made: whsec_ and base64.")
    lowered = {name.lower(): value for name, value in headers.items()}
    id, timestamp, signatures = (lowered.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (id and timestamp.isascii() and timestamp.isdecimal()):
        raise WebhookRejected("webhook-id is missing, or webhook-timestamp is no whole number.")
    if abs((time.time() if now is None else now) - float(timestamp)) > tolerance:
        raise WebhookRejected("The webhook is too old, or from the future.")
    signed = f"{id}.{timestamp}.".encode("utf-8", "replace") + body
    expected = [b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256")) for key in keys]
    if not any(hmac.compare_digest(one, other) for one in expected for other in signatures.encode("utf-8", "replace").split(b" ")):
        raise WebhookRejected("No signature is by one of the secrets.")
    return json.loads(body)


class _UnixConnection(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _Tries:
    """The tries of a call, and how patient it is, in seconds."""

    def __init__(self, patience: float) -> None:
        self._patience, self._deadline, self._failures = patience, 0.0, 0

    def pause(self, error: SiwatchError) -> float:
        """How long to pause before the next try. Raises the error if it was the last one."""
        # The first pause is none, because siwatch may just have closed an idle connection.
        pause: float = max(error.retry_after, (2 ** min(self._failures, 7) - 1) / 4 * random.uniform(0.5, 1))
        self._deadline = self._deadline or time.monotonic() + self._patience
        self._failures += 1
        if not error.is_temporary or time.monotonic() + pause > self._deadline:
            raise error
        return pause


def _members(headers: Message, content: bytes) -> Any:
    if "json" not in headers.get_content_subtype():
        return _STRANGER
    try:
        members = json.loads(content)
    except ValueError as error:
        raise HTTPException(f"no JSON: {error!r}") from None
    return members if isinstance(members, dict) else _STRANGER


def _judged(status: int, headers: Message, members: Any) -> Any:
    if status in (200, 202) and members is not _STRANGER:
        return members
    kinds = {_PROBLEM + "sign-in-rejected": SignInRejected, _PROBLEM + "changes-gone": ChangesGone}
    pause = headers.get("Retry-After", "")
    raise kinds.get(members.get("type", ""), SiwatchError)(status, members, int(pause) if pause.isdecimal() else 0)


def _no_answer(error: Exception) -> SiwatchError:
    return SiwatchError(None, {"title": "No whole answer came", "detail": repr(error)})


def _read(kind: Callable[..., _T], members: Mapping[str, Any]) -> _T:
    # A later version of siwatch may add members.
    known = fields(cast(Any, kind))
    return kind(**{field.name: members[field.name] for field in known if field.default is MISSING or field.name in members})


def _sign_in(members: Mapping[str, Any]) -> SignIn:
    if members["outcome"] in ("rejected", "in_future"):
        raise SignInRejected(422, {"type": _PROBLEM + "sign-in-rejected", "reason": members["outcome"], **members})
    return _read(SignIn, {**members, "user": _read(User, members["user"]) if members.get("user") else None})


def _user_path(user_id: str) -> str:
    return f"/v1/users/{quote(user_id, safe='')}"


def _given(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _part(wait: float) -> int:
    return math.ceil(max(0, min(10, wait)))

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""What both clients share: how a request is built, and what an answer says. The public names are in `siwatch`."""

from __future__ import annotations

import json
import math
import random
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from email.message import Message
from typing import Any, Callable, NamedTuple, TypeVar, cast
from urllib.parse import SplitResult, quote, urlencode, urlsplit

T = TypeVar("T")
BREATH = 0.2  # Between two waits, because a siwatch that is about to stop answers at once.
PROBLEM = "urn:siwatch:problem:"


class SiwatchError(Exception):
    """siwatch refused a request, or no whole answer came: then `status` is None.

    `type` and `detail` are those of the problem document. If the error `is_temporary`, the same call may succeed later.
    """

    type: str | None
    detail: str | None

    def __init__(self, status: int | None, problem: Mapping[str, Any], retry_after: int = 0) -> None:
        self.status, self.retry_after, self._problem = status, retry_after, dict(problem)
        self.is_temporary = status in (None, 408, 429, 502, 503, 504)
        vars(self).update({name: problem.get(name) for name in ("type", "detail", "reason", "id", "next")})
        super().__init__(": ".join(str(part) for part in (status, problem.get("title"), self.detail, problem.get("reason")) if part))

    def __reduce__(self) -> tuple[Any, ...]:  # A pool of processes hands errors on.
        return type(self), (self.status, self._problem, self.retry_after)


class SignInRejected(SiwatchError):
    """Apple or siwatch rejected the sign-in `id`. `reason` says why: `code_expired`, for instance. `detail` says it for people."""

    id: str
    reason: str


class ChangesGone(SiwatchError):
    """Changes are missing. Ask `ends_session` for each session that you keep, and follow again after `next`."""

    next: str


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

    id: str
    client_id: str
    outcome: str
    signed_in_at: int | None = None
    real_user_status: int | None = None
    settled_at: int | None = None
    user: User | None = None


@dataclass(frozen=True)
class Deletion:
    """The deletion of an account: `waiting`, `held` until an operator confirms it, or `done`. `tokens` is the receipt."""

    id: str
    outcome: str
    requested_at: int | None = None
    tokens: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Change:
    """A change of a user at one client: of the state or of the e-mail address, as `kind` says."""

    id: str
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


class Request(NamedTuple):
    """A request, the same for all its tries. siwatch may take `wait` seconds on purpose; the tries end after `patience` seconds."""

    method: str
    target: str
    body: str | None
    headers: dict[str, str]
    wait: float
    patience: float


class Door:
    """Where siwatch is, and how it is asked."""

    def __init__(self, url: str, token: str, *, timeout: float = 5, patience: float = 2, away: float = 5) -> None:
        self._url, self._timeout, self._patience, self._away = urlsplit(url), timeout, patience, away
        # Until when calls are answered at once, by their patience: a full disk keeps sign-ins out and answers questions.
        self._quiet_until: dict[float, float] = {}
        if not _is_address(self._url):
            raise ValueError("The URL has to be http://host:port, https://host:port or unix:/path/to/socket.")
        self._base = "" if self._url.scheme == "unix" else self._url.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {_word(token.strip(), 'The token is none that siwatch secret new token made.')}"}

    def _get(self, *path: str, patience: float | None = None, **query: Any) -> Request:
        patience = self._patience if patience is None else patience
        target = "/".join([self._base, "v1", *(quote(name, safe="") for name in path)])
        given = urlencode(_given(query))
        return Request("GET", f"{target}?{given}" if given else target, None, self._headers, query.get("wait", 0), patience)

    def _post(self, path: str, key: str | None, **members: Any) -> Request:
        key = _word(str(uuid.uuid4()) if key is None else key, "The key is no word of ASCII.")
        headers = {**self._headers, "Content-Type": "application/json", "Idempotency-Key": key}
        return Request("POST", f"{self._base}/v1/{path}", json.dumps(_given(members)), headers, members.get("wait", 0), 10)


class Tries:
    """The tries of a call, and how patient it is. After a call that siwatch did not answer, the next ones are not tried for a while."""

    def __init__(self, door: Door, request: Request) -> None:
        """Raises an error at once while siwatch is away."""
        self._door, self._request, self._failures = door, request, 0
        self._start = now = time.monotonic()
        self._deadline = now + request.patience
        quiet = door._quiet_until.get(request.patience, now)
        if quiet > now:
            raise SiwatchError(None, {"title": "siwatch is away", "detail": f"asked again in {quiet - now:.1f} s"}, math.ceil(quiet - now))
        if quiet < now:
            # This call finds out whether siwatch is back. The others do not wait for it.
            self._stay_quiet(now)

    def limit(self) -> float:
        """How long the next try may take, in seconds."""
        return self._request.wait + max(0.01, min(self._door._timeout, self._deadline - time.monotonic()))

    def answered(self) -> None:
        self._door._quiet_until.pop(self._request.patience, None)

    def pause(self, error: SiwatchError) -> float:
        """How long to pause before the next try. Raises the error if it was the last one."""
        if not error.is_temporary:
            self.answered()
            raise error
        now = time.monotonic()
        if self._failures == 0:
            # An answer that was lost during a long wait is asked for again. One that did not come in all that time is not.
            self._deadline = max(self._deadline, min(now, self._start + self._door._timeout) + self._request.wait)
        # The first pause is none, because siwatch may just have closed an idle connection.
        pause: float = max(error.retry_after, (2 ** min(self._failures, 7) - 1) / 4 * random.uniform(0.5, 1))
        self._failures += 1
        left = self._deadline - now
        if left <= 0 or error.retry_after > left:
            self._stay_quiet(now)
            raise error
        return min(pause, left)  # The last try is at the end.

    def _stay_quiet(self, now: float) -> None:
        self._door._quiet_until[self._request.patience] = now + self._door._away


def no_answer(error: Exception) -> SiwatchError:
    return SiwatchError(None, {"title": "No whole answer came", "detail": repr(error)})


def judged(status: int, headers: Message, content: bytes) -> Any:
    """The members of a good answer. Raises the error that any other is."""
    try:
        members = json.loads(content) if "json" in headers.get_content_subtype() else None
    except ValueError as error:
        raise no_answer(error) from None
    if isinstance(members, dict) and status in (200, 202):
        return members
    problem = members if isinstance(members, dict) else {"title": "This is not siwatch's HTTP door"}
    kinds = {PROBLEM + "sign-in-rejected": SignInRejected, PROBLEM + "changes-gone": ChangesGone}
    pause = headers.get("Retry-After", "")
    raise kinds.get(problem.get("type", ""), SiwatchError)(status, problem, int(pause) if pause.isdecimal() else 0)


def read(kind: Callable[..., T], members: Mapping[str, Any]) -> T:
    """A document. A later version of siwatch may add members."""
    known = fields(cast(Any, kind))
    return kind(**{field.name: members[field.name] for field in known if field.default is MISSING or field.name in members})


def read_sign_in(members: Mapping[str, Any]) -> SignIn:
    if members["outcome"] in ("rejected", "in_future"):
        raise SignInRejected(422, {"type": PROBLEM + "sign-in-rejected", "reason": members["outcome"], **members})
    return read(SignIn, {**members, "user": read(User, members["user"]) if members.get("user") else None})


def part(wait: float) -> int:
    """How much of a wait one request may take: ten whole seconds at most."""
    return math.ceil(max(0, min(10, wait)))


def _is_address(url: SplitResult) -> bool:
    if url.scheme == "unix":
        return not url.netloc and url.path.startswith("/")
    try:
        url.port  # Is a ValueError if it is none.
    except ValueError:
        return False
    return url.scheme in ("http", "https") and bool(url.hostname) and not (url.username or url.query or url.fragment)


def _word(text: str, mistake: str) -> str:
    """The text, if it may stand in a header of HTTP. Otherwise an error of the library would quote it."""
    if not text or not all("!" <= character <= "~" for character in text):
        raise ValueError(mistake)
    return text


def _given(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}

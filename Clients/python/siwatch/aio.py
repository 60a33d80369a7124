# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""The client for asyncio, with the standard library only. Its calls are those of `siwatch.Siwatch`, and raise the same errors."""

from __future__ import annotations

import asyncio
import io
import math
import ssl
import time
from collections.abc import AsyncIterator
from email.message import Message
from http.client import HTTPConnection, HTTPException, parse_headers
from types import TracebackType
from typing import Any

from siwatch import Change, Deletion, SignIn, SiwatchError, User, _wire

__all__ = ["AsyncSiwatch"]


class AsyncSiwatch(_wire.Door):
    """What a backend tells siwatch and asks of it. Tasks of one event loop may share it.

    Each method raises `SiwatchError`. If it is temporary, `sign_in` and `delete` try again for ten seconds first, the others for `patience`
    in all. From then on calls of that kind raise it at once, in all tasks. Every `away` seconds one of them asks whether siwatch is back.
    All tries of a call have the same key, so siwatch keeps the request once. A call that is cancelled may have been kept.
    """

    def __init__(self, url: str, token: str, *, timeout: float = 5, patience: float = 2, away: float = 5) -> None:
        """`url` is `http://host:port`, `https://…` or `unix:/path`. `timeout`: how long a try may take, besides its wait."""
        super().__init__(url, token, timeout=timeout, patience=patience, away=away)
        self._idle: list[_Connection] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tls: ssl.SSLContext | None = None

    async def __aenter__(self) -> AsyncSiwatch:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the idle connections. The next call makes new ones."""
        idle, self._idle = self._idle, []
        # Those of an event loop that has ended, ended with it.
        if self._loop is not None and not self._loop.is_closed():
            for connection in idle:
                connection.close()

    async def sign_in(
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
            sign_in, rest = _wire.read_sign_in(await self._ask(request)), _wire.part(deadline - time.monotonic())
            if sign_in.outcome != "waiting" or rest == 0:
                return sign_in
            await asyncio.sleep(_wire.BREATH)
            request = self._get("sign-ins", sign_in.id, patience=10, wait=rest)

    async def delete(self, client_id: str, user_id: str, *, requested_at: int | None = None, key: str | None = None) -> Deletion:
        """Tells that a user has deleted the account. siwatch then revokes the user's tokens at Apple. `requested_at`: if not now."""
        request = self._post("deletions", key, client_id=client_id, user_id=user_id, requested_at=requested_at)
        return _wire.read(Deletion, await self._ask(request))

    async def deletion(self, id: str) -> Deletion:
        """How far a deletion is."""
        return _wire.read(Deletion, await self._ask(self._get("deletions", id)))

    async def state(self, user_id: str, app: str | None = None) -> User | None:
        """The state of a user, or None if siwatch does not know the user. `app` is needed if there are several."""
        try:
            return _wire.read(User, await self._ask(self._get("users", user_id, app=app)))
        except SiwatchError as error:
            if error.type == _wire.PROBLEM + "not-found":
                return None
            raise

    async def ends_session(self, user_id: str, signed_in_at: int, app: str | None = None) -> bool:
        """Whether a session is to end. Ask at each request, and after the commit of a new session."""
        return bool((await self._ask(self._get("users", user_id, "ends-session", signed_in_at=signed_in_at, app=app)))["ends_session"])

    async def position(self) -> str:
        """The `id` after which to follow at first. Keep it, then ask `ends_session` for each session that you keep."""
        return str((await self._ask(self._get("changes")))["next"])

    async def changes(self, after: str | None = None, *, app: str | None = None, wait: int = 25) -> AsyncIterator[Change]:
        """Yields for ever the changes after the one with the id `after`, or from now on. Keep the `id` of each that you have handled.

        It tries again for as long as siwatch does not answer. Each request waits up to `wait` seconds, 25 at most. Raises `ChangesGone`.
        """
        if after is None:
            after = str((await self._ask(self._get("changes", patience=math.inf)))["next"])
        while True:
            page = await self._ask(self._get("changes", patience=math.inf, after=after, app=app, wait=wait))
            for change in page["changes"]:
                yield _wire.read(Change, change)
            after = page["next"]
            if not page["changes"]:
                await asyncio.sleep(_wire.BREATH)

    async def _ask(self, request: _wire.Request) -> Any:
        written = _Written("localhost" if self._url.scheme == "unix" else self._url.netloc)
        written.request(request.method, request.target, request.body, request.headers)
        tries = _wire.Tries(self, request)
        while True:
            try:
                answer = await self._try(bytes(written.sent), tries.limit())
                tries.answered()
                return answer
            except SiwatchError as error:
                await asyncio.sleep(tries.pause(error))

    async def _try(self, request: bytes, timeout: float) -> Any:
        try:
            answer = await self._within(timeout, request)
        except (OSError, EOFError, HTTPException, asyncio.TimeoutError, asyncio.LimitOverrunError) as error:
            # siwatch has probably closed the idle connections, too.
            self.close()
            raise _wire.no_answer(error) from error
        return _wire.judged(*answer)

    async def _within(self, timeout: float, request: bytes) -> tuple[int, Message, bytes]:
        """Not by `wait_for`: before Python 3.12 it swallows a cancellation that comes with the answer, and `changes` would never end."""
        exchange = asyncio.ensure_future(self._exchange(request))
        # After a cancellation nobody asks how it ended, and asyncio would complain.
        exchange.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        try:
            done, _ = await asyncio.wait({exchange}, timeout=timeout)
        finally:
            if not exchange.done():
                exchange.cancel()
                await asyncio.wait({exchange})
        if not done:
            raise asyncio.TimeoutError
        return exchange.result()

    async def _exchange(self, request: bytes) -> tuple[int, Message, bytes]:
        connection = await self._connection()
        try:
            status, headers, content = await connection.exchange(request)
        except BaseException:
            # A call that is cancelled leaves its answer on the connection.
            connection.close()
            raise
        if connection.is_reusable:
            self._idle.append(connection)
        else:
            connection.close()
        return status, headers, content

    async def _connection(self) -> _Connection:
        # The connections of an event loop end with it.
        if self._loop is not asyncio.get_running_loop():
            self._idle, self._loop = [], asyncio.get_running_loop()
        if self._idle:
            return self._idle.pop()
        if self._url.scheme == "unix":
            return _Connection(*await asyncio.open_unix_connection(self._url.path))
        if self._url.scheme == "https" and self._tls is None:
            self._tls = ssl.create_default_context()
        port = self._url.port or (443 if self._tls else 80)
        return _Connection(*await asyncio.open_connection(self._url.hostname, port, ssl=self._tls))


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.is_reusable = True

    def close(self) -> None:
        self._writer.close()

    async def exchange(self, request: bytes) -> tuple[int, Message, bytes]:
        self._writer.write(request)
        await self._writer.drain()
        version, status, headers = await self._head()
        while 100 <= status <= 199:
            version, status, headers = await self._head()
        length = headers.get("Content-Length", "")
        if "chunked" in headers.get("Transfer-Encoding", "").lower():
            content = await self._chunks()
        elif length.isdecimal():
            content = await self._reader.readexactly(int(length))
        else:
            content = await self._reader.read()
            self.is_reusable = False
        if version != "HTTP/1.1" or "close" in headers.get("Connection", "").lower():
            self.is_reusable = False
        return status, headers, content

    async def _head(self) -> tuple[str, int, Message]:
        line, _, rest = (await self._reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
        version, _, reason = line.decode("latin-1").partition(" ")
        if not version.startswith("HTTP/1.") or not reason[:3].isdecimal():
            raise HTTPException(f"no status line: {line[:80]!r}")
        return version, int(reason[:3]), parse_headers(io.BytesIO(rest))

    async def _chunks(self) -> bytes:
        content = b""
        while True:
            size = (await self._reader.readuntil(b"\n")).partition(b";")[0].strip()
            try:
                length = int(size, 16)
            except ValueError:
                raise HTTPException(f"no size of a chunk: {size[:80]!r}") from None
            if length == 0:
                while (await self._reader.readuntil(b"\n")).strip():
                    pass
                return content
            content += (await self._reader.readexactly(length + 2))[:length]


class _Written(HTTPConnection):
    """A request as bytes: http.client writes it, and refuses a header that would break out of its line."""

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self.sent = bytearray()

    def send(self, data: Any) -> None:
        self.sent += data

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors

from __future__ import annotations

import asyncio
import inspect
import json
import os
import pickle
import socket
import socketserver
import tempfile
import threading
import time
import unittest
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Callable
from unittest import mock

from siwatch import ChangesGone, SignInRejected, Siwatch, SiwatchError
from siwatch.aio import AsyncSiwatch

USER = {"app": "example", "user_id": "ann", "state": "authorized", "reason": "granted"}
SIGN_IN = {"id": "7-a", "client_id": "app", "outcome": "applied", "signed_in_at": 1, "user": USER, "member_of_tomorrow": 1}
WAITING = {"id": "7-a", "client_id": "app", "outcome": "waiting"}
CHANGE = {"id": "2-b", "app": "example", "client_id": "app", "user_id": "ann", "kind": "state", "occurred_at": 1, "recorded_at": 2}


def answer(members: Any, status: int = 200, *headers: str) -> bytes:
    body = json.dumps(members).encode()
    kind = "json" if status < 400 else "problem+json"
    lines = [f"HTTP/1.1 {status} Word", f"content-type: application/{kind}", f"content-length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def problem(status: int, kind: str, *headers: str, **members: Any) -> bytes:
    return answer({"type": f"urn:siwatch:problem:{kind}", "title": "No", **members}, status, *headers)


class Door:
    """Takes requests, and answers with the bytes that are next. After None it closes the connection without an answer."""

    def __init__(self, *answers: bytes | None, path: str | None = None) -> None:
        self.answers, self.requests, self.connections = list(answers), [], 0  # type: ignore[var-annotated]
        self.before_answer: Callable[[], Any] = lambda: None
        self._lock = threading.Lock()
        door = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                door.connections += 1
                while line := self.rfile.readline():
                    headers: dict[str, str] = {}
                    while text := self.rfile.readline().decode().strip():
                        name, _, value = text.partition(": ")
                        headers[name.lower()] = value
                    body = self.rfile.read(int(headers.get("content-length", 0)))
                    with door._lock:
                        door.requests.append((line.decode().split(" HTTP")[0], headers, json.loads(body or "null")))
                        reply = door.answers.pop(0)
                    door.before_answer()
                    if reply is None:
                        return
                    self.wfile.write(reply)
                    if b"content-length" not in reply and b"chunked" not in reply:
                        return

        kind: Any = socketserver.ThreadingUnixStreamServer if path else socketserver.ThreadingTCPServer
        kind.daemon_threads, kind.allow_reuse_address, kind.request_queue_size = True, True, 128
        self._server = kind(path or ("127.0.0.1", 0), Handler)
        self.url = f"unix:{path}" if path else f"http://127.0.0.1:{self._server.server_address[1]}/behind/a/proxy"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self) -> Door:
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def away(is_frozen: bool) -> Iterator[str]:
    """The URL of a siwatch that is stopped, or frozen: then the kernel still takes connections, and nobody answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        if not is_frozen:
            listener.close()
            listener = socket.socket()
            listener.bind(("127.0.0.1", 0))  # Nobody else gets the port.
        with listener:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def temporary(call: Callable[[], Any]) -> bool:
    try:
        call()
    except SiwatchError as error:
        return error.is_temporary and error.status is None
    return False


class AwayTests(unittest.IsolatedAsyncioTestCase):
    """What a call costs while siwatch is stopped or frozen."""

    def test_two_hundred_questions_of_twenty_threads_wait_as_one(self) -> None:
        for is_frozen in (False, True):
            with self.subTest(is_frozen=is_frozen), away(is_frozen) as url, ThreadPoolExecutor(20) as threads:
                siwatch, begun = Siwatch(url, "t", patience=0.5, away=60), time.monotonic()
                asked = [threads.submit(temporary, lambda: siwatch.ends_session("ann", 5)) for _ in range(200)]
                self.assertTrue(all(one.result() for one in asked))
                self.assertLess(time.monotonic() - begun, 2)

    async def test_two_hundred_questions_of_twenty_tasks_wait_as_one(self) -> None:
        for is_frozen in (False, True):
            with self.subTest(is_frozen=is_frozen), away(is_frozen) as url:
                async with AsyncSiwatch(url, "t", patience=0.5, away=60) as siwatch:

                    async def ask() -> None:
                        for _ in range(10):
                            with self.assertRaises(SiwatchError) as caught:
                                await siwatch.ends_session("ann", 5)
                            self.assertTrue(caught.exception.is_temporary)

                    begun = time.monotonic()
                    await asyncio.gather(*(ask() for _ in range(20)))
                    self.assertLess(time.monotonic() - begun, 2)

    def test_a_question_waits_two_seconds_by_itself(self) -> None:
        for is_frozen in (False, True):
            with self.subTest(is_frozen=is_frozen), away(is_frozen) as url:
                begun = time.monotonic()
                self.assertTrue(temporary(lambda: Siwatch(url, "t").ends_session("ann", 5)))
                self.assertLess(abs(time.monotonic() - begun - 2), 0.5)

    async def test_one_call_finds_out_that_siwatch_is_back(self) -> None:
        clock = SimpleNamespace(ahead=0.0)
        clock.monotonic = lambda: time.monotonic() + clock.ahead
        busy, answers = problem(503, "unavailable", "retry-after: 9"), [answer({"ends_session": True})] * 2
        with mock.patch("siwatch._wire.time", clock), Door(busy, busy, *answers) as door, Door(busy, busy, *answers) as other_door:
            siwatch, other = AsyncSiwatch(door.url, "t", away=5), Siwatch(other_door.url, "t", away=5)

            async def ask() -> "list[bool | int | None]":
                said: list[bool | int | None] = []
                for question in (siwatch.ends_session, lambda *a: asyncio.to_thread(other.ends_session, *a)):
                    try:
                        said.append(await question("ann", 5))
                    except SiwatchError as error:
                        self.assertTrue(error.is_temporary)
                        said.append(error.status)
                return said

            self.assertEqual(await ask(), [503, 503])
            self.assertEqual(await ask(), [None, None], "at once, without a request")
            clock.ahead = 5.1
            self.assertEqual(await ask(), [503, 503], "asked again")
            self.assertEqual(await ask(), [None, None])
            clock.ahead = 10.2
            self.assertEqual(await ask(), [True, True])
            self.assertEqual(await ask(), [True, True])
            siwatch.close()
        self.assertEqual((len(door.requests), len(other_door.requests)), (4, 4))

    async def test_sign_ins_are_refused_and_questions_answered_at_once(self) -> None:
        full = problem(503, "unavailable", "retry-after: 60")
        with Door(full, answer({"ends_session": False}), problem(401, "unauthorized"), problem(401, "unauthorized")) as door:
            async with AsyncSiwatch(door.url, "t") as siwatch:
                for title in ("No", "siwatch is away"):
                    with self.assertRaisesRegex(SiwatchError, title):
                        await siwatch.sign_in("app", "c")
                self.assertFalse(await siwatch.ends_session("ann", 5))
                for _ in range(2):  # A mistake is no absence.
                    with self.assertRaises(SiwatchError) as caught:
                        await siwatch.position()
                    self.assertEqual(caught.exception.status, 401)


class AsyncTests(unittest.IsolatedAsyncioTestCase):
    def test_the_calls_are_those_of_the_other_client(self) -> None:
        for name, method in inspect.getmembers(Siwatch, inspect.isfunction):
            if not name.startswith("_") or name == "__init__":
                theirs = inspect.signature(getattr(AsyncSiwatch, name))
                self.assertEqual(inspect.signature(method).parameters, theirs.parameters, name)
                if name != "changes":
                    self.assertEqual(inspect.signature(method).return_annotation, theirs.return_annotation, name)

    async def test_each_call_asks_and_reads_as_the_other_client_does(self) -> None:
        calls: list[tuple[bytes, str, tuple[Any, ...], dict[str, Any]]] = [
            (answer(SIGN_IN), "sign_in", ("app", "c"), {"nonce": "n", "redirect_uri": "https://a.example/ü", "wait": 3, "key": "k"}),
            (answer(SIGN_IN), "sign_in", ("app",), {"user_id": "ann", "email": "é@a.example", "is_private_email": False, "key": "k"}),
            (answer({"id": "3-c", "outcome": "waiting"}, 202), "delete", ("app", "ann"), {"key": "k"}),
            (answer({"id": "3-c", "outcome": "done", "tokens": [{"outcome": "proved"}]}), "deletion", ("3-c",), {}),
            (answer(USER), "state", ("a/b ü",), {"app": "example"}),
            (problem(404, "not-found"), "state", ("nobody",), {}),
            (answer({"ends_session": True}), "ends_session", ("ann", 5), {}),
            (answer({"next": "9-a"}), "position", (), {}),
        ]
        with Door(*[call[0] for call in calls]) as door, Door(*[call[0] for call in calls]) as other_door:
            async with AsyncSiwatch(door.url, " token\n") as siwatch:
                other = Siwatch(other_door.url, " token\n")
                for _, name, arguments, options in calls:
                    mine = await getattr(siwatch, name)(*arguments, **options)
                    self.assertEqual(mine, getattr(other, name)(*arguments, **options), name)
        for mine, theirs in zip(door.requests, other_door.requests):
            for request in (mine, theirs):
                self.assertTrue(request[1].pop("host").startswith("127.0.0.1:"))
            self.assertEqual(mine, theirs)
        self.assertEqual((len(door.requests), door.connections), (len(calls), 1), "the connection is kept")

    async def test_a_sign_in_waits_for_its_outcome(self) -> None:
        with Door(answer(WAITING, 202), answer(WAITING), answer(SIGN_IN)) as door:
            async with AsyncSiwatch(door.url, "t") as siwatch:
                sign_in = await siwatch.sign_in("app", "c", wait=9)
        assert sign_in.user
        self.assertEqual((sign_in.id, sign_in.user.user_id), ("7-a", "ann"))
        self.assertEqual([r[0].split("?")[0] for r in door.requests[1:]], ["GET /behind/a/proxy/v1/sign-ins/7-a"] * 2)

    async def test_a_rejection_has_its_reason_at_once_and_later(self) -> None:
        why = {"id": "7-a", "reason": "redirect_uri_mismatch", "detail": "redirect_uri is not the one"}
        later = {**WAITING, "outcome": "rejected", **why}
        with Door(problem(422, "sign-in-rejected", **why), answer(WAITING, 202), answer(later)) as door:
            async with AsyncSiwatch(door.url, "t") as siwatch:
                for _ in range(2):
                    with self.assertRaises(SignInRejected) as caught:
                        await siwatch.sign_in("app", "c")
                    error = caught.exception
                    self.assertEqual((error.id, error.reason, error.detail), ("7-a", why["reason"], why["detail"]))
                    self.assertFalse(error.is_temporary)

    async def test_what_is_temporary_is_tried_again_with_one_key(self) -> None:
        with Door(None, problem(503, "unavailable", "retry-after: 1"), answer(SIGN_IN)) as door:
            async with AsyncSiwatch(door.url, "t") as siwatch:
                begun = time.monotonic()
                self.assertEqual((await siwatch.sign_in("app", "c")).id, "7-a")
        self.assertGreaterEqual(time.monotonic() - begun, 1)
        self.assertEqual(len({r[1]["idempotency-key"] for r in door.requests}), 1)
        self.assertEqual(len(door.requests), 3)

    async def test_a_mistake_is_not_tried_again(self) -> None:
        with Door(problem(400, "bad-request", detail="wait has to be"), b"HTTP/1.1 403 No\r\ncontent-length: 2\r\n\r\nNo") as door:
            async with AsyncSiwatch(door.url, "t") as siwatch:
                with self.assertRaises(SiwatchError) as caught:
                    await siwatch.position()
                self.assertEqual((caught.exception.status, caught.exception.detail), (400, "wait has to be"))
                with self.assertRaisesRegex(SiwatchError, "This is not siwatch's HTTP door"):
                    await siwatch.position()
                with self.assertRaises(ValueError):
                    await siwatch.delete("app", "ann", key="k\r\nx: y")
        self.assertEqual(len(door.requests), 2)

    async def test_changes_come_until_they_are_gone(self) -> None:
        pages = [answer({"next": "1-a", "changes": []}), answer({"next": "1-a", "changes": []}), answer({"next": "2-b", "changes": [CHANGE]})]
        with Door(*pages, None, problem(410, "changes-gone", next="8-c")) as door:
            async with AsyncSiwatch(door.url, "t") as siwatch:
                seen = []
                with self.assertRaises(ChangesGone) as caught:
                    async for change in siwatch.changes(app="example"):
                        seen.append(change.id)
        self.assertEqual((seen, caught.exception.next), (["2-b"], "8-c"))
        self.assertEqual(door.requests[-1][0], "GET /behind/a/proxy/v1/changes?after=2-b&app=example&wait=25")

    async def test_an_answer_has_any_frame_of_http(self) -> None:
        body = json.dumps({"next": "9-a", "padding": "x" * 100_000}).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\n"
        half = len(body) // 2
        chunks = b"".join(b"%X;a=b\r\n%s\r\n" % (len(part), part) for part in (body[:half], body[half:]))
        frames = [
            b"HTTP/1.1 103 Early Hints\r\nlink: </>\r\n\r\n" + head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\nt: v\r\n\r\n",
            head + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body,
            head + b"\r\n" + body,
            b"HTTP/1.0" + head[8:] + b"content-length: %d\r\n\r\n" % len(body) + body,
        ]
        with Door(*frames, answer({"next": "9-a"})) as door:
            async with AsyncSiwatch(door.url, "t") as siwatch:
                for _ in range(len(frames) + 1):
                    self.assertEqual(await siwatch.position(), "9-a")
        self.assertEqual(door.connections, 4, "only the first connection serves twice")

    async def test_no_whole_answer_is_temporary(self) -> None:
        nonsense: list[bytes | None] = [
            None, b"220 mail ready\r\n\r\n", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1\r\n\r\n{",
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3\r\n\r\n\"\xff\"",
            b"HTTP/1.1 200 OK\r\na: " + b"x" * 100_000,
        ]  # fmt: skip
        for bytes_ in nonsense:
            with self.subTest(bytes_), Door(*[bytes_] * 9) as door:
                async with AsyncSiwatch(door.url, "t") as siwatch:
                    with self.assertRaises(SiwatchError) as caught:
                        await siwatch.position()
                    self.assertTrue(caught.exception.is_temporary and caught.exception.status is None)

    async def test_a_silent_siwatch_is_waited_for_no_longer_than_the_timeout(self) -> None:
        with Door(*[answer({"next": "9-a"})] * 9) as door:
            door.before_answer = lambda: time.sleep(3)
            async with AsyncSiwatch(door.url, "t", timeout=0.1) as siwatch:
                begun = time.monotonic()
                with self.assertRaises(SiwatchError):
                    await siwatch.position()
        self.assertLess(time.monotonic() - begun, 5)

    async def test_a_cancelled_call_leaves_no_answer_for_the_next(self) -> None:
        with Door(answer({"next": "1-a"}), answer({"next": "2-a"}), answer({"next": "3-a"})) as door:
            async with AsyncSiwatch(door.url, "t") as siwatch:
                self.assertEqual(await siwatch.position(), "1-a")
                door.before_answer = lambda: time.sleep(0.2)
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(siwatch.position(), 0.1)
                self.assertEqual(await siwatch.position(), "3-a")

    async def test_a_cancellation_that_comes_with_the_answer_is_heard(self) -> None:
        with Door(answer({"next": "1-a"})) as door:
            async with AsyncSiwatch(door.url, "t") as siwatch:
                exchange = siwatch._exchange

                async def exchanged(request: bytes) -> Any:
                    answered = await exchange(request)
                    asyncio.get_running_loop().call_soon(call.cancel)
                    return answered

                siwatch._exchange = exchanged  # type: ignore[method-assign]
                call = asyncio.ensure_future(siwatch.position())
                with self.assertRaises(asyncio.CancelledError):
                    await call

    async def test_many_calls_wait_at_once(self) -> None:
        barrier = threading.Barrier(50)
        with Door(*[answer(SIGN_IN)] * 50) as door:
            door.before_answer = lambda: barrier.wait(30)
            async with AsyncSiwatch(door.url, "t") as siwatch:
                told = await asyncio.gather(*(siwatch.sign_in("app", f"c{number}") for number in range(50)))
        self.assertEqual(len(told), 50)

    def test_each_event_loop_has_its_own_connections(self) -> None:
        with Door(answer({"next": "1-a"}), answer({"next": "2-a"})) as door:
            siwatch = AsyncSiwatch(door.url, "t")

            async def ask() -> int:
                position = await siwatch.position()
                siwatch.close()
                return position

            self.assertEqual([asyncio.run(ask()), asyncio.run(ask())], ["1-a", "2-a"])
        self.assertEqual(door.connections, 2)

    def test_connections_of_an_event_loop_that_has_ended_can_be_closed(self) -> None:
        with Door(answer({"next": "1-a"})) as door:
            siwatch = AsyncSiwatch(door.url, "t")
            self.assertEqual(asyncio.run(siwatch.position()), "1-a")
            siwatch.close()

    async def test_another_program_at_the_url_is_an_error(self) -> None:
        strangers = [b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 3\r\n\r\n<p>", answer(["a"]), answer("No", 401)]
        with Door(*strangers) as door, Door(*strangers) as other_door:
            async with AsyncSiwatch(door.url, "t") as siwatch:
                for _ in strangers:
                    with self.assertRaisesRegex(SiwatchError, "This is not siwatch's HTTP door"):
                        await siwatch.ends_session("ann", 5)
                    with self.assertRaisesRegex(SiwatchError, "This is not siwatch's HTTP door"):
                        await asyncio.to_thread(Siwatch(other_door.url, "t").ends_session, "ann", 5)

    async def test_a_unix_socket_serves_as_well(self) -> None:
        with tempfile.TemporaryDirectory() as folder, Door(answer({"next": "9-a"}), path=os.path.join(folder, "s")) as door:
            async with AsyncSiwatch(door.url, "t") as siwatch:
                self.assertEqual(await siwatch.position(), "9-a")
        self.assertEqual(door.requests[0][0], "GET /v1/changes")
        self.assertEqual(door.requests[0][1]["authorization"], "Bearer t")

    def test_errors_have_their_public_names(self) -> None:
        for error in (SiwatchError, SignInRejected, ChangesGone):
            self.assertEqual(error.__module__, "siwatch")

    def test_an_error_crosses_to_another_process(self) -> None:
        error = SignInRejected(422, {"type": "t", "reason": "code_expired", "id": "3-c"}, 2)
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(copy), copy.reason, copy.id, copy.retry_after, str(copy)), (SignInRejected, "code_expired", "3-c", 2, str(error)))

    def test_a_url_of_another_kind_is_an_error(self) -> None:
        bad = ("ftp://a.example", "http://", "http:/a.example", "http://a.example:99999", "http://a.example:x", "http://u:p@a.example")
        for url in (*bad, "http://a.example?x", "unix:", "unix:door.sock", ""):
            with self.assertRaisesRegex(ValueError, "The URL has to be"):
                AsyncSiwatch(url, "t")
        for url in ("http://a.example", "https://a.example:1/base/", "http://[::1]:9465", "unix:/run/door.sock"):
            AsyncSiwatch(url, "t")

    def test_no_error_quotes_a_token(self) -> None:
        AsyncSiwatch("http://a.example", " opaque\n")
        for token in ("opaque\nopaque", "", "opäque"):
            with self.assertRaises(ValueError) as caught:
                AsyncSiwatch("http://a.example", token)
            self.assertNotIn("paque", str(caught.exception))


if __name__ == "__main__":
    unittest.main()

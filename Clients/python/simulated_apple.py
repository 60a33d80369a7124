# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""A simulated Apple for tests of a backend, with the standard library only: siwatch-simulator as a process, and its people.

Points in time are in milliseconds since 1970 UTC. Limits of waits are in seconds. docs/simulator.md lists the control routes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlsplit

T = TypeVar("T")


def wait_until(look: Callable[[], T | Literal[False] | None], within: float = 30, pause: float = 0.02) -> T:
    """The first true answer of `look`, which it asks again and again. Fails after `within` seconds."""
    end = time.monotonic() + within
    while not (answer := look()):
        assert time.monotonic() < end, f"still {answer!r} after {within} seconds"
        time.sleep(pause)
    return answer


class SimulatorRefused(Exception):
    """The simulator answers a control route with 400, 404 or 409. The text says why."""


@dataclass(frozen=True)
class AppleSignIn:
    """What the device brings to the backend. The `code` lives five minutes."""

    code: str
    user_id: str
    client_id: str
    granted_at: int
    nonce: str | None = None
    redirect_uri: str | None = None
    email: str | None = None
    email_is_private: bool | None = None


class AppleUser:
    """A person with an Apple Account. `address` is `relay`, `own` or `none`.

    The methods that end something return Apple's notifications, after the receivers have answered 200. `emission` are members of the
    control route: `deliver=False` for a notification that gets lost, `event_time` for one that comes late.
    """

    def __init__(self, apple: SimulatedApple, address: str) -> None:
        self._apple, self._address = apple, address
        self._sign_ins: list[AppleSignIn] = []

    @property
    def user_id(self) -> str:
        """Apple's `sub`. The first sign-in makes it."""
        assert self._sign_ins, "the user has not signed in yet"
        return self._sign_ins[0].user_id

    def sign_in(self, client_id: str | None = None, *, nonce: str | None = None, redirect_uri: str | None = None) -> AppleSignIn:
        """Signs in at a client, the first configured one by default."""
        body = {"credential": "authorization_code", "client_id": client_id, "nonce": nonce, "redirect_uri": redirect_uri}
        if self._sign_ins:
            answer = self._apple.control("POST", "sign-ins", {"user_ids": [self.user_id], **body})
        else:
            answer = self._apple.control("POST", "users", {"address": self._address, **body})
        members = answer["sign_ins"][0]
        members["code"] = members.pop("authorization_code")
        self._sign_ins.append(AppleSignIn(**members))
        return self._sign_ins[-1]

    def withdraw_consent(self, **emission: Any) -> list[dict[str, Any]]:
        """Stops using Sign in with Apple for the apps of the latest sign-in."""
        return self._apple.cause("consent-revocations", self.user_id, **emission)

    def delete_account(self, **emission: Any) -> list[dict[str, Any]]:
        """Deletes the Apple Account. The user cannot sign in again."""
        return self._apple.cause("account-deletions", self.user_id, **emission)

    def switch_relay(self, on: bool, **emission: Any) -> list[dict[str, Any]]:
        """Lets Apple's mail relay forward mail, or stops it. The user needs the address `relay`."""
        return self._apple.cause("mail-forwarding", self.user_id, enabled=on, **emission)

    def truth(self) -> dict[str, Any]:
        """What Apple knows about the user."""
        truth: dict[str, Any] = self._apple.control("GET", f"users/{quote(self.user_id)}")
        return truth


class SimulatedApple:
    """siwatch-simulator. It posts no notification itself: this class does, to each of `notification_urls`, until the answer is 200."""

    def __init__(self, folder: Path, client_ids: Sequence[str] = ()) -> None:
        self.notification_urls: list[str] = []
        options = [part for client_id in client_ids for part in ("--client-id", client_id)]
        self._process = Process(program("SIWATCH_SIMULATOR", "siwatch-simulator"), "--print-config", *options, folder=folder)
        self._process.line("keys_endpoint = ")
        self.url = self._process.line("listening on ").split("listening on ")[1].strip()
        self.config = "\n".join(self._process.lines) + "\n"

    def new_user(self, address: str = "relay") -> AppleUser:
        return AppleUser(self, address)

    def control(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Calls a control route, such as `GET counters`. Members of the body that are None are left out."""
        given = None if body is None else {name: value for name, value in body.items() if value is not None}
        status, content = call(method, f"{self.url}/simulator/{path}", None if given is None else json.dumps(given).encode())
        answer = json.loads(content) if content else {}
        if status != 200:
            raise SimulatorRefused(answer.get("error", f"{method} {path}: {status}"))
        return answer

    def cause(self, event: str, user_id: str, *, deliver: bool = True, **members: Any) -> list[dict[str, Any]]:
        """Lets an event happen to a user, and posts Apple's notifications of it."""
        notifications: list[dict[str, Any]] = self.control("POST", event, {"user_ids": [user_id], **members})["notifications"]
        for notification in notifications if deliver else []:
            self.deliver(notification)
        return notifications

    def deliver(self, notification: Mapping[str, Any]) -> None:
        """Posts a notification to each URL, again if the answer is not 200, three times at most."""
        for url in self.notification_urls:
            statuses: list[int] = []
            while not statuses or (statuses[-1] != 200 and len(statuses) < 3):
                time.sleep(0.2 * len(statuses))
                statuses.append(call("POST", url, notification["body"].encode())[0])
            assert statuses[-1] == 200, f"{url} answers Apple's notification with {statuses}"

    @contextlib.contextmanager
    def fault(self, **members: Any) -> Iterator[None]:
        """Apple is in trouble within the `with`: `status=503`, `delay_ms=2000`, `connection="reset"`, … docs/simulator.md lists all."""
        id = self.control("POST", "faults", members)["id"]
        try:
            yield
        finally:
            # A fault with a `count` may be over already.
            with contextlib.suppress(SimulatorRefused):
                self.control("DELETE", f"faults/{id}")

    def stop(self) -> None:
        self._process.stop()


class Process:
    """A program and the lines that it prints."""

    def __init__(self, *command: str, folder: Path) -> None:
        self.lines: list[str] = []
        self._name, self._is_silent, self._changed = command[0], False, threading.Condition()
        # In a session of its own, so that Ctrl-C reaches pytest alone, and pytest stops it.
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        threading.Thread(target=self._read, daemon=True).start()

    def line(self, containing: str, within: float = 60) -> str:
        """The first line with a text. Stops the program if it prints none."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_silent or any(containing in line for line in self.lines), within)
            found = next((line for line in self.lines if containing in line), None)
        if found is None:
            self.stop()
            raise AssertionError(f"{self._name} does not print {containing!r} but:\n" + "\n".join(self.lines))
        return found

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout as output:
            for line in output:
                with self._changed:
                    self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._is_silent = True
            self._changed.notify_all()


def program(variable: str, name: str) -> str:
    found = shutil.which(os.environ.get(variable) or name)
    assert found, f"{name} is not on the PATH, and {variable} names no program"
    return os.path.abspath(found)


def call(method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] = {}) -> tuple[int, bytes]:
    """Status and body. The status is 0 if nobody answers."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=40)
    try:
        connection.request(method, f"{parts.path}?{parts.query}".rstrip("?"), body, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, HTTPException):
        return 0, b""
    finally:
        connection.close()

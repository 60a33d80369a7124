# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Fixtures of pytest: a simulated Apple, a siwatch with the HTTP door, and a user who signs in.

    pytest_plugins = ["siwatch_pytest"]    # in the top conftest.py

The programs are those that the environment variables SIWATCH and SIWATCH_SIMULATOR name, or `siwatch` and `siwatch-simulator` on the PATH.
Everything listens on loopback and keeps its files in a temporary folder. docs/simulator.md shows a test. Needs the folder
siwatch and simulated_apple.py beside it.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest

from simulated_apple import AppleUser, Process, SimulatedApple, T, call, program
from siwatch import Siwatch, WebhookRejected, verify_webhook

_CONFIG = """
[operations]
listen = ""
socket = ""
[log]
format = "text"
[http]
listen = "127.0.0.1:{port}"
max_requests_per_second = 1000000
[[http.client]]
name = "backend"
token_files = ["backend.token"]
may = ["notify", "sign_in", "delete", "read"]
[[delivery]]
name = "backend"
url = "{webhooks}"
secret_files = ["backend.whsec"]
email = true
"""


class Webhooks:
    """Receives siwatch's webhooks, verifies them, and hands each to the URLs in `forward_to`, byte by byte.

    If a backend there does not answer 2xx, siwatch gets its answer and tries again.
    """

    def __init__(self) -> None:
        self.secret = ""
        self.forward_to: list[str] = []
        self._events: dict[str, Any] = {}
        self._changed = threading.Condition()
        webhooks = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(webhooks._take(dict(self.headers.items()), body))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/siwatch"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def events(self) -> list[dict[str, Any]]:
        """The bodies of all verified webhooks, each once."""
        with self._changed:
            return list(self._events.values())

    def wait(self, type: str, user_id: str, within: float = 30, **data: Any) -> dict[str, Any]:
        """The first webhook of a type, such as `credential.revoked`, about a user, with these members of `data`."""
        data["user_id"] = user_id

        def found() -> Any:
            return next((e for e in self._events.values() if e["type"] == type and data.items() <= e["data"].items()), None)

        with self._changed:
            event: dict[str, Any] = self._changed.wait_for(found, within)
            assert event, f"no webhook {type} with {data} within {within} seconds, but {list(self._events.values())}"
            return event

    def _take(self, headers: dict[str, str], body: bytes) -> int:
        try:
            event = verify_webhook([self.secret], headers, body)
        except WebhookRejected:
            return 400
        # Without the headers of the connection, which are about the way to here.
        handed = {name: value for name, value in headers.items() if name.lower().startswith(("webhook-", "content-type"))}
        answers = [call("POST", url, body, handed)[0] for url in self.forward_to]
        with self._changed:
            self._events[{name.lower(): value for name, value in headers.items()}["webhook-id"]] = event
            self._changed.notify_all()
        return next((status or 503 for status in answers if not 200 <= status <= 299), 200)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Daemon:
    """A siwatch on an SQLite file. `client` is a client with all rights; `url`, `token` and `webhook_secret` are for the backend."""

    app = "example"

    def __init__(self, folder: Path, apple: SimulatedApple, webhooks: Webhooks, config: str = "") -> None:
        self._folder, self._program = folder, program("SIWATCH", "siwatch")
        self._template = apple.config + _CONFIG.replace("{webhooks}", webhooks.url) + config
        self.config_file = folder / "siwatch.toml"
        self._configure(port=0)
        self.command("secret", "new", "token", str(folder / "backend.token"))
        self.command("secret", "new", "webhook", str(folder / "backend.whsec"))
        self.command("migrate", "--config", str(self.config_file))
        self.token, self.webhook_secret = ((folder / f"backend.{kind}").read_text().strip() for kind in ("token", "whsec"))
        webhooks.secret = self.webhook_secret
        self.start()
        self.url = "http://" + self._process.line("event=door_open").split("address=")[1].split()[0]
        self.notification_url = f"{self.url}/apple/notifications"
        apple.notification_urls.append(self.notification_url)
        self.client = Siwatch(self.url, self.token, away=0)
        # From now on it starts at the same port.
        self._configure(port=urlsplit(self.url).port or 0)

    def command(self, *arguments: str) -> str:
        """Runs a command of siwatch, and returns its output."""
        done = subprocess.run([self._program, *arguments], cwd=self._folder, capture_output=True, text=True)
        assert done.returncode == 0, f"siwatch {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self) -> None:
        """Starts siwatch again after `stop`, at the same URL."""
        self._process = Process(self._program, "run", "--config", str(self.config_file), folder=self._folder)
        self._process.line("event=ready")

    def stop(self) -> None:
        self._process.stop()

    @property
    def log(self) -> str:
        return "\n".join(self._process.lines)

    def wait_for_change(self, look: Callable[[], T | Literal[False] | None], within: float = 30) -> T:
        """The first true answer of `look`, which it asks after each change that siwatch records."""
        end = time.monotonic() + within
        after = self.client.position()
        while not (answer := look()):
            assert time.monotonic() < end, f"still {answer!r} after {within} seconds; siwatch's log:\n{self.log}"
            wait = max(1, min(25, round(end - time.monotonic())))
            path = f"{self.url}/v1/changes?after={after}&wait={wait}"
            status, content = call("GET", path, headers={"Authorization": f"Bearer {self.token}"})
            assert status == 200, f"siwatch answers {path} with {status}"
            after = json.loads(content)["next"]
        return answer

    def wait_for_state(self, user_id: str, state: str, within: float = 30) -> Any:
        """The user, once the state is `authorized`, `revoked` or `notFound`."""
        return self.wait_for_change(lambda: (user := self.client.state(user_id, self.app)) and user.state == state and user, within)

    def wait_until_session_ends(self, user_id: str, signed_in_at: int, within: float = 30) -> None:
        self.wait_for_change(lambda: self.client.ends_session(user_id, signed_in_at, self.app), within)

    def _configure(self, port: int) -> None:
        self.config_file.write_text(self._template.replace('"127.0.0.1:{port}"', f'"127.0.0.1:{port}"'))


@pytest.fixture(scope="session")
def siwatch_client_ids() -> Sequence[str]:
    """The clients of the app, the primary App ID first. Override it to name your own."""
    return ("com.example.app", "com.example.web")


@pytest.fixture(scope="session")
def siwatch_config() -> str:
    """More tables for siwatch.toml. Override it to shorten a limit, for instance."""
    return ""


@pytest.fixture(scope="session")
def siwatch_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the keys, the configuration and the database are."""
    return tmp_path_factory.mktemp("siwatch")


@pytest.fixture(scope="session")
def simulated_apple(siwatch_folder: Path, siwatch_client_ids: Sequence[str]) -> Iterator[SimulatedApple]:
    """A simulated Apple for all tests of the run."""
    apple = SimulatedApple(siwatch_folder, siwatch_client_ids)
    yield apple
    apple.stop()


@pytest.fixture(scope="session")
def siwatch_webhooks() -> Iterator[Webhooks]:
    """The receiver of siwatch's webhooks. Append the URL of your backend's own to `forward_to`."""
    webhooks = Webhooks()
    yield webhooks
    webhooks.stop()


@pytest.fixture(scope="session")
def siwatch_daemon(
    siwatch_folder: Path, simulated_apple: SimulatedApple, siwatch_webhooks: Webhooks, siwatch_config: str
) -> Iterator[Daemon]:
    """A siwatch for all tests of the run."""
    daemon = Daemon(siwatch_folder, simulated_apple, siwatch_webhooks, siwatch_config)
    yield daemon
    daemon.stop()


@pytest.fixture
def apple_user(simulated_apple: SimulatedApple, siwatch_daemon: Daemon) -> AppleUser:
    """A person who has never signed in. siwatch gets Apple's notifications about the person."""
    return simulated_apple.new_user()

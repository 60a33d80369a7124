# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from simulated_apple import AppleUser, SimulatedApple, SimulatorRefused, wait_until
from siwatch import SignIn, SignInRejected, SiwatchError, verify_webhook
from siwatch.aio import AsyncSiwatch

if TYPE_CHECKING:
    from siwatch_pytest import Daemon, Webhooks

pytest_plugins = ["siwatch_pytest"]

APP = "com.example.app"
PAGE = Path(__file__).resolve().parents[2] / "docs/simulator.md"


def signed_in(daemon: Daemon, user: AppleUser) -> SignIn:
    sign_in = daemon.client.sign_in(APP, user.sign_in().code)
    assert sign_in.user and sign_in.user.user_id == user.user_id and sign_in.signed_in_at
    return sign_in


def ends(daemon: Daemon, user: AppleUser, sign_in: SignIn) -> bool:
    return daemon.client.ends_session(user.user_id, sign_in.signed_in_at or 0)


@contextmanager
def receiver(statuses: list[int]) -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """An endpoint of a backend. It answers with the statuses in turn, and with 200 at the end."""
    taken: list[tuple[dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append((dict(self.headers.items()), self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(statuses.pop(0) if statuses else 200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hook", taken
    server.shutdown()
    server.server_close()


def test_a_user_signs_in(siwatch_daemon: Daemon, apple_user: AppleUser) -> None:
    first = apple_user.sign_in(nonce="n")
    assert first.client_id == APP and first.email_is_private
    sign_in = siwatch_daemon.client.sign_in(APP, first.code, nonce="n")
    assert sign_in.outcome == "applied" and sign_in.user
    assert (sign_in.user.user_id, sign_in.user.email) == (apple_user.user_id, first.email)
    assert siwatch_daemon.wait_for_state(apple_user.user_id, "authorized").reason == "granted"
    assert apple_user.truth()["credentials"][0]["exchanges"] == 1


def test_a_user_signs_in_on_the_web(siwatch_daemon: Daemon, apple_user: AppleUser) -> None:
    back = "https://example.com/back"
    code = apple_user.sign_in("com.example.web", redirect_uri=back).code
    assert siwatch_daemon.client.sign_in("com.example.web", code, redirect_uri=back).outcome == "applied"


def test_withdrawn_consent_ends_the_session(siwatch_daemon: Daemon, apple_user: AppleUser) -> None:
    sign_in = signed_in(siwatch_daemon, apple_user)
    assert not ends(siwatch_daemon, apple_user, sign_in)
    assert [n["type"] for n in apple_user.withdraw_consent()] == ["consent-revoked"]
    siwatch_daemon.wait_until_session_ends(apple_user.user_id, sign_in.signed_in_at or 0)
    assert siwatch_daemon.wait_for_state(apple_user.user_id, "revoked").reason == "consent_revoked"
    assert not ends(siwatch_daemon, apple_user, signed_in(siwatch_daemon, apple_user)), "a new sign-in has a new session"


def test_a_deleted_account_ends_the_session(siwatch_daemon: Daemon, apple_user: AppleUser) -> None:
    sign_in = signed_in(siwatch_daemon, apple_user)
    apple_user.delete_account()
    assert siwatch_daemon.wait_for_state(apple_user.user_id, "notFound").reason == "account_deleted"
    assert ends(siwatch_daemon, apple_user, sign_in)
    with pytest.raises(SimulatorRefused, match="has deleted the Apple Account"):
        apple_user.sign_in()


def test_the_relay_goes_off_and_on(siwatch_daemon: Daemon, siwatch_webhooks: Webhooks, apple_user: AppleUser) -> None:
    signed_in(siwatch_daemon, apple_user)
    for on, word in ((False, "disabled"), (True, "enabled")):
        apple_user.switch_relay(on)
        user = siwatch_daemon.wait_for_change(
            lambda: (user := siwatch_daemon.client.state(apple_user.user_id)) and user.email_forwarding == word and user
        )
        assert user.state == "authorized", "mail has nothing to do with the session"
    event = siwatch_webhooks.wait("credential.email", apple_user.user_id, email_forwarding="disabled")
    assert event["data"]["email"] == user.email


def test_a_user_without_a_relay_address_cannot_switch_it(simulated_apple: SimulatedApple) -> None:
    user = simulated_apple.new_user("own")
    assert user.sign_in().email_is_private is False
    with pytest.raises(SimulatorRefused, match="has no relay address"):
        user.switch_relay(False)


def test_a_webhook_arrives_and_verifies(siwatch_daemon: Daemon, siwatch_webhooks: Webhooks, apple_user: AppleUser) -> None:
    with receiver([503]) as (url, taken):
        siwatch_webhooks.forward_to.append(url)
        sign_in = signed_in(siwatch_daemon, apple_user)
        apple_user.withdraw_consent()
        event = siwatch_webhooks.wait("credential.revoked", apple_user.user_id)
        assert event["data"]["ends_sessions_before"] > (sign_in.signed_in_at or 0)
        events = wait_until(lambda: len(taken) >= 3 and [verify_webhook([siwatch_daemon.webhook_secret], *one) for one in taken])
        siwatch_webhooks.forward_to.remove(url)
    assert event in events, "the backend's own endpoint gets it, byte by byte"


def test_the_client_for_asyncio_follows_a_user(siwatch_daemon: Daemon, apple_user: AppleUser) -> None:
    async def follow() -> list[str | None]:
        async with AsyncSiwatch(siwatch_daemon.url, siwatch_daemon.token) as siwatch:
            position, states = await siwatch.position(), []
            sign_in = await siwatch.sign_in(APP, apple_user.sign_in(nonce="n").code, nonce="n")
            assert sign_in.user and sign_in.user.user_id == apple_user.user_id
            assert not await siwatch.ends_session(apple_user.user_id, sign_in.signed_in_at or 0)
            await siwatch.delete(APP, apple_user.user_id)
            async for change in siwatch.changes(position):
                if change.user_id == apple_user.user_id and change.kind == "state":
                    states.append(change.to_state)
                if states[-1:] == ["revoked"]:
                    break
            assert await siwatch.ends_session(apple_user.user_id, sign_in.signed_in_at or 0)
            return states

    assert asyncio.run(asyncio.wait_for(follow(), 60)) == ["authorized", "revoked"]


@pytest.mark.parametrize("flaw", ["made up", "used", "of another client", "another nonce"])
def test_a_bad_code_is_rejected(siwatch_daemon: Daemon, apple_user: AppleUser, flaw: str) -> None:
    code, client_id, nonce = apple_user.sign_in(nonce="n").code, APP, "n"
    if flaw == "made up":
        code = "c0.made.up"
    elif flaw == "used":
        siwatch_daemon.client.sign_in(client_id, code, nonce=nonce)
    elif flaw == "of another client":
        client_id = "com.example.web"
    else:
        nonce = "m"
    with pytest.raises(SignInRejected) as error:
        siwatch_daemon.client.sign_in(client_id, code, nonce=nonce)
    reasons = {"made up": "code_expired", "used": "code_used", "of another client": "client_mismatch", "another nonce": "bad_id_token"}
    assert error.value.reason == reasons[flaw]


def test_apple_is_away_and_comes_back(siwatch_daemon: Daemon, simulated_apple: SimulatedApple, apple_user: AppleUser) -> None:
    code = apple_user.sign_in().code
    with simulated_apple.fault(endpoint="token", status=503):
        waiting = siwatch_daemon.client.sign_in(APP, code, wait=1, key=code)
        assert waiting.outcome == "waiting" and waiting.user is None
    assert siwatch_daemon.client.sign_in(APP, code, wait=60, key=code).outcome == "applied"
    assert simulated_apple.control("GET", "faults") == {"faults": []}


def test_a_lost_notification_is_told_later(siwatch_daemon: Daemon, simulated_apple: SimulatedApple, apple_user: AppleUser) -> None:
    sign_in = signed_in(siwatch_daemon, apple_user)
    lost = apple_user.withdraw_consent(deliver=False)
    time.sleep(0.2)
    assert not ends(siwatch_daemon, apple_user, sign_in)
    simulated_apple.deliver(lost[0])
    siwatch_daemon.wait_until_session_ends(apple_user.user_id, sign_in.signed_in_at or 0)


def test_every_notification_url_gets_it(siwatch_daemon: Daemon, simulated_apple: SimulatedApple, apple_user: AppleUser) -> None:
    signed_in(siwatch_daemon, apple_user)
    with receiver([500]) as (url, taken):
        simulated_apple.notification_urls.append(url)
        apple_user.withdraw_consent()
        simulated_apple.notification_urls.remove(url)
    assert len(taken) == 2 and taken[0][1] == taken[1][1] and "payload" in json.loads(taken[0][1])
    siwatch_daemon.wait_for_state(apple_user.user_id, "revoked")


def test_siwatch_stops_and_comes_back_at_the_same_url(siwatch_daemon: Daemon, apple_user: AppleUser) -> None:
    sign_in = signed_in(siwatch_daemon, apple_user)
    siwatch_daemon.stop()
    try:
        with pytest.raises(SiwatchError) as error:
            ends(siwatch_daemon, apple_user, sign_in)
        assert error.value.is_temporary
    finally:
        siwatch_daemon.start()
    assert not ends(siwatch_daemon, apple_user, sign_in)


def test_a_wait_ends_at_its_limit() -> None:
    begun = time.monotonic()
    with pytest.raises(AssertionError, match="after 0.1 seconds"):
        wait_until(lambda: None, within=0.1)
    assert time.monotonic() - begun < 5


@pytest.mark.skipif(not PAGE.exists(), reason="the page is not beside the clients")
def test_the_page_shows_a_test_that_passes(tmp_path: Path) -> None:
    backend, test = (dedent(block) for block in re.findall(r"(?ms)^ *```python\n(.*?)^ *```$", PAGE.read_text())[:2])
    (tmp_path / "backend.py").write_text(backend)
    (tmp_path / "test_backend.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "siwatch_pytest", "-p", "no:cacheprovider", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr

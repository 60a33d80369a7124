# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""What a reader copies from the pages lets a mistake through: a time in seconds and a wrong token end no session, and somebody hears of it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent, indent
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest

from simulated_apple import AppleUser
from siwatch import SiwatchError

if TYPE_CHECKING:
    from siwatch_pytest import Daemon

pytest_plugins = ["siwatch_pytest"]

APP = "com.example.app"
ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("docs/**/*.md"), ROOT / "Clients/README.md"]
Ask = Callable[[str, int], Any]

pytestmark = pytest.mark.skipif(not (ROOT / "docs").exists(), reason="the pages are not beside the clients")


def blocks(page: str, language: str = "python") -> list[str]:
    return [dedent(block) for block in re.findall(rf"(?ms)^ *```{language}\n(.*?)^ *```$", (ROOT / page).read_text())]


def run(block: str, /, **names: Any) -> dict[str, Any]:
    exec(compile(block, "page", "exec"), names)
    return names


def replaced(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text, f"the page has no {old}"
        text = text.replace(old, new)
    return text


def quickstart(url: str, token: str, code: str | None) -> Ask:
    sign_in, check = blocks("docs/quickstart.md")[:2]
    place = 'Siwatch("http://127.0.0.1:9465", Path("/etc/backend/backend.token").read_text().strip())'
    sign_in = replaced(sign_in, (place, f"Siwatch({url!r}, {token!r})"))
    client = run("\n".join(line for line in sign_in.splitlines() if re.match("from|siwatch =", line)))
    if code:
        assert run(sign_in, code=code)["session"]["user"]
    return lambda user_id, at: run(check, **client, session={"user": user_id, "signed_in_at": at})


def readme(url: str, token: str, code: str | None) -> Ask:
    block = blocks("Clients/README.md")[0]
    told = replaced(block, ('Siwatch("http://127.0.0.1:9465", token)', "Siwatch(url, token)"), ("nonce=nonce", "nonce=None"))
    told, asked = re.split(r"(?m)^(?=try: +# at each request)", told[: told.index("siwatch.delete")])
    imports = "\n".join(line for line in told.splitlines() if re.match("from|siwatch =", line))
    names = run(f"{imports}\ndef sign_in(code):\n{indent(told, '    ')}\n    return session", url=url, token=token)
    if code:
        assert names["sign_in"](code)["user_id"]
    return lambda user_id, at: run(asked, **{**names, "session": {"user_id": user_id, "signed_in_at": at}})


def simulator(url: str, token: str, code: str | None) -> Ask:
    environment = SimpleNamespace(environ={"SIWATCH_URL": url, "SIWATCH_TOKEN": token})
    names = run(replaced(blocks("docs/simulator.md")[0], ("import os, secrets", "import secrets")), os=environment)
    if code:
        assert names["sign_in"](code)

    def ask(user_id: str, at: int) -> Any:
        names["sessions"]["cookie"] = user_id, at
        return names["me"]("cookie")

    return ask


@contextmanager
def stand_ins(*names: str) -> Iterator[dict[str, Any]]:
    """Modules of a framework that is not installed here."""
    kept = {name: sys.modules.get(name) for name in names}
    made: dict[str, Any] = {name: MagicMock(spec=ModuleType) for name in names}
    sys.modules.update(made)
    try:
        yield made
    finally:
        for name, module in kept.items():
            if module:
                sys.modules[name] = module
            else:
                del sys.modules[name]


def django_allauth(url: str, token: str, code: str | None) -> Ask:
    names = ("allauth", "allauth.account", "allauth.account.signals", "allauth.socialaccount", "allauth.socialaccount.models")
    django = ("django", "django.conf", "django.contrib", "django.contrib.auth", "django.db", "django.db.models")
    others = ("allauth.socialaccount.signals", "django.db.models.signals", "django.dispatch")
    with stand_ins(*names, *django, *others) as made:
        for module in made.values():
            module.receiver = lambda *_, **__: lambda function: function
            module.settings = SimpleNamespace(SIWATCH_URL=url, SIWATCH_TOKEN=token)
            for name in ("user_logged_in", "SocialAccount", "pre_social_login", "logout", "pre_delete"):
                setattr(module, name, MagicMock())
        page = run(blocks("docs/guides/django-allauth.md")[0])
    middleware = page["ended_sessions"](lambda request: "the page")
    if not code:
        account = SimpleNamespace(provider="apple", uid="ann", extra_data={"aud": APP, "iat": 1_790_000_000})
        with pytest.raises(SiwatchError):
            page["tell_sign_in"](SimpleNamespace(account=account, token=None))
    return lambda user_id, at: middleware(SimpleNamespace(session={"apple": [user_id, at]}))


@pytest.mark.parametrize("page", [quickstart, readme, simulator, django_allauth])
def test_a_mistake_is_an_error_and_an_absence_is_none(page: Callable[..., Ask], siwatch_daemon: Daemon, apple_user: AppleUser) -> None:
    user_id = siwatch_daemon.client.sign_in(APP, apple_user.sign_in().code).user.user_id  # type: ignore[union-attr]
    at = siwatch_daemon.client.sign_in(APP, apple_user.sign_in().code).signed_in_at or 0
    ask = page(siwatch_daemon.url, siwatch_daemon.token, apple_user.sign_in().code)
    ask(user_id, at)
    with pytest.raises(SiwatchError) as error:
        ask(user_id, at // 1000)
    assert error.value.status == 400
    with pytest.raises(SiwatchError) as error:
        page(siwatch_daemon.url, siwatch_daemon.token[::-1], None)(user_id, at)
    assert error.value.status == 401
    if page is not simulator:  # The shortest backend of all lets an absence through, too.
        page("http://127.0.0.1:1", siwatch_daemon.token, None)(user_id, at)


def test_a_rejected_sign_in_and_a_wrong_token_are_told_apart(siwatch_daemon: Daemon) -> None:
    for token, status in ((siwatch_daemon.token, None), (siwatch_daemon.token[::-1], 401)):
        sign_in = blocks("docs/quickstart.md")[0]
        place = 'Siwatch("http://127.0.0.1:9465", Path("/etc/backend/backend.token").read_text().strip())'
        # A rejected sign-in is answered before there is a `sign_in`.
        with pytest.raises(SiwatchError if status else NameError) as error:
            run(replaced(sign_in, (place, "Siwatch(url, token)")), url=siwatch_daemon.url, token=token, code="c0.made.up")
        assert status is None or error.value.status == status


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_swallows_an_error(page: Path) -> None:
    """Of whatever language: where an error of siwatch is caught, the temporary one is told from the mistake."""
    for block in re.findall(r"(?ms)^ *```(?:python|js|swift|ruby)\n(.*?)^ *```$", page.read_text()):
        for caught in re.finditer(r"except SiwatchError|rescue Siwatch::Error|as SiwatchError|\.catch\(|catch \(error\)", block):
            after = block[caught.start() : caught.start() + 240]
            assert re.search(r"is_temporary|isTemporary|temporary\?", after), f"{page.name}: {after}"

"""Every page of the console: axe finds nothing moderate or graver, no text is cut, nothing is wider than a phone."""

import os
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client
from django.urls import get_resolver, reverse
from playwright.sync_api import Page, ViewportSize
from pytest_django.live_server_helper import LiveServer

from identity.models import Agent, SecondFactor
from identity.principal import Principal
from nousweb.access.second_factor_step import CODE, PROOF
from tests.console_pages import NO_PAGES, PAGES, story_told
from tests.e2e.conftest import AXE, assert_accessible, assert_keys_work, assert_text_is_whole
from tests.factories import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

ALL_MODES = os.environ.get("AXE_MODES") == "all"
DESKTOP: ViewportSize = {"width": 1440, "height": 900}
OWNERS_PAGES = ("people", "person", "account", "account_confirm", "second_factor_requirements")
PHONE: ViewportSize = {"width": 390, "height": 844}


def test_accessibility_table_covers_every_page() -> None:
    names = {name for name in get_resolver().reverse_dict if isinstance(name, str)}
    assert names - NO_PAGES == {name for name, _, _ in PAGES.values()}


@pytest.fixture
def story(ada: Agent, actor: Principal, bob: User, charlie: User) -> None:
    story_told(ada, actor, bob, charlie)


def half_logged_in(stranger: Page, manager: Page, owner: User, live_server: LiveServer) -> None:
    """Give the owner a second factor; the stranger typed their password, the manager's code is an old one."""
    SecondFactor.objects.create(person=owner, secret="of no app")
    client = Client()
    client.post(reverse("login"), {"username": "owner", "password": PASSWORD})
    cookie = client.cookies["sessionid"].value
    stranger.context.add_cookies([{"name": "sessionid", "value": cookie, "url": live_server.url}])
    session = SessionStore(next(one["value"] for one in manager.context.cookies() if one["name"] == "sessionid"))
    session[PROOF] = {"way": CODE, "at": 0}
    session.save()


def test_accessibility_has_no_serious_violation(
    story: None,
    open_page: Callable[..., Page],
    log_in: Callable[..., Page],
    complaints: list[str],
    charlie: User,
    live_server: LiveServer,
    subtests: pytest.Subtests,
) -> None:
    """Each page is loaded once: wide and light, then dark on a phone. The dark theme changes colours only, so that only
    their rules are checked in the wide window, and a light phone only for AXE_MODES=all."""
    owner = User.objects.create_superuser("owner", password=PASSWORD)
    stranger, visitor, manager = open_page(), log_in(charlie), log_in(owner)
    half_logged_in(stranger, manager, owner, live_server)
    browsers = dict.fromkeys(("login", "login_code", "invitation"), stranger)
    browsers |= dict.fromkeys(OWNERS_PAGES, manager)
    for page in (stranger, visitor, manager):
        # Sent once; otherwise its half a megabyte goes to each page through three processes.
        page.add_init_script(AXE)
    for name, (url_name, arguments, query) in PAGES.items():
        page = browsers.get(url_name, visitor)
        before = len(complaints)
        with subtests.test(name):
            page.goto(reverse(url_name, args=arguments()) + (query if isinstance(query, str) else query()))
        # The rail is the same on every page.
        left_out = "" if name in ("login", "home") else ".rail"
        with subtests.test(f"{name}, light"):
            # A colour that is on its way from one theme to the other has the contrast of neither.
            page.emulate_media(color_scheme="light", reduced_motion="reduce")
            page.set_viewport_size(DESKTOP)
            assert_accessible(page, left_out=left_out)
            assert_keys_work(page)
            assert_text_is_whole(page)
        with subtests.test(f"{name}, dark"):
            page.emulate_media(color_scheme="dark", reduced_motion="reduce")
            assert_accessible(page, *(() if ALL_MODES else ("cat.color",)), left_out=left_out)
        with subtests.test(f"{name}, dark, on a phone"):
            page.set_viewport_size(PHONE)
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
            assert_accessible(page, left_out=left_out)
            assert_text_is_whole(page)
            if ALL_MODES:
                page.emulate_media(color_scheme="light", reduced_motion="reduce")
                assert_accessible(page, left_out=left_out)
        assert complaints[before:] == [], name

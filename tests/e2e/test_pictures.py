"""Every page of the console as pictures, to look at: PICTURES=folder python -m pytest -n 0 tests/e2e/test_pictures.py

At 1440, 1024 and 390 pixels, dark, and at twice the size of letters: nothing scrolls sideways, nothing moves while a
page comes up, the browser complains of nothing. PICTURED=pattern draws only the pages whose names it fits.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Browser, BrowserContext, Page
from pytest_django.live_server_helper import LiveServer

from tests.console_pages import PAGES
from tests.e2e import test_accessibility as walk
from tests.factories import PASSWORD

FOLDER = os.environ.get("PICTURES", "")
ONLY = os.environ.get("PICTURED", "")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not FOLDER, reason="PICTURES names no folder to draw into."),
]
story = walk.story

MAX_SHIFT = 0.01
"""Cumulative layout shift of a page that comes up."""
TALLEST = 3_000
"""Pixels of a page that are drawn; the rest is more of the same list."""
VIEWS: dict[str, dict[str, Any]] = {
    "1440": {"viewport": {"width": 1440, "height": 900}},
    "1024": {"viewport": {"width": 1024, "height": 768}},
    "390": {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2},
    "dark": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"},
    # What a window of 1440 pixels has when its reader zooms to 200 %.
    "zoom": {"viewport": {"width": 720, "height": 450}, "device_scale_factor": 2},
}
SHIFT = """() => new Promise((done) => {
    const told = (node) => node.nodeType === 1 ? `${node.localName}.${node.className}` : node.nodeName;
    const found = {sum: 0, moved: []};
    const add = (list) => list.getEntries().filter((one) => !one.hadRecentInput).forEach((one) => {
        found.sum += one.value;
        found.moved.push(...one.sources.map((source) => source.node ? told(source.node) : "gone"));
    });
    new PerformanceObserver(add).observe({type: "layout-shift", buffered: true});
    requestAnimationFrame(() => setTimeout(() => done(found), 50));
})"""


@pytest.fixture
def views(chromium: Browser, live_server: LiveServer) -> Iterator[Callable[..., BrowserContext]]:
    """Opens a window of one of the views, with the cookies of another one."""
    opened = []

    def view(shown: dict[str, Any], cookies: Any) -> BrowserContext:
        context = chromium.new_context(base_url=live_server.url, reduced_motion="reduce", **shown)
        context.add_cookies(cookies)
        opened.append(context)
        return context

    yield view
    for context in opened:
        context.close()


def draw(page: Page, name: str, view: str) -> None:
    """Keep a picture of the page, as tall as it is up to TALLEST."""
    path = Path(FOLDER) / view / f"{re.sub(r'[^a-z0-9]+', '-', name.lower())}.png"
    width, height = page.evaluate("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, TALLEST)}
    page.screenshot(path=path, full_page=True, clip=clip)  # type: ignore[arg-type]


@pytest.mark.parametrize("view", VIEWS)
def test_pictures_show_pages_that_stand_still(
    story: None,
    open_page: Callable[..., Page],
    log_in: Callable[..., Page],
    views: Callable[..., BrowserContext],
    charlie: User,
    live_server: LiveServer,
    subtests: pytest.Subtests,
    view: str,
) -> None:
    owner = User.objects.create_superuser("owner", password=PASSWORD)
    stranger, visitor, manager = open_page(), log_in(charlie), log_in(owner)
    walk.half_logged_in(stranger, manager, owner, live_server)
    drawn = {page: views(VIEWS[view], page.context.cookies()).new_page() for page in (stranger, visitor, manager)}
    browsers = dict.fromkeys(("login", "login_code", "invitation"), stranger)
    browsers |= dict.fromkeys(("people", "person", "account", "account_confirm", "second_factor_requirements"), manager)
    complaints: list[str] = []
    for page in drawn.values():
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda told: complaints.append(told.text) if told.type == "error" else None)
    for name, (url_name, arguments, query) in PAGES.items():
        if not re.search(ONLY, name):
            continue
        page = drawn[browsers.get(url_name, visitor)]
        complaints.clear()
        with subtests.test(f"{name}, {view}"):
            page.goto(reverse(url_name, args=arguments()) + (query if isinstance(query, str) else query()))
            shift = page.evaluate(SHIFT)
            draw(page, name, view)
            wide, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
            assert wide <= window
            assert shift["sum"] <= MAX_SHIFT, shift["moved"]
            assert [told for told in complaints if "the server responded with a status of 4" not in told] == []

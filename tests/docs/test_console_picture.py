"""The README's picture of the console, drawn from the demo as its reviewer sees it:

CONSOLE_PICTURE=docs/console.png python -m pytest -n 0 tests/docs/test_console_picture.py
"""

import os

import pytest

from tests.e2e.conftest import chromium  # noqa: F401

FILE = os.environ.get("CONSOLE_PICTURE", "")
pytestmark = pytest.mark.skipif(not FILE, reason="CONSOLE_PICTURE names no file to draw into.")


def test_console_picture_is_drawn(demo, chromium):  # noqa: F811
    page = chromium.new_page(base_url=demo.address, viewport={"width": 1440, "height": 900}, color_scheme="light")
    page.goto("/login/")
    page.get_by_label("Username").fill("reviewer")
    page.get_by_label("Password").first.fill(demo.passwords["reviewer"])
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Leave the demo").click()
    page.get_by_role("button", name="Leave the demo").wait_for(state="detached")
    page.goto("/review/")
    page.get_by_role("link", name="Values of Marlow", exact=True).click()
    page.get_by_role("button", name="Approve").first.wait_for()
    page.wait_for_load_state("networkidle")
    page.mouse.move(0, 0)
    page.screenshot(path=FILE)
    page.close()

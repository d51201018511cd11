"""The README's picture of the console, a proposal of the demo as its reviewer sees it.

Each run takes the steps to the page and looks for what the picture shows. This draws it again, into the file named:

CONSOLE_PICTURE=docs/console.png python -m pytest -n 0 tests/docs/test_console_picture.py
"""

import os
import re

from playwright.sync_api import expect

from tests.docs.snippets import PROJECT

FILE = os.environ.get("CONSOLE_PICTURE", "")
MOST_BYTES = 300_000
SHOWN = (
    *("Home", "Identity", "Prompts", "Memory", "Expectations", "Settings", "Audit"),
    *("Inbox: identity", "High risk", "Current and proposed text", "Never let a page repeat without a note"),
    *("Learned from", "Why high risk", "Impact", "Approve", "Reject", "Edit", "More", "Discussion", "History"),
    *("Protocols · edits", "Environment · adds"),
)
"""Texts of the picture, which the page must still have."""


def test_console_still_is_as_the_picture_of_the_readme_shows_it(demo, chromium):
    page = chromium.new_page(base_url=demo.address, viewport={"width": 1440, "height": 900}, color_scheme="light")
    page.goto("/login/")
    page.get_by_label("Username").fill("reviewer")
    page.get_by_label("Password").first.fill(demo.passwords["reviewer"])
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Leave the demo").click()
    page.get_by_role("button", name="Leave the demo").wait_for(state="detached")
    page.goto("/review/")
    page.get_by_role("link", name="Never let a page repeat").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Values of Marlow")
    page.wait_for_load_state("networkidle")
    visible = " ".join(page.locator("body").inner_text().split())
    assert [text for text in SHOWN if text not in visible] == []
    page.mouse.move(0, 0)
    if FILE:
        page.screenshot(path=FILE)
    page.close()


def test_readme_has_the_picture():
    (path,) = re.findall(r"!\[.+\]\((.+)\)", (PROJECT / "README.md").read_text())
    assert (PROJECT / path).stat().st_size <= MOST_BYTES

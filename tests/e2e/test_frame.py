"""What all pages share: they fit the window, show where one is, and lead on from where nothing is."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from identity.models import Agent
from identity.principal import Principal
from memory.services.facts import fact_learn
from tests.factories import make_proposal, make_run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LogIn = Callable[..., Page]
LONG = "It read the whole manual of the lighthouse twice and wants to keep what it learned of the lamp. " * 8


def test_long_reason_leaves_the_identity_page_in_its_window(
    log_in: LogIn, ada: Agent, actor: Principal, bob: User
) -> None:
    make_proposal(ada, actor, "values", reason=LONG)
    make_proposal(ada, actor, "boundaries", reason="x" * 400)
    page = log_in(bob)
    page.goto("/agents/ada/identity/")
    for width in (1440, 1024, 768, 390):
        page.set_viewport_size({"width": width, "height": 900})
        expect(page.locator(".identity-waiting a").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for panel in page.locator(".identity-section").all():
            box, column = panel.bounding_box(), page.locator(".identity-sections").bounding_box()
            assert box is not None
            assert column is not None
            assert box["width"] <= column["width"] + 1


def test_rail_shows_the_page_that_one_is_on(log_in: LogIn, ada: Agent, bob: User) -> None:
    page = log_in(bob, height=420)
    page.goto("/agents/ada/index/")
    here = page.locator(".rail-scroll [aria-current=page]")
    expect(here).to_have_count(1)
    expect(here).to_be_in_viewport(ratio=0.9)


@pytest.mark.parametrize("place", ["events", "working", "context/pins"])
def test_line_of_tabs_on_a_phone_begins_with_a_whole_word(log_in: LogIn, ada: Agent, bob: User, place: str) -> None:
    page = log_in(bob, width=390)
    page.goto(f"/agents/ada/{place}/")
    line, here = page.locator(".tabs"), page.locator(".tabs [aria-current=page]")
    page.evaluate("() => document.fonts.ready.then(() => null)")
    expect(here).to_be_in_viewport(ratio=1)
    assert line.evaluate("line => line.scrollLeft") > 0
    begins = line.evaluate("line => line.getBoundingClientRect().left + 24")
    spans = [tab.bounding_box() for tab in page.locator(".tabs .tab:visible").all()]
    cut = [span for span in spans if span and span["x"] + 8 < begins < span["x"] + span["width"] - 8]
    assert cut == [], "no word is where the edge has stopped to fade"


def test_nothing_at_an_address_has_ways_on(log_in: LogIn, ada: Agent, bob: User) -> None:
    page = log_in(bob)
    answer = page.goto("/agents/ada/facts/nothing-like-this/")
    assert answer is not None
    assert answer.status == 404
    page.get_by_role("link", name="Go one level up").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Facts")
    page.goto("/nothing/")
    expect(page.locator(".rail")).to_be_visible()


@pytest.mark.parametrize("width", [390, 1440])
def test_filter_of_a_page_is_a_menu_and_its_views_stand_side_by_side(
    log_in: LogIn, ada: Agent, bob: User, width: int
) -> None:
    page = log_in(bob, width=width, height=844)
    page.goto("/audit/")
    memory = page.locator(".views").get_by_role("link", name="Memory")
    expect(memory).to_be_hidden()
    page.locator(".views summary").click()
    memory.click()
    expect(page.locator(".views summary")).to_have_text("Memory")
    page.goto("/agents/ada/health/")
    page.locator(".views").get_by_role("link", name="Tokens by memory").click()
    expect(page.locator(".views [aria-current]")).to_have_text("Tokens by memory")
    expect(page.locator(".views").get_by_role("link", name="Search index")).to_be_visible()


@pytest.mark.parametrize("place", ["context/?input=Who is on call?", "facts/", "health/"])
def test_page_has_one_row_of_tabs(log_in: LogIn, ada: Agent, bob: User, place: str) -> None:
    page = log_in(bob)
    page.goto(f"/agents/ada/{place}")
    expect(page.locator(".views, .result-parts nav").first).to_be_visible()
    expect(page.locator(".tabs:visible")).to_have_count(1)


def test_title_of_a_row_looks_alike_on_every_list(log_in: LogIn, ada: Agent, actor: Principal, bob: User) -> None:
    fact_learn(agent=ada, content="The lamp is red.", subject="lamp", by=actor)
    make_run(ada, actor)
    make_proposal(ada, actor, "values")
    page = log_in(bob)
    for place in ("facts/", "subjects/", "context/runs/", "/agents/", "/inbox/"):
        page.goto(place if place.startswith("/") else f"/agents/ada/{place}")
        title = page.locator("main [data-keylist] [data-open]").first
        look = title.evaluate("title => [getComputedStyle(title).fontWeight, getComputedStyle(title).fontSize]")
        assert look == ["500", "14px"], place


OVER = """async (summary) => {
  await new Promise(requestAnimationFrame)
  await new Promise(requestAnimationFrame)
  const {parentElement} = summary
  return [...parentElement.children, parentElement.nextElementSibling]
    .find((one) => one && getComputedStyle(one).position === "absolute")?.getBoundingClientRect().toJSON()
}"""

SMALL = """() => [...document.querySelectorAll("body *")]
  .filter((one) => one.checkVisibility({visibilityProperty: true}))
  .filter((one) => {
    const words = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())
    const size = parseFloat(getComputedStyle(one).fontSize)
    const pressed = one.matches(".btn, .breadcrumb a, details.more > summary, .tab, .nav-link")
    return !one.matches(".avatar, .visually-hidden")
      && ((words && size > 0 && size < 13) || (pressed && one.offsetHeight < 40))
  }).map((one) => one.outerHTML.slice(0, 120))"""


def test_phone_shows_no_text_and_no_button_too_small(log_in: LogIn, ada: Agent, actor: Principal, bob: User) -> None:
    proposal = make_proposal(ada, actor, "values")
    page = log_in(bob, width=390, height=844)
    for place in ("/", "/inbox/", f"/review/{proposal.pk}/", "/agents/ada/identity/values/", "/agents/ada/health/"):
        page.goto(place)
        assert page.evaluate(SMALL) == [], place


@pytest.mark.parametrize("width", [390, 1440])
def test_what_opens_over_the_page_keeps_within_the_window(
    log_in: LogIn, ada: Agent, actor: Principal, bob: User, width: int
) -> None:
    proposal, run = make_proposal(ada, actor, "values"), make_run(ada, actor)
    page = log_in(bob, width=width, height=844)
    opened = 0
    for place in (
        "/audit/",
        f"/review/{proposal.pk}/",
        f"/agents/ada/context/{run.pk}/",
        "/agents/ada/context/expectations/",
        "/agents/ada/facts/",
        "/agents/ada/identity/",
    ):
        page.goto(place)
        for summary in page.locator("main, header").locator("details[data-popover] > summary:visible").all():
            summary.click()
            over = summary.evaluate(OVER)
            if over:
                opened += 1
                assert over["height"] > 20, ("there is something in it", place, summary.inner_text())
                assert over["left"] >= 0, (place, summary.inner_text())
                assert over["right"] <= width, (place, summary.inner_text())
            page.keyboard.press("Escape")
    assert opened > 5

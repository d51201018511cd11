"""Memory in a real browser: a fact found, marked as wrong and restored; a text tried on the bench; a loop unfolded."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from context.services.context import context_respond
from identity.models import Agent
from identity.principal import Principal
from memory.models import Censor, Fact
from memory.services.censors import censor_create
from memory.services.events import events_record
from memory.services.facts import fact_learn, fact_supersede
from tests.e2e.conftest import press_key
from tests.factories import make_fact, make_run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LogIn = Callable[..., Page]


@pytest.fixture
def facts(ada: Agent, actor: Principal) -> list[Fact]:
    return [
        fact_learn(agent=ada, content=content, subject=subject, by=actor).fact
        for content, subject in (("Tim sails.", "Tim"), ("Ann rows.", "Ann"), ("The sea is calm.", "Sea"))
    ]


@pytest.mark.parametrize("javascript", [True, False])
def test_fact_is_found_marked_as_wrong_and_restored(
    log_in: LogIn, bob: User, facts: list[Fact], javascript: bool
) -> None:
    page = log_in(bob, javascript=javascript)
    page.goto("/agents/ada/facts/")
    page.get_by_role("textbox", name="Search", exact=True).fill("tim")
    press_key(page, "Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.wait_for_url("**q=tim*")
    page.get_by_role("link", name="Tim sails.").click()
    page.locator(".page-actions summary", has_text="More").click()
    page.get_by_role("link", name="Mark as wrong").click()
    page.get_by_label("Reason").fill("He never did.")
    page.get_by_role("button", name="Mark as wrong").click()
    expect(page.locator("#page-head").get_by_text("Marked as wrong", exact=True)).to_be_visible()
    expect(page.get_by_text("He never did.", exact=True)).to_be_visible()
    assert not Fact.objects.get(pk=facts[0].pk).active
    page.get_by_role("link", name="Restore").click()
    page.get_by_role("button", name="Restore fact").click()
    expect(page.get_by_text("The fact was restored.")).to_be_visible()
    assert Fact.objects.get(pk=facts[0].pk).active


def test_facts_are_walked_and_confirmed_by_keyboard(log_in: LogIn, bob: User, facts: list[Fact]) -> None:
    page = log_in(bob)
    page.goto("/agents/ada/facts/?sort=subject")
    press_key(page, "j")
    press_key(page, "j")
    press_key(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("The sea is calm.")
    press_key(page, "+")
    page.get_by_role("button", name="Confirm fact").click()
    expect(page.get_by_text("The fact was confirmed.")).to_be_visible()
    assert Fact.objects.get(subject="Sea").confirmation_count == 1
    press_key(page, "-")
    expect(page.get_by_role("button", name="Mark as wrong")).to_be_visible()


def test_censor_bench_shows_the_match(log_in: LogIn, ada: Agent, bob: User) -> None:
    by = Principal.of_user(bob)
    censor_create(agent=ada, pattern="drop (the )?table", severity="block", reason="Ask a person.", by=by)
    page = log_in(bob)
    page.goto("/agents/ada/censors/bench/")
    page.get_by_label("Text", exact=True).fill("First drop the table, <i>then</i> rest.")
    page.get_by_role("button", name="Test").click()
    expect(page.locator("mark")).to_contain_text("drop the table")
    expect(page.get_by_text("Would block.")).to_be_visible()
    expect(page.get_by_text("Ask a person.")).to_be_visible()
    expect(page.locator(".bench-text")).to_contain_text("<i>then</i>")
    assert Censor.objects.get().activation_count == 0
    page.reload()
    expect(page.locator("mark")).to_contain_text("drop the table")


def test_loop_unfolds_in_place(log_in: LogIn, ada: Agent, alice: User, actor: Principal) -> None:
    said = [{"kind": "user_input", "content": "Where is Tim?", "loop_id": "l"}]
    events_record(agent=ada, events=said, by=actor)
    page = log_in(alice)
    page.goto("/agents/ada/events/")
    page.locator("details.more summary").click()
    expect(page.locator(".loop-events .log-text")).to_have_text("Where is Tim?")
    page.locator(".loop-events .log-kind").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("User input")


def test_legend_of_a_timeline_needs_one_line(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User
) -> None:
    by, question = Principal.of_user(bob), "How long do carts live?"
    old = make_fact(ada, "The carts of checkout live for 24 hours.", by)
    context_respond(run=make_run(ada, actor, question), response="The carts live for 24 hours.", by=actor)
    new = make_fact(ada, "The carts of checkout live for 30 minutes.", by)
    fact_supersede(old=old, new=new, by=by)
    page = log_in(bob, width=1440, height=900)
    page.goto(new.get_absolute_url())
    listed = page.locator(".bar-legend li")
    expect(listed).to_have_text(["True", "True, no date known", "In memory", "Prompt"])
    assert len({place["y"] for one in listed.all() if (place := one.bounding_box())}) == 1

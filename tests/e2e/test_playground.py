"""The playground in a browser: an answer beside its memory, and a failure that loses nothing."""

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page, expect

from context.expectations.services import expectation_create, request_of
from context.models import ContextRun
from identity.models import Agent
from identity.principal import Principal
from memory.models import Event
from tests.e2e.conftest import assert_accessible, press_key
from tests.factories import EXPORT, make_fact, make_proposal, make_run
from tests.judge_server import JudgeServer, Reply

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

REPLICA = "The ledger export failed because the replica lagged."


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_conversation_beside_its_memory(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User, provider: str
) -> None:
    make_fact(ada, REPLICA, actor)
    page = log_in(bob, width=390, height=844)
    with JudgeServer(provider) as model, model.configured(CHAT_MODEL="claude-of-the-tests"):
        model.queue(Reply(content=[{"type": "text", "text": "<i>The replica</i> lagged."}], stop_reason="end_turn"))
        page.goto("/agents/ada/context/playground/")
        message = page.get_by_role("textbox", name="Message")
        message.fill(EXPORT)
        page.get_by_role("button", name="Send").click()
        talk = page.get_by_role("region", name="Conversation")
        expect(talk).to_contain_text("<i>The replica</i> lagged.")
        expect(page.get_by_role("complementary", name="In the prompt")).to_contain_text(REPLICA)
        expect(message).to_have_value("")
        expect(message).to_be_focused()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert_accessible(page)
        assert not ContextRun.objects.exists()
        assert not Event.objects.exists()

        model.fail(529)
        message.fill("Since when?")
        page.get_by_text("Options", exact=True).click()
        page.get_by_label("Keep this conversation").check()
        page.get_by_role("button", name="Send").click()
        expect(talk).to_contain_text("The model is busy")
        expect(message).to_have_value("Since when?")
        model.queue(Reply(content=[{"type": "text", "text": "Since one."}], stop_reason="end_turn"))
        message.press("Control+Enter")
        expect(talk).to_contain_text("Since one.")
        expect(talk).to_contain_text("<i>The replica</i> lagged.")
        page.get_by_role("link", name="the logged prompt").last.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Since when?")
        assert Event.objects.count() == 2


def test_a_proposal_is_tried_from_its_page(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User
) -> None:
    proposal = make_proposal(ada, actor, "values", "Answer in one word.")
    page = log_in(bob)
    with JudgeServer("openai") as model, model.configured(CHAT_MODEL="small"):
        model.always(Reply(content=[{"type": "text", "text": "Lag."}], stop_reason="end_turn"))
        page.goto(reverse("proposal", args=[proposal.pk]))
        press_key(page, "t")
        # What many questions get does not depend on the one that is sent, so it stays as it is.
        tried = page.locator("#tried-title")
        tried.evaluate("heading => { heading.textContent = 'kept'; }")
        page.get_by_role("textbox", name="Question").fill(EXPORT)
        page.get_by_role("textbox", name="Question").press("Control+Enter")
        for name in ("Before: As it is now", "After: Values, proposed by Ada"):
            expect(page.get_by_role("region", name=name)).to_contain_text("Lag.")
        expect(page.get_by_role("group", name="The two prompts")).to_contain_text("Answer in one word.")
        expect(page.get_by_role("textbox", name="Question")).to_have_value("")
        expect(page.get_by_role("textbox", name="Question")).to_be_focused()
        expect(tried).to_have_text("kept")
        assert_accessible(page)
    assert not ContextRun.objects.exists()


def test_a_row_shows_the_prompts_of_its_question(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User
) -> None:
    for asked in ("Is the export late?", EXPORT):
        make_run(ada, Principal.of_user(bob), asked)
    make_proposal(ada, actor, "values", "Answer in one word.")
    demand = {"requirement": "absent", "target": "text", "text": "in one word"}
    expectation_create(agent=ada, by=Principal.of_user(bob), request=request_of(EXPORT), **demand)
    page = log_in(bob)
    page.goto("/agents/ada/context/playground/compare/")
    other = page.get_by_role("row", name="Is the export late?")
    expect(page.get_by_role("row", name=EXPORT)).to_have_attribute("aria-current", "true")
    other.click()
    expect(page.get_by_role("textbox", name="Question")).to_have_value("Is the export late?")
    expect(other).to_have_attribute("aria-current", "true")
    expect(page.get_by_role("group", name="The two prompts")).to_contain_text("Answer in one word.")
    assert_accessible(page)


def test_another_change_is_tried_on_the_same_question(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User
) -> None:
    make_run(ada, Principal.of_user(bob), EXPORT)
    make_proposal(ada, actor, "values", "Answer in one word.")
    make_proposal(ada, actor, "character", "You are Ada, the clerk of the ledger.")
    page = log_in(bob)
    page.goto("/agents/ada/context/playground/compare/")
    prompts = page.get_by_role("group", name="The two prompts")
    expect(prompts).to_contain_text("the clerk of the ledger")
    other, own = (page.get_by_role("link", name=name) for name in ("Answer in one word.", "Write my own change"))
    after = page.get_by_label("After", exact=True)
    key = (other.get_attribute("id") or "").removeprefix("change-")
    # The answer to a choice takes its time; what is shown until then is not of that choice, and a second one counts.
    page.get_by_text("Compare other versions").click()
    page.route("**/compare/*", lambda route: None)
    after.select_option("now")
    expect(prompts).to_be_hidden()
    page.unroute("**/compare/*")
    other.click()
    expect(prompts).to_contain_text("Answer in one word.")
    expect(prompts).not_to_contain_text("the clerk of the ledger")
    expect(page).to_have_url(re.compile(rf"/compare/\?a=now&b={key}&input="))
    expect(page.get_by_role("textbox", name="Question")).to_have_value(EXPORT)
    page.reload()
    expect(other).to_have_attribute("aria-current", "true")
    expect(prompts).to_contain_text("Answer in one word.")
    page.go_back()
    expect(prompts).to_contain_text("the clerk of the ledger")
    expect(other).not_to_have_attribute("aria-current", "true")
    own.click()
    # What follows the typing is there once the rows are.
    row = page.get_by_role("row", name=EXPORT).get_by_role("button")
    expect(row).to_be_visible()
    text = page.get_by_label("Text to try")
    text.fill("You are Ada, and you rhyme.")
    expect(prompts).to_contain_text("and you rhyme")
    expect(text).to_be_focused()
    row.click()
    expect(prompts).to_contain_text("and you rhyme")
    assert_accessible(page)
    page.get_by_role("button", name="Propose this text").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Propose change of Character")
    expect(page.get_by_role("textbox", name="Text", exact=False).first).to_have_value("You are Ada, and you rhyme.")

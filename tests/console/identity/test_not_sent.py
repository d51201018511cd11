"""What prompts leave out of an identity is said in amber wherever people read or decide about it."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from context.services.agent_settings import context_pin, settings_update
from context.what_if import identity_delivery
from context.what_if.identity_delivery import SMALLEST_FRAME, IdentityDelivery
from identity.principal import Principal
from identity.services.agents import agent_create
from identity.services.proposals import identity_propose
from memory.services.censors import censor_create
from memory.services.facts import fact_learn
from tests.factories import make_principal, make_token
from tests.http import browser, markup

ASK = {"session_id": "s-1", "input": "hello there"}


@pytest.fixture
def too_long(ada, charlie):
    """A character that leaves no room for what comes after it in a prompt of 3,000 tokens."""
    return identity_propose(
        agent=ada, section="character", content="Long story. " * 1_200, by=Principal.of_user(charlie)
    )


@pytest.fixture
def proposal(ada, actor):
    return identity_propose(agent=ada, section="preferences", content="Tea is best.", by=actor, wait=True).proposal


def page_of(user, url):
    answer = browser(user).get(url)
    assert answer.status_code == 200
    return markup(answer)


def impact_page(user, proposal):
    return page_of(user, reverse("agent_context_blast", args=["ada"]) + f"?proposal={proposal.pk}")


def test_identity_page_warns_of_what_is_not_sent(ada, alice, too_long):
    page = page_of(alice, reverse("agent_identity", args=["ada"]))
    assert "Left out of prompts:" in page
    assert "A whole prompt may have 3,000 tokens here, so there is no room for the rest." in page
    assert "This is the smallest prompt for a request that names no size." in page
    assert "notice-warn not-sent" in page


def test_identity_page_says_what_a_prompt_leaves_out_to_the_token(ada, api, actor_token, alice, charlie):
    text = "\n".join(f"Step {place} is told in short words." for place in range(330))
    identity_propose(agent=ada, section="protocols", content=text, by=Principal.of_user(charlie))
    body = api.as_token(actor_token).post("/context", ASK | {"budget": 3_000}).json()
    (cut,) = body["truncated"]
    assert body["tokens"] < 2_800, "what the session is guaranteed stays free"
    shortfall = IdentityDelivery.load(ada, Principal.of_user(alice)).shortfall()
    assert shortfall.tokens_left_out == cut["tokens_left_out"]


def test_identity_page_of_a_short_identity_does_not_warn(ada, alice):
    assert "Left out of prompts" not in page_of(alice, reverse("agent_identity", args=["ada"]))


def test_identity_page_warns_of_the_budgets_that_requests_ask_for(ada, api, actor_token, alice):
    for _ in range(2):
        assert api.as_token(actor_token).post("/context", ASK | {"budget": 20}).status_code == 200
    page = page_of(alice, reverse("agent_identity", args=["ada"]))
    assert "A whole prompt may have 20 tokens here" in page
    assert "2 of the last 2 requests asked for a prompt of this size." in page


def test_proposal_and_queue_warn_before_the_approval(ada, bob, too_long, proposal):
    page = page_of(bob, reverse("proposal", args=[proposal.pk]))
    assert "of the identity as it would be. A whole prompt may have 3,000 tokens here" in page
    assert "Preferences: none of its" in page
    assert "left out of prompts" in page_of(bob, reverse("inbox") + "?view=identity")


def test_proposal_that_fits_does_not_warn(ada, bob, proposal):
    assert "Left out of prompts" not in page_of(bob, reverse("proposal", args=[proposal.pk]))
    assert "left out of prompts" not in page_of(bob, reverse("inbox") + "?view=identity")


def test_preview_of_a_text_warns_while_it_is_typed(ada, bob):
    url = reverse("section_preview", args=["ada", "character"])
    answer = browser(bob).post(url, {"content": "Long story. " * 1_200, "base_version": "1"})
    assert "Left out of prompts:" in markup(answer)
    assert "Left out of prompts:" not in markup(browser(bob).post(url, {"content": "Short.", "base_version": "1"}))


def test_impact_of_an_approval_that_no_prompt_shows_is_not_sent(ada, api, actor_token, bob, too_long, proposal):
    assert api.as_token(actor_token).post("/context", ASK).status_code == 200
    page = impact_page(bob, proposal)
    assert "would change, since there is no room for it" in page
    assert "Left out of prompts:" in page
    assert "tokens of Identity" in page


def test_impact_of_an_approval_that_prompts_show_changes_them(ada, api, actor_token, bob, proposal):
    assert api.as_token(actor_token).post("/context", ASK).status_code == 200
    page = impact_page(bob, proposal)
    assert "</strong> would change." in page
    assert "eft out of prompts" not in page
    address = reverse("agent_context_blast", args=["ada"]) + f"?proposal={proposal.pk}&answer=same&answer=both&brief=1"
    assert "</strong> would change." in page_of(bob, address), "answers are to reviews alone"


def test_run_page_names_what_was_not_sent(ada, api, actor_token, alice, too_long):
    body = api.as_token(actor_token).post("/context", ASK).json()
    (cut,) = body["truncated"]
    page = page_of(alice, reverse("agent_context_run", args=["ada", body["id"]]) + "?tab=left")
    assert f"Identity: {cut['tokens_left_out']:,} of {cut['tokens_whole']:,} tokens cut." in page
    assert "Character:" in page
    assert f"All sections together may have {body['budget']:,} tokens" in page


def test_pages_say_of_each_agent_what_its_prompts_leave_out(ada, bruno, api, bob, charlie, monkeypatch):
    """Core memory, pins, censors, excluded kinds and budgets of its own take their room there as here, however much of
    core memory is read at first."""
    admin = Principal.of_user(charlie)
    agents = [ada, bruno, agent_create(slug="carl", name="Carl", kind="knight", by=admin)]
    for number, agent in enumerate(agents):
        own = make_principal(agent)
        identity_propose(agent=agent, section="character", content="Long story. " * (1_100 + 100 * number), by=admin)
        for step in range(10 * number):
            fact_learn(agent=agent, content=f"The user likes tea number {step}.", category="preference", by=own)
            censor_create(agent=agent, pattern=f"storm {step}", by=admin)
        rule = fact_learn(agent=agent, content="Answer in English. " * 20, category="rule", by=admin).fact
        # More than any prompt has room for.
        for step in range(8 if number == 2 else 0):
            text = f"In case {step}: " + f"say what {step} is. " * 120
            fact_learn(agent=agent, content=text, category="rule", by=admin)
        if number:
            context_pin(agent=agent, item_type="fact", item_id=str(rule.pk), by=admin)
    settings_update(agent=bruno, budgets={"identity": 900, "user_profile": 50}, by=admin)
    bruno.refresh_from_db()
    deliveries = IdentityDelivery.load_each(agents, Principal.of_user(bob))
    monkeypatch.setattr(identity_delivery, "CORE_FIRST_READ", 3)
    assert IdentityDelivery.load_each(agents, Principal.of_user(bob)) == deliveries
    for agent in agents:
        answer = api.as_token(make_token(agent)).post("/context", ASK | {"frame": SMALLEST_FRAME}).json()
        cut = next(one for one in answer["truncated"] if one["key"] == "identity")
        shortfall = deliveries[agent.pk].shortfall()
        assert shortfall.tokens_whole == cut["tokens_whole"]
        # What the request says as its task takes a little room too.
        assert 0 <= cut["tokens_left_out"] - shortfall.tokens_left_out <= 12


def test_queue_takes_the_same_statements_for_any_number_of_agents(ada, actor, bob, charlie):
    def wish(agent, by):
        return identity_propose(agent=agent, section="preferences", content="Tea is best.", by=by, wait=True).proposal

    def statements(url):
        with CaptureQueriesContext(connection) as captured:
            page_of(bob, url)
        return len(captured)

    admin = Principal.of_user(charlie)
    first = wish(ada, actor)
    few = statements(reverse("inbox") + "?view=identity")
    alone = statements(reverse("proposal", args=[first.pk]))
    for number in range(5):
        agent = agent_create(slug=f"agent-{number}", kind="squire", by=admin)
        wish(agent, make_principal(agent))
    assert statements(reverse("inbox") + "?view=identity") == few
    assert statements(reverse("proposal", args=[first.pk])) == alone

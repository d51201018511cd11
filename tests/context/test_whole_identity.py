"""What people approved is in the prompt whole while the total has room, and what is not is named."""

import pytest
from django.urls import reverse

from context.models import ContextRun
from identity.models import ChangeProposal
from identity.principal import Principal
from identity.services.proposals import identity_propose
from memory.services.censors import censor_create
from memory.services.facts import fact_learn
from memory.services.working_memory import working_thread_open
from nousweb.lib import clock
from tests.factories import make_facts
from tests.http import browser

ASK = {"session_id": "s-1", "input": "hello there"}
PREFERENCES = "\n".join(f"- Preference number {place} is told to people in short words." for place in range(40))


@pytest.fixture
def caller(api, ada, actor_token):
    return api.as_token(actor_token)


@pytest.fixture
def write(ada, charlie):
    def write(section, content):
        return identity_propose(agent=ada, section=section, content=content, by=Principal.of_user(charlie))

    return write


def asked(caller, **more):
    answer = caller.post("/context", ASK | more)
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_approved_preferences_beyond_the_budget_are_in_the_next_prompt_whole(caller, write, bob):
    write("protocols", "Read twice. " * 60)
    answer = caller.put("/identity/preferences", {"content": PREFERENCES, "reason": "Clear.", "mode": "propose"})
    assert answer.status_code == 202, answer.content
    assert "Preference number 1 " not in asked(caller)["system_prompt"]
    proposal = ChangeProposal.objects.get(pk=answer.json()["proposal"]["id"])
    data = {"action": "approve", "base_version": str(proposal.base_version)}
    assert browser(bob).post(reverse("proposal", args=[proposal.pk]), data).status_code == 302
    body = asked(caller)
    assert body["sections"][0]["tokens"] > body["sections"][0]["budget"] == 300
    assert PREFERENCES in body["system_prompt"]
    assert "…" not in body["system_prompt"]
    assert body["truncated"] == []


def test_identity_left_out_is_named_in_answer_and_log(caller, write):
    write("preferences", PREFERENCES)
    body = asked(caller, budget=400)
    (left,) = [one for one in body["truncated"] if one["key"] == "identity"]
    assert left["tokens_left_out"] == left["tokens_whole"] - left["tokens"] > 0
    assert (left["items_left_out"], [item["id"] for item in left["items"]]) == (1, ["preferences:1"])
    assert body["tokens"] <= 400
    assert ContextRun.objects.get(pk=body["id"]).decisions["truncated"] == body["truncated"]


def test_identity_that_a_request_closes_is_named(caller, ada):
    body = asked(caller, budgets={"identity": 0})
    (left,) = body["truncated"]
    assert (left["key"], left["tokens"], left["items_left_out"]) == ("identity", 0, 2)


def test_budget_of_a_request_is_no_knife_for_the_identity(caller, write):
    write("preferences", PREFERENCES)
    assert PREFERENCES in asked(caller, budgets={"identity": 20})["system_prompt"]


def test_identity_comes_before_what_is_searched(caller, write, ada, system):
    make_facts(ada, [f"Checkout of shop {place} is slow on Mondays." for place in range(30)], system, importance=0.5)
    write("preferences", PREFERENCES)
    body = asked(caller, input="Which checkout is slow?", budget=1_100)
    assert PREFERENCES in body["system_prompt"]
    assert any(section["key"] == "facts" for section in body["sections"]), "what is left is searched"
    assert body["tokens"] <= 1_100


def test_boundaries_and_rules_of_people_come_before_the_rest_of_an_identity(caller, write, ada, charlie):
    person = Principal.of_user(charlie)
    write("character", "A long story. " * 300)
    rules = [f"Rule {place} says never to ship on a Friday evening." for place in range(30)]
    for rule in rules:
        fact_learn(agent=ada, content=rule, category="rule", by=person)
    patterns = [f"word{place}|other{place}" for place in range(30)]
    for pattern in patterns:
        censor_create(agent=ada, pattern=pattern, severity="absolute", reason="So decided.", by=person)
    body = asked(caller, budget=1_600)
    assert [rule for rule in [*rules, *patterns] if rule not in body["system_prompt"]] == []
    assert [one["key"] for one in body["truncated"]] == ["identity"]
    assert body["tokens"] <= 1_600


def test_core_memory_that_agents_wrote_keeps_to_its_budget(caller, ada, actor):
    contents = [f"Somebody likes {place} sorts of tea a lot." for place in range(40)]
    make_facts(ada, contents, actor, category="preference")
    (profile,) = [section for section in asked(caller)["sections"] if section["key"] == "user_profile"]
    assert profile["tokens"] <= profile["budget"] == 200
    assert profile["truncated"]


def test_core_memory_beyond_the_first_hundred_is_sent_or_named(caller, ada, charlie):
    person = Principal.of_user(charlie)
    before = clock.now()
    make_facts(ada, [f"Ann likes tea{place} a lot." for place in range(120)], person, category="preference")
    body = asked(caller)
    assert [place for place in range(120) if f"tea{place} " not in body["system_prompt"]] == []
    body = asked(caller, budget=700)
    (left,), shown = body["truncated"], body["sections"][1]
    assert left["items_left_out"] == 120 - len(shown["items"]) > 20
    past = asked(caller, as_of=clock.now().isoformat())
    assert all(f"tea{place} " in past["system_prompt"] for place in (0, 119))
    assert "tea0 " not in asked(caller, as_of=before.isoformat())["system_prompt"]


def test_session_has_what_is_unused(caller, ada, system):
    for place in range(12):
        working_thread_open(agent=ada, session_id="s-1", text=f"Thread {place}: " + "look into it. " * 8, by=system)
    assert all(f"Thread {place}:" in asked(caller)["system_prompt"] for place in range(12))
    short = asked(caller, budget=300)
    assert short["tokens"] <= 300
    assert "working_memory" in [one["key"] for one in short["truncated"]]

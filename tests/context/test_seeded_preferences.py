"""An identity seeded from facts, over HTTP: the prompt tells each fact once, and never one that is over."""

from datetime import timedelta

import pytest

from context.engine.analysis.request import ContextRequest
from context.services.context import context_assemble
from identity.principal import Principal
from memory.models import Fact
from memory.services.facts import fact_invalidate, fact_learn, fact_supersede
from nousweb.lib import clock

PILOT, CELSIUS, GUESS = "Tim is a pilot.", "Tim prefers °C.", "Never guess."


@pytest.fixture
def prompt(api, actor_token):
    """The prompt of an ordinary question."""

    def ask(**more):
        answer = api.as_token(actor_token).post("/context", {"session_id": "s", "input": "hello"} | more)
        assert answer.status_code == 200, answer.content
        return answer.json()["system_prompt"]

    return ask


@pytest.fixture
def seeded(api, ada, charlie, system, settings):
    """Three facts about people, and an identity that was seeded from them."""
    settings.IDENTITY_PROMPT = "You are Ada, anew."
    facts = [
        fact_learn(agent=ada, content=text, category=category, by=system).fact
        for category, text in (("person", PILOT), ("preference", CELSIUS), ("rule", GUESS))
    ]
    assert api.as_person(charlie).post("/reinitiate", {}, {"agent": "ada"}).json()["written"]["preferences"] == 1
    return facts


def test_seeding_reads_no_fact_that_has_ended(api, ada, charlie, system, settings):
    settings.IDENTITY_PROMPT = ""
    ended = {"valid_until": clock.now() - timedelta(hours=1)}
    fact_learn(agent=ada, content=CELSIUS, category="preference", by=system, **ended)
    assert "preferences" not in api.as_person(charlie).post("/reinitiate", {}, {"agent": "ada"}).json()["written"]


def test_seeded_facts_are_told_once(seeded, prompt, api, charlie):
    told = prompt()
    assert [told.count(text) for text in (PILOT, CELSIUS, GUESS)] == [1, 1, 1]
    assert all(f"- {text}" in told.split("## User Profile")[1] for text in (PILOT, CELSIUS, GUESS))
    assert "### Preferences" not in told
    assert "You are Ada, anew." in told
    sections = api.as_person(charlie).get("/identity", {"agent": "ada"}).json()["sections"]
    assert PILOT in sections["preferences"]["content"], "the identity itself keeps what it was seeded with"


def test_seeded_facts_that_are_over_are_not_told(seeded, prompt, ada, system):
    pilot, celsius, guess = seeded
    before = clock.now()
    new = fact_learn(agent=ada, content="Tim teaches maths.", category="person", by=system).fact
    fact_supersede(old=pilot, new=new, by=system)
    fact_invalidate(fact=celsius, by=system)
    Fact.objects.filter(pk=guess.pk).update(valid_until=clock.now())
    told = prompt()
    assert [told.count(text) for text in (PILOT, CELSIUS, GUESS, "Tim teaches maths.")] == [0, 0, 0, 1]
    assert prompt(as_of=before.isoformat()).count(PILOT) == 1


def test_seeded_preferences_keep_what_people_add(api, seeded, prompt, ada, charlie, system):
    with clock.at(clock.now() - timedelta(days=1)):
        gone = fact_learn(agent=ada, content="The kitchen has green tea.", category="preference", by=system).fact
        fact_invalidate(fact=gone, by=system)
    text = f"### User\n- {PILOT}\n- Tim flies gliders too.\n\n### Preferences\n- The kitchen has green tea."
    body = {"content": text, "reason": "More.", "base_version": 1}
    wanted, by = ContextRequest("s", "hello", dry_run=True), Principal.of_user(charlie)
    tried = context_assemble(agent=ada, request=wanted, by=by, identity={"preferences": text}).system_prompt
    assert api.as_person(charlie).put("/identity/preferences?agent=ada", body).status_code == 200
    told = prompt()
    assert tried == told, "a text is tried as the prompt would tell it"
    assert [told.count(each) for each in (PILOT, "- Tim flies gliders too.", "- The kitchen has green tea.")] == [
        1,
        1,
        1,
    ]


def test_agent_seeded_from_another_agents_facts_is_told_them(api, prompt, ada, bruno, charlie, system):
    fact_learn(agent=bruno, content=PILOT, category="person", by=system)
    answer = api.as_person(charlie).post("/reinitiate", {"facts_from": "bruno"}, {"agent": "ada"})
    assert "preferences" in answer.json()["written"]
    assert prompt().count(f"- {PILOT}") == 1

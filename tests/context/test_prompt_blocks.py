"""The blocks of a prompt: together they are the prompt, and stable ones change with nothing but what they say."""

import hashlib
from datetime import timedelta

import pytest

from context.engine.section_budgets import MEMORY_SECTIONS
from identity.policy.changes import BLOCKS, CHANGE_KINDS, blocks_touched
from identity.principal import Principal
from identity.services.proposals import identity_propose
from memory.models import Fact
from memory.services.censors import censor_create
from memory.services.decisions import decision_record, decision_review
from memory.services.facts import fact_confirm, fact_learn
from nousweb.lib import clock
from tests.factories import make_facts

ASK = {"session_id": "s-1", "input": "What is the weather like?"}
QUESTIONS = (
    "hello",
    "Should we choose MariaDB or PostgreSQL? We decided once.",
    "Fix the export, which fails with an error, and deploy it.",
    "Who is Tim, and what does he drink on Fridays?",
)


@pytest.fixture
def caller(api, ada, actor_token, actor, charlie):
    """A caller of an agent with facts of two sorts, as sure as each other, and censors."""
    person = Principal.of_user(charlie)
    with clock.at(clock.now() - timedelta(days=400)):
        make_facts(ada, [f"Tim likes tea number {place}." for place in range(4)], actor, category="preference")
        fact_learn(agent=ada, content="Never ship on a Friday.", category="rule", by=person)
        for pattern in ("payroll", "drop table"):
            censor_create(agent=ada, pattern=pattern, severity="warn", reason="So decided.", by=person)
    return api.as_token(actor_token)


def asked(caller, **more):
    answer = caller.post("/context", ASK | more)
    assert answer.status_code == 200, answer.content
    return answer.json()


def stable(caller, **more):
    return "".join(block["text"] for block in asked(caller, **more)["blocks"] if block["stability"] == "stable")


def test_blocks_are_the_prompt_from_stable_to_volatile(caller, ada, system):
    decision_record(agent=ada, description="PostgreSQL keeps the weather of Oslo.", confidence=0.8, by=system)
    body = asked(caller, input="What did we decide about the weather of Oslo?")
    blocks = body["blocks"]
    assert "".join(block["text"] for block in blocks) == body["system_prompt"]
    assert [block["id"] for block in blocks] == [section["key"] for section in body["sections"]]
    assert [(block["id"], block["stability"]) for block in blocks] == [
        ("identity", "stable"), ("user_profile", "stable"), ("censors", "stable"),
        ("frame", "session"), ("working_memory", "session"), ("decisions", "volatile"),
    ]  # fmt: skip
    for block in blocks:
        assert block["sha256"] == hashlib.sha256(block["text"].encode()).hexdigest()
        assert ("request" in block["changed_by"]) == (block["stability"] != "stable")
        assert {*block["changed_by"]} - {"request"} == {
            kind for kind in CHANGE_KINDS if block["id"] in blocks_touched(kind)
        }
    assert "fact.confirmed" in blocks[1]["changed_by"]
    assert "censor.triggered" not in blocks[2]["changed_by"]


def test_kinds_of_changes_touch_blocks_that_exist():
    known = {"identity", "user_profile", "censors", "frame", "reported", "working_memory", "conversation", "recent"}
    known |= {section.key for section in MEMORY_SECTIONS.values()}
    assert {block for blocks in BLOCKS.values() for block in blocks} == known
    assert {*BLOCKS} == {kind.partition(".")[0] for kind in CHANGE_KINDS if blocks_touched(kind)}


def test_change_of_the_feed_names_the_blocks_that_it_touches(caller):
    after = caller.get("/changes", {"after": "now"}).json()["next"]
    caller.post("/facts", {"content": "Tim sails.", "category": "person"})
    caller.post("/decisions", {"description": "We sail."})
    told = {item["kind"]: item["blocks"] for item in caller.get("/changes", {"after": after}).json()["items"]}
    assert told == {"fact.learned": ["user_profile", "reported", "facts"], "decision.recorded": ["decisions"]}


@pytest.mark.parametrize("limits", [{}, {"budget": 700}, {"budgets": {"user_profile": 40}}])
def test_stable_blocks_are_the_same_for_every_question(caller, ada, charlie, limits):
    told = "\n".join(f"- Preference number {place} is told in short words." for place in range(60))
    identity_propose(agent=ada, section="preferences", content=told, by=Principal.of_user(charlie))
    first = stable(caller, **limits)
    assert "## Active Censors" in first
    talk = [{"role": "user", "content": "Tell me of payroll and tea. " * 9}]
    assert {stable(caller, input=text, conversation=talk, **limits) for text in QUESTIONS} == {first}
    for text, frame in zip(QUESTIONS, ("decision", "debug", "task", "creative"), strict=True):
        assert stable(caller, session_id=text[:9], frame=frame, **limits) == first


def test_stable_blocks_do_not_change_with_confirmations_counters_and_the_clock(caller, ada, actor, charlie, system):
    first = stable(caller)
    person = Principal.of_user(charlie)
    decision = decision_record(agent=ada, description="We drink tea.", confidence=0.8, by=system)
    facts = list(Fact.objects.filter(agent=ada, category="preference").order_by("-recorded_at"))
    fact_confirm(fact=facts[0], by=person)
    fact_learn(agent=ada, content=facts[1].content, category="preference", by=actor)
    decision_review(decision=decision, outcome="success", by=system)
    body = asked(caller, input="drop table payroll")
    caller.post(f"/context/{body['id']}/response", {"response": "Tim likes tea number 2. payroll"})
    caller.post(f"/context/{body['id']}/outcome", {"outcome": "success"})
    assert stable(caller) == first
    with clock.at(clock.now() - timedelta(days=30)):
        assert stable(caller) == first


def test_new_fact_is_added_below_those_that_are_known(caller, ada, actor):
    before = stable(caller)
    fact_learn(agent=ada, content="Tim sails a boat.", category="person", confidence=1.0, by=actor)
    known, censors = before.split("\n\n## Active Censors")
    # People's rules stand in no block of data.
    begun = known.removesuffix("\n</data>") if known.endswith("</data>") else f'{known}\n<data from="memory">'
    assert stable(caller) == f"{begun}\n- Tim sails a boat.\n</data>\n\n## Active Censors{censors}"

"""What a request may ask for: a profile of its own for once, and a budget that is filled."""

import pytest
from structlog.testing import capture_logs

from context.models import ContextProfileVersion, ContextRun
from context.services.agent_settings import context_pin
from identity.principal import Principal
from memory.services.facts import fact_learn
from tests.api.problems import assert_problem
from tests.factories import make_fact

ASK = {"session_id": "s", "input": "When does the ledger export run?"}


@pytest.fixture
def memory(ada, system):
    """One fact that answers, and some that share a word with the question and nothing else."""
    answer = make_fact(ada, "The ledger export runs at nine in the evening.", system)
    for subject in ("harbour", "kitchen", "stable", "theatre"):
        make_fact(ada, f"The {subject} has an export licence that a clerk of the county keeps.", system)
    return answer


def candidates(client, **more):
    body = client.post("/context", {**ASK, "explain": True, **more}).json()
    return body, {one["id"]: one for one in body["candidates"]}


def test_thresholds_hold_at_every_budget(api, ada, memory, actor_token, subtests):
    for budget in [500, 2_000, 8_000, 200_000]:
        with subtests.test(budget=budget):
            body, found = candidates(api.as_token(actor_token), budget=budget)
            assert found[str(memory.pk)]["verdict"] == "included"
            assert {one["threshold"] for one in found.values()} == {0.25}
            assert all(one["verdict"] != "included" for one in found.values() if one["relevance"] < 0.25)
            assert body["explanation"]["budget"]["fill"] is False


def test_fill_lowers_the_thresholds_in_proportion_to_the_budget(api, ada, memory, actor_token):
    client = api.as_token(actor_token)
    _, usual = candidates(client, budget=8_000)
    weak = {key for key, one in usual.items() if one["verdict"] == "below_threshold"}
    assert weak
    body, filled = candidates(client, budget=8_000, fill=True)
    assert {filled[key]["verdict"] for key in weak} == {"included"}
    assert {one["threshold"] for one in filled.values()} == {0.25 * 250 / 8_000}
    run = ContextRun.objects.get(pk=body["id"])
    assert (run.request["fill"], body["explanation"]["budget"]["fill"]) == (True, True)


def test_fill_adds_nothing_where_nothing_is_certain(api, ada, memory, actor_token):
    body, _ = candidates(api.as_token(actor_token), input="Who sings in the opera tonight?", budget=8_000, fill=True)
    assert not [section for section in body["sections"] if section["tier"] == 3]


def test_profile_override_is_for_one_request_and_logged_with_it(api, ada, memory, actor_token):
    client = api.as_token(actor_token)
    versions = ContextProfileVersion.objects.count()
    override = {"min_importance": 0.9, "preserve_head": 1, "excluded_kinds": ["person"]}
    with capture_logs() as logs:
        body, found = candidates(client, profile_override=override)
    assert found[str(memory.pk)]["verdict"] == "low_importance"
    assert body["profile"] == "squire_default"
    assert body["explanation"]["profile"]["override"] == override
    assert body["explanation"]["policy"]["min_importance"] == 0.9
    # What the profile says and the request does not, stays.
    assert body["explanation"]["policy"]["preferred_kinds"][0] == "plan"
    assert body["fingerprint"]["profile"] == "squire_default+override"
    run = ContextRun.objects.get(pk=body["id"])
    assert run.request["profile_override"] == override
    assert next(line for line in logs if line["event"] == "context_assembled")["profile_override"] == override
    after, found = candidates(client)
    assert found[str(memory.pk)]["verdict"] == "included"
    assert "override" not in after["explanation"]["profile"]
    assert ContextProfileVersion.objects.count() == versions


def test_profile_override_is_checked(api, ada, actor_token, subtests):
    for override, field in [
        ({"min_importance": 2}, "profile_override.min_importance"),
        ({"min_importance": True}, "profile_override.min_importance"),
        ({"preserve_head": -1}, "profile_override.preserve_head"),
        ({"layers": ["dreams"]}, "profile_override.layers.0"),
        ({"layers": None}, "profile_override.layers"),
        ({"tags": ["a"]}, "profile_override.tags"),
        ({"persona": "subconscious"}, "profile_override.persona"),
        ("knight", "profile_override"),
        ({"excluded_kinds": ["a" * 51]}, "profile_override.excluded_kinds.0"),
    ]:
        with subtests.test(override=override, field=field):
            refused = api.as_token(actor_token).post("/context", {**ASK, "profile_override": override})
            problem = assert_problem(refused, 422, "invalid")
            assert [error["field"] for error in problem["errors"]] == [field]
            assert not ContextRun.objects.exists()


def test_profile_override_shows_no_more_than_the_persona_may_see(api, ada, actor_token, subconscious_token):
    api.as_token(subconscious_token).post("/events", {"events": [{"kind": "error", "content": "ledger export dream"}]})
    body, _ = candidates(api.as_token(actor_token), profile_override={"layers": ["long_term", "short_term"]})
    assert "dream" not in body["system_prompt"]


def test_selected_and_available_count_the_same_memories(api, ada, memory, system, actor_token):
    fact_learn(agent=ada, content="Tim lives in Silver Spring.", category="person", by=system)
    with capture_logs() as logs:
        body, _ = candidates(api.as_token(actor_token))
        greeting = api.as_token(actor_token).post("/context", {**ASK, "input": "hello"}).json()
    first, second = (line for line in logs if line["event"] == "context_assembled")
    searched = [item for section in body["sections"] if section["tier"] == 3 for item in section["items"]]
    assert first["items_selected"] == len(searched) == sum(body["fingerprint"]["tier_counts"].values())
    assert first["items_selected"] <= first["items_available"] == len(body["candidates"])
    assert greeting["sections"]
    assert (second["items_selected"], second["items_available"]) == (0, 0)


FACT = "The billing database runs PostgreSQL 15 in Frankfurt."


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("The billing database runs PostgreSQL 15 in Frankfurt.", "duplicate_input"),
        ("By the way, the billing database runs PostgreSQL 15 in Frankfurt. Anything else?", "duplicate_input"),
        ("I told you that the billing database runs PostgreSQL 15 in Frankfurt.", "duplicate_input"),
        # Asking is not stating.
        ("Does the billing database run PostgreSQL 15 in Frankfurt?", "included"),
        ("Find out whether the billing database runs PostgreSQL 15 in Frankfurt.", "included"),
        # What corrects the memory, or what the memory corrects, does not repeat it.
        ("The billing database runs PostgreSQL 17 in Frankfurt.", "included"),
        ("The billing database no longer runs PostgreSQL 15 in Frankfurt.", "included"),
        ("The billing database will run, and soon runs, PostgreSQL 15 in Frankfurt.", "included"),
        ("The billing database of Ann runs PostgreSQL 15 in Dublin.", "included"),
        ("Move the billing database out of Frankfurt.", "included"),
    ],
)
def test_what_the_input_says_is_not_repeated(api, ada, system, actor_token, text, verdict):
    fact = make_fact(ada, FACT, system)
    body, found = candidates(api.as_token(actor_token), input=text)
    assert found[str(fact.pk)]["verdict"] == verdict
    assert (f"- {FACT}" in body["system_prompt"]) == (verdict == "included")


def test_what_the_input_says_stays_where_it_is_pinned(api, ada, bob, system, actor_token):
    fact = make_fact(ada, FACT, system)
    context_pin(agent=ada, item_type="fact", item_id=str(fact.pk), by=Principal.of_user(bob))
    assert FACT in candidates(api.as_token(actor_token), input=FACT)[0]["system_prompt"].split("## Relevant Facts")[1]


SESSION = {"session_id": "s-7", "input": "The parser of ledgers."}


def test_frame_of_the_working_memory_is_the_frame_of_its_session(api, ada, actor_token, subconscious_token):
    client = api.as_token(actor_token)

    def frame(**more):
        return client.post("/context", {**SESSION, **more}).json()

    assert (frame()["frame"]["id"], frame()["frame"]["source"]) == ("conversation", "default")
    client.put("/working/s-7", {"frame": "debug", "task": "Mend the parser."})
    found = frame()
    assert (found["frame"]["id"], found["frame"]["source"], found["frame"]["forced"]) == ("debug", "session", False)
    assert (found["budget"], "## Current Frame\nDebugging" in found["system_prompt"]) == (10_000, True)
    assert frame(frame="task")["frame"]["id"] == "task", "the request has the last word"
    assert frame(session_id="s-8")["frame"]["id"] == "conversation", "of this session alone"
    assert frame(as_of="2026-01-01T00:00:00Z")["frame"]["id"] == "conversation", "of its mind nothing is kept"
    other = api.as_token(subconscious_token).post("/context", SESSION).json()
    assert other["frame"]["id"] == "conversation", "of its persona alone"


def test_frame_of_the_working_memory_that_is_none_is_told(api, ada, actor_token):
    client = api.as_token(actor_token)
    client.put("/working/s-7", {"frame": "research"})
    body = client.post("/context", SESSION).json()
    assert body["frame"]["id"] == "conversation"
    assert "Current frame: research" in body["system_prompt"].split("## Working Memory")[1]

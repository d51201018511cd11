"""What answers teach: references observed, decayed, multiplied into the score."""

from datetime import timedelta

import pytest

from context.engine.retrieval.candidates import usage_stats
from context.models import ContextRun, MemoryUsage
from identity.principal import Principal
from memory.models import Censor
from memory.services.erasure import fact_erase
from nousweb.lib import clock
from tests.api.problems import assert_problem
from tests.context.test_references import UNRELATED
from tests.factories import EXPORT, make_fact, make_run

KEY = ("fact", "f")


def observed(ada, actor, *references, days=0.0):
    """Observations of one memory, each in a run of its own."""
    for referenced in references:
        MemoryUsage.objects.create(
            run=make_run(ada, actor, "hello"), agent=ada, persona="actor", item_type=KEY[0], item_id=KEY[1],
            referenced=referenced, overlap=0.5, at=clock.now() - timedelta(days=days),
        )  # fmt: skip


def stats(ada, now=None):
    return usage_stats(ada, "actor", [KEY], now=now or clock.now()).get(KEY)


def test_usage_feedback_counts_half_after_seven_days(ada, actor):
    observed(ada, actor, True)
    at = MemoryUsage.objects.get().at
    assert stats(ada, at + timedelta(days=7)).score == pytest.approx(0.5)
    assert stats(ada, at + timedelta(days=14)).score == pytest.approx(0.25)
    assert stats(ada, at + timedelta(days=36_500)).score == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("references", "boost"),
    [((), None), ((True,), 1.0), ((False, False), 0.5), ((True, False), 1.0), ((True, True, True), 1.5)],
)
def test_usage_feedback_boost_follows_the_share_of_references(ada, actor, boosted, references, boost):
    observed(ada, actor, *references)
    found = stats(ada)
    assert found is None if boost is None else found.boost == pytest.approx(boost, abs=1e-6)


@pytest.fixture
def boosted(settings):
    settings.USAGE_BOOST_PERCENT = 100


def test_usage_feedback_of_an_answer_affects_the_next_context(api, ada, actor_token, system, boosted):
    used = make_fact(ada, "The ledger export failed because the replica lagged behind.", system)
    unused = make_fact(ada, "The ledger export fail counter is shown on the wall display.", system)
    caller = api.as_token(actor_token)
    ask = {"session_id": "s", "input": EXPORT, "explain": True}
    answer = "It failed because the replica lagged behind the primary by hours."

    def scores():
        body = caller.post("/context", ask).json()
        return body, {one["id"]: one for one in body["candidates"]}

    body, before = scores()
    for _ in range(2):
        answered = caller.post(f"/context/{body['id']}/response", {"response": answer})
        assert answered.status_code == 200
        uses = {item["id"]: item for item in answered.json()["items"]}
        assert uses[str(used.pk)]["referenced"]
        assert not uses[str(unused.pk)]["referenced"]
        body, after = scores()
    assert before[str(used.pk)]["factors"] == []
    assert dict(after[str(used.pk)]["factors"])["usage"] == pytest.approx(1.5)
    assert dict(after[str(unused.pk)]["factors"])["usage"] == pytest.approx(0.5)
    for key in (str(used.pk), str(unused.pk)):
        one = after[key]
        assert one["score"] == pytest.approx(one["relevance"] * dict(one["factors"])["usage"], abs=1e-3)
        assert one["relevance"] == pytest.approx(before[key]["relevance"], abs=1e-6)


def test_usage_feedback_finds_quotes_in_a_long_context(api, ada, actor_token, system):
    quoted = make_fact(ada, "The ledger export reads from the replica at night.", system)
    caller = api.as_token(actor_token)
    body = caller.post("/context", {"session_id": "s", "input": EXPORT}).json()
    long = "word " * 5_000 + "the ledger export reads from the replica at night"
    items = caller.post(f"/context/{body['id']}/response", {"response": long}).json()["items"]
    assert {item["id"]: item["overlap"] for item in items}[str(quoted.pk)] == pytest.approx(1.0)


def test_usage_feedback_takes_one_answer_per_context(api, ada, actor_token, other_token):
    caller = api.as_token(actor_token)
    run = caller.post("/context", {"session_id": "s", "input": EXPORT}).json()["id"]
    assert_problem(api.as_token(other_token).post(f"/context/{run}/response", {"response": "x"}), 404, "not_found")
    assert_problem(caller.post(f"/context/{run}/response", {"response": "x\u0000"}), 422, "invalid", field="response")
    assert caller.post(f"/context/{run}/response", {"response": ""}).status_code == 200
    assert_problem(caller.post(f"/context/{run}/response", {"response": "x"}), 409, "conflict")


def test_usage_feedback_of_the_same_answer_again_is_the_first(api, ada, actor_token, charlie, system):
    make_fact(ada, "The ledger export reads from the replica at night.", system)
    censor = {"pattern": "replica", "reason": "Say database.", "severity": "warn"}
    assert api.as_person(charlie).post("/censors?agent=ada", censor).status_code == 201
    caller = api.as_token(actor_token)
    run = caller.post("/context", {"session_id": "s", "input": EXPORT}).json()["id"]
    report = {"response": "The ledger export reads from the replica at night.\n"}
    first, again = (caller.post(f"/context/{run}/response", report) for _ in range(2))
    assert (again.status_code, again.json()) == (200, first.json())
    assert first.json()["items"]
    assert first.json()["censors"]
    assert MemoryUsage.objects.filter(run=run).count() == len(first.json()["items"])
    assert Censor.objects.get().activation_count == 1
    assert_problem(caller.post(f"/context/{run}/response", {"response": report["response"].strip()}), 409, "conflict")


def test_usage_feedback_outcome_can_be_corrected_and_is_of_two_kinds(api, ada, actor_token):
    caller = api.as_token(actor_token)
    run = caller.post("/context", {"session_id": "s", "input": EXPORT}).json()["id"]
    for outcome in ("success", "failure"):
        answer = caller.post(f"/context/{run}/outcome", {"outcome": outcome, "note": "So."})
        assert answer.json() == {"id": run, "outcome": outcome, "note": "So."}
    assert caller.post(f"/context/{run}/outcome", {"outcome": "so-so"}).status_code == 422
    assert ContextRun.objects.get(pk=run).outcome == "failure"


def test_usage_feedback_of_the_subconscious_needs_the_permission(api, ada, subconscious_token, bob, charlie):
    run = api.as_token(subconscious_token).post("/context", {"session_id": "s", "input": "?"}).json()["id"]
    assert_problem(api.as_person(bob).post(f"/context/{run}/outcome", {"outcome": "success"}), 404, "not_found")
    assert api.as_person(charlie).post(f"/context/{run}/outcome", {"outcome": "success"}).status_code == 200


def test_usage_feedback_of_a_long_unrelated_answer_references_nothing(api, ada, actor_token, system):
    for text in ("The ledger export failed because the replica lagged behind.", "Tim drinks green tea in the morning.",
                 "The office in Lisbon closes at noon on Fridays.", "Releases are cut on Thursdays by a team.",
                 "Maria keeps two turtles that she got from a friend."):  # fmt: skip
        make_fact(ada, text, system, category="preference")
    caller = api.as_token(actor_token)
    run = caller.post("/context", {"session_id": "s", "input": EXPORT}).json()["id"]
    items = caller.post(f"/context/{run}/response", {"response": UNRELATED}).json()["items"]
    assert len(items) == 5
    assert not any(item["referenced"] for item in items)


def test_usage_feedback_finds_what_is_said_in_other_forms_of_its_words(api, ada, actor_token, system):
    facts = [
        make_fact(ada, text, system, category="preference")
        for text in ("Tim drinks green tea in the morning.", "Tim runs the billing team.", "Tim lives in Lisbon.")
    ]
    caller = api.as_token(actor_token)
    run = caller.post("/context", {"session_id": "s", "input": "What does Tim drink?"}).json()["id"]
    items = caller.post(f"/context/{run}/response", {"response": "Tim is drinking green tea."}).json()["items"]
    found = {item["id"]: item["referenced"] for item in items}
    assert found == {str(fact.pk): place == 0 for place, fact in enumerate(facts)}


def test_usage_feedback_changes_no_order_unless_it_is_turned_on(api, ada, actor_token, system):
    make_fact(ada, "The ledger export failed because the replica lagged behind.", system)
    caller = api.as_token(actor_token)
    ask = {"session_id": "s", "input": EXPORT, "explain": True}
    for _ in range(3):
        body = caller.post("/context", ask).json()
        caller.post(f"/context/{body['id']}/response", {"response": "The replica lagged behind."})
    assert [one["factors"] for one in caller.post("/context", ask).json()["candidates"]] == [[]]


def test_usage_feedback_keeps_the_answer_until_the_fact_it_was_shown_is_erased(api, ada, actor_token, system, charlie):
    fact = make_fact(ada, "The ledger export failed because the replica lagged behind.", system)
    caller = api.as_token(actor_token)
    run = caller.post("/context", {"session_id": "s", "input": EXPORT}).json()["id"]
    other = caller.post("/context", {"session_id": "t", "input": "hello"}).json()["id"]
    for one in (run, other):
        said = "As I said: The ledger export failed because the replica lagged behind."
        assert caller.post(f"/context/{one}/response", {"response": said}).status_code == 200
    assert ContextRun.objects.get(pk=other).response == said
    fact_erase(fact=fact, by=Principal.of_user(charlie), reason="asked for")
    assert not ContextRun.objects.filter(response__contains="replica lagged").exists()

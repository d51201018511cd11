"""What answers teach: references observed, decayed, multiplied into the score."""

from datetime import timedelta

import pytest

from context.models import ContextRun, MemoryUsage
from context.usage import usage_stats
from nousweb.lib import clock
from tests.api.problems import assert_problem
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
def test_usage_feedback_boost_follows_the_share_of_references(ada, actor, references, boost):
    observed(ada, actor, *references)
    found = stats(ada)
    assert found is None if boost is None else found.boost == pytest.approx(boost, abs=1e-6)


def test_usage_feedback_of_an_answer_affects_the_next_context(api, ada, actor_token, system):
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


@pytest.mark.parametrize(("repeated", "referenced"), [(2, False), (3, True)])
def test_usage_feedback_counts_a_reference_from_15_percent_of_the_words(
    api, ada, actor_token, system, repeated, referenced
):
    words = [f"word{letter}{letter}" for letter in "abcdefghijklmnopqrst"]
    make_fact(ada, " ".join(words), system, category="preference")
    caller = api.as_token(actor_token)
    run = caller.post("/context", {"session_id": "s", "input": "hello"}).json()["id"]
    (use,) = caller.post(f"/context/{run}/response", {"response": " ".join(words[:repeated])}).json()["items"]
    assert (use["overlap"], use["referenced"]) == (repeated / 20, referenced)

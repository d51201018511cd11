"""Censors act by themselves: on the input of a context and on the answer to it, each trigger counted once."""

from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from structlog.testing import capture_logs

from context.api import ContextOut, ResponseOut
from context.models import ContextRun
from context.services.context import context_replay
from identity.models import ApiToken, AuditEvent, Change
from identity.principal import Principal
from memory.embedding import EmbeddingFailed
from memory.lifecycle.runner import job_run
from memory.models import Censor, Job
from memory.services.censors import censor_create, censor_retire
from nousweb.lib import clock
from tests.api.problems import assert_problem
from tests.database import as_the_owner
from tests.factories import make_token

SECRET = "the launch code is swordfish"
ASK = {"session_id": "s-1", "input": f"Tell me whether {SECRET}."}
HARMLESS = {"session_id": "s-1", "input": "What is the weather like?"}


@pytest.fixture
def person(bob):
    return Principal.of_user(bob)


@pytest.fixture
def block(ada, person):
    return censor_create(
        agent=ada, pattern="swordfish", severity="block", reason="Never speak of launch codes.", by=person
    )


@pytest.fixture
def warning(ada, person):
    return censor_create(agent=ada, pattern="launch", severity="warn", by=person, escalation_threshold=3)


@pytest.fixture
def dreamer(ada, subconscious_token):
    return Principal.of_token(ApiToken.objects.get(agent=ada, persona="subconscious"))


def counted(*censors):
    """Activations of each."""
    return [Censor.objects.get(pk=censor.pk).activation_count for censor in censors]


def trail():
    return list(AuditEvent.objects.filter(action="censor.trigger").order_by("pk").values_list("after", flat=True))


def answered(caller, run, text, **more):
    return caller.post(f"/context/{run}/response", {"response": text, **more})


def test_blocking_censor_is_named_in_the_answer_to_the_input(api, ada, actor_token, block, warning):
    body = api.as_token(actor_token).post("/context", ASK).json()
    assert body["censor_verdict"] == "block"
    start = ASK["input"].index("swordfish")
    assert body["censors"][0] == {
        "id": str(block.pk),
        "severity": "block",
        "pattern": "swordfish",
        "reason": "Never speak of launch codes.",
        "blocks": True,
        "spans": [{"start": start, "end": start + len("swordfish")}],
    }
    assert [(one["id"], one["blocks"]) for one in body["censors"][1:]] == [(str(warning.pk), False)]
    assert body["system_prompt"], "the client decides"
    assert ContextOut.model_validate(body).model_dump(mode="json") == body


def test_input_that_triggers_nothing_is_allowed_and_nothing_is_counted(api, ada, actor_token, block):
    body = api.as_token(actor_token).post("/context", HARMLESS).json()
    assert (body["censor_verdict"], body["censor_reason"], body["censors"]) == ("allow", "", [])
    assert counted(block) == [0]
    assert trail() == []


def test_input_counts_each_censor_once_a_run(api, ada, actor_token, block, warning):
    body = api.as_token(actor_token).post("/context", {**ASK, "input": f"{SECRET} {SECRET} {SECRET}"}).json()
    assert counted(block, warning) == [1, 1]
    assert trail() == [
        {
            "verdict": "block",
            "censors": [str(block.pk), str(warning.pk)],
            "timed_out": [],
            "run": body["id"],
            "side": "input",
        }
    ]
    told = Change.objects.filter(kind="censor.triggered").values_list("object_id", flat=True)
    assert Counter(told) == {str(block.pk): 1, str(warning.pk): 1}


def test_answer_is_checked_and_counted_once_however_often_it_is_reported(api, ada, actor_token, block):
    caller = api.as_token(actor_token)
    run = caller.post("/context", HARMLESS).json()["id"]
    body = answered(caller, run, f"Well, {SECRET}.").json()
    assert body["censor_verdict"] == "block"
    assert [(one["id"], one["reason"]) for one in body["censors"]] == [(str(block.pk), "Never speak of launch codes.")]
    assert ResponseOut.model_validate(body).model_dump(mode="json") == body
    for _ in range(3):
        assert answered(caller, run, f"Well, {SECRET}.").json() == body
    assert_problem(answered(caller, run, f"Now, {SECRET}."), 409, "conflict")
    assert counted(block) == [1]
    assert [(after["run"], after["side"]) for after in trail()] == [(run, "answer")]


def test_input_and_answer_of_one_run_count_each(api, ada, actor_token, block):
    caller = api.as_token(actor_token)
    run = caller.post("/context", ASK).json()["id"]
    answered(caller, run, SECRET)
    assert counted(block) == [2]
    assert [after["side"] for after in trail()] == ["input", "answer"]


def test_warning_becomes_a_block_at_its_threshold(api, ada, actor_token, warning):
    caller = api.as_token(actor_token)
    for place in range(3):
        body = caller.post("/context", {**ASK, "session_id": f"s-{place}"}).json()
        assert body["censor_verdict"] == "warn"
        for job in Job.objects.filter(handler="censor_escalate", status="queued"):
            assert job_run(job.pk) == "done"
    assert Job.objects.filter(handler="censor_escalate").count() == 1
    warning.refresh_from_db()
    assert warning.severity == "block"
    assert caller.post("/context", ASK).json()["censor_verdict"] == "block"


def test_dry_run_and_replay_name_what_they_trigger_and_record_nothing(api, ada, actor_token, actor, block, bob):
    caller = api.as_token(actor_token)
    body = caller.post("/context", {**ASK, "dry_run": True}).json()
    assert (body["censor_verdict"], len(body["censors"])) == ("block", 1)
    assert counted(block) == [0]
    caller.post("/context", ASK)
    record = context_replay(run=ContextRun.objects.get(), by=Principal.of_user(bob))
    assert record.censors["input"]["verdict"] == "block"
    assert counted(block) == [1]
    assert len(trail()) == 1


def test_context_of_the_past_is_checked_by_the_censors_of_then_and_counts_nothing(api, ada, actor_token, person):
    with clock.at(clock.now() - timedelta(days=3)):
        old = censor_create(agent=ada, pattern="swordfish", severity="block", by=person)
    with clock.at(clock.now() - timedelta(days=1)):
        censor_retire(censor=old, by=person)
        new = censor_create(agent=ada, pattern="launch", severity="warn", by=person)
    caller = api.as_token(actor_token)
    then = (clock.now() - timedelta(days=2)).isoformat()
    body = caller.post("/context", {**ASK, "as_of": then}).json()
    assert [one["id"] for one in body["censors"]] == [str(old.pk)]
    answered(caller, body["id"], SECRET)
    assert counted(old, new) == [0, 0]
    assert [one["id"] for one in caller.post("/context", ASK).json()["censors"]] == [str(new.pk)]


def test_client_that_wants_no_check_says_so_and_it_is_logged(api, ada, actor_token, block):
    caller = api.as_token(actor_token)
    with capture_logs() as logs:
        body = caller.post("/context", {**ASK, "censors": "off"}).json()
    assert (body["censor_verdict"], body["censors"]) == ("unchecked", [])
    assert [log["censor_verdict"] for log in logs if log["event"] == "context_assembled"] == ["unchecked"]
    assert answered(caller, body["id"], SECRET).json()["censor_verdict"] == "unchecked"
    run = ContextRun.objects.get()
    assert run.request["censors"] == "off"
    assert [run.censors[side]["verdict"] for side in ("input", "answer")] == ["unchecked", "unchecked"]
    assert counted(block) == [0]
    assert_problem(caller.post("/context", {**ASK, "censors": "sometimes"}), 422, "invalid")


def test_client_may_leave_the_answer_alone_unchecked_or_have_it_checked_after_all(api, ada, actor_token, block):
    caller = api.as_token(actor_token)
    run = caller.post("/context", ASK).json()["id"]
    assert answered(caller, run, SECRET, censors="off").json()["censor_verdict"] == "unchecked"
    run = caller.post("/context", {**ASK, "censors": "off"}).json()["id"]
    assert answered(caller, run, SECRET, censors="check").json()["censor_verdict"] == "block"


def test_run_keeps_what_triggered_without_quoting_the_answer(api, ada, actor_token, block):
    caller = api.as_token(actor_token)
    run = caller.post("/context", HARMLESS).json()["id"]
    answered(caller, run, "I say SwOrDfIsH here.")
    kept = ContextRun.objects.get().censors
    (trigger,) = kept["answer"]["triggers"]
    assert (trigger["id"], trigger["pattern"], trigger["spans"]) == (str(block.pk), "swordfish", [[6, 15]])
    assert "SwOrDfIsH" not in str(kept)
    assert "SwOrDfIsH" not in str(list(AuditEvent.objects.values()))


def test_censor_that_cannot_be_checked_blocks_and_is_named_with_the_reason(api, ada, actor_token, person, monkeypatch):
    meant = censor_create(agent=ada, pattern="speaks of weapons", match="semantic", by=person)

    def refuse(name):
        raise EmbeddingFailed("The embedder is down.")

    monkeypatch.setattr("memory.censoring.censor_matching.embedder_named", refuse)
    caller = api.as_token(actor_token)
    body = caller.post("/context", HARMLESS).json()
    assert body["censor_verdict"] == "block"
    (named,) = body["censors"]
    assert (named["id"], named["severity"], named["blocks"], named["spans"]) == (str(meant.pk), "warn", True, [])
    assert "could not be checked" in named["reason"]
    assert "embedder is down" in named["reason"]
    assert counted(meant) == [0], "what was not checked did not match"
    assert answered(caller, body["id"], "Sunny.").json()["censor_verdict"] == "block"


def test_agents_own_censor_that_cannot_be_checked_blocks_nothing(api, ada, actor_token, actor, monkeypatch):
    censor_create(agent=ada, pattern="speaks of weapons", match="semantic", by=actor)

    def refuse(name):
        raise EmbeddingFailed("The embedder is down.")

    monkeypatch.setattr("memory.censoring.censor_matching.embedder_named", refuse)
    body = api.as_token(actor_token).post("/context", HARMLESS).json()
    assert (body["censor_verdict"], body["censors"]) == ("allow", [])


@pytest.mark.django_db(transaction=True)
def test_censors_that_cannot_be_loaded_block(api, ada, actor_token):
    with as_the_owner(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE memory_censor RENAME TO gone")
    try:
        body = api.as_token(actor_token).post("/context", HARMLESS).json()
    finally:
        with as_the_owner(), connection.cursor() as cursor:
            cursor.execute("ALTER TABLE gone RENAME TO memory_censor")
    assert body["censor_verdict"] == "block"
    assert body["censor_reason"] == "Active Censors: It could not be loaded."
    assert ["Active Censors", "It could not be loaded."] in body["failed"]


def test_all_censors_in_force_are_checked_also_those_beyond_what_a_prompt_can_show(api, ada, actor_token, person):
    for place in range(101):
        censor_create(agent=ada, pattern=f"word{place}x", severity="warn", by=person)
    last = censor_create(agent=ada, pattern="swordfish", severity="warn", by=person)
    body = api.as_token(actor_token).post("/context", ASK).json()
    assert [one["id"] for one in body["censors"]] == [str(last.pk)]


def test_subconscious_counts_only_its_own_and_the_actor_knows_nothing_of_them(
    api, ada, actor_token, subconscious_token, dreamer, block
):
    hidden = censor_create(agent=ada, pattern="launch", severity="warn", by=dreamer)
    dream = api.as_token(subconscious_token)
    body = dream.post("/context", ASK).json()
    assert {one["id"] for one in body["censors"]} == {str(block.pk), str(hidden.pk)}
    answered(dream, body["id"], SECRET)
    assert counted(block, hidden) == [0, 2]
    waking = api.as_token(actor_token).post("/context", ASK).json()
    assert [one["id"] for one in waking["censors"]] == [str(block.pk)]
    assert counted(block, hidden) == [1, 2]
    assert set(AuditEvent.objects.filter(action="censor.trigger").values_list("persona", flat=True)) == {
        "subconscious", ""
    }  # fmt: skip


def test_persons_report_of_the_subconscious_answer_counts_on_the_subconscious(
    api, ada, subconscious_token, dreamer, block, charlie
):
    hidden = censor_create(agent=ada, pattern="launch", severity="warn", by=dreamer)
    run = api.as_token(subconscious_token).post("/context", HARMLESS).json()["id"]
    assert len(answered(api.as_person(charlie), run, SECRET).json()["censors"]) == 2
    assert counted(block, hidden) == [0, 1]
    assert AuditEvent.objects.get(action="censor.trigger").persona == "subconscious"


def test_viewer_sees_what_is_triggered_and_counts_nothing(api, ada, alice, bob, block):
    viewer, reviewer = api.as_person(alice), api.as_person(bob)
    asked = viewer.request("POST", "/context?agent=ada", body=ASK)
    assert [one["id"] for one in asked.json()["censors"]] == [str(block.pk)]
    assert counted(block) == [0]
    assert reviewer.request("POST", "/context?agent=ada", body=ASK).status_code == 200
    assert counted(block) == [1]


def test_token_that_may_not_write_memory_counts_all_the_same(api, ada, block):
    reader = api.as_token(make_token(ada, name="reader", scopes=["context:read"]))
    assert reader.post("/context", ASK).json()["censor_verdict"] == "block"
    assert counted(block) == [1]


def test_check_costs_no_statement_unless_something_triggers(api, ada, actor_token, block):
    caller = api.as_token(actor_token)

    def statements(asked):
        with CaptureQueriesContext(connection) as found:
            assert caller.post("/context", asked).status_code == 200
        return len(found)

    statements(HARMLESS)
    assert statements({**HARMLESS, "censors": "off"}) == statements(HARMLESS) < statements(ASK)


def test_run_from_before_censors_were_checked_can_still_be_answered(api, ada, actor_token, block):
    caller = api.as_token(actor_token)
    run = caller.post("/context", HARMLESS).json()["id"]
    kept = ContextRun.objects.get()
    request = {name: value for name, value in kept.request.items() if name != "censors"}
    ContextRun.objects.update(censors={}, request=request)
    assert answered(caller, run, SECRET).json()["censor_verdict"] == "block"
    assert set(ContextRun.objects.get().censors) == {"answer"}

"""Erasing while others are at it: what they read before it is not written after it, and nobody is answered with 500."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import close_old_connections, connection, transaction

from context.models import ContextRun, MemoryUsage
from identity.models import AuditEvent
from identity.principal import Principal
from identity.services.agent_lock import agent_lock_exclusive, agent_lock_shared
from memory.lifecycle.runner import dream_queue, job_run
from memory.models import Fact, FactChange, Job, MemoryReview, WorkingMemory
from memory.services.erasure import agent_erase, fact_erase
from memory.services.facts import fact_learn
from tests.judge_server import JudgeServer
from tests.memory.test_erasure import assert_gone
from tests.product import until

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "Quuxley sleeps in the old lighthouse."
ASKED = {"session_id": "s", "input": "Where does Quuxley sleep?"}


@pytest.fixture
def admin(charlie):
    return Principal.of_user(charlie)


@pytest.fixture
def secret(ada, actor):
    return fact_learn(agent=ada, content=SECRET, subject="Quuxley", category="person", by=actor).fact


def on_a_connection_of_its_own(work):
    close_old_connections()
    try:
        return work()
    finally:
        connection.close()


def somebody_waits():
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'")
        return cursor.fetchone()[0] > 0


def raced(agent, work, erase):
    """What `work` returns, which reads before `erase` commits and writes after it."""
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            agent_lock_exclusive(agent)
            answer = pool.submit(on_a_connection_of_its_own, work)
            until("it waits for the erasure", somebody_waits)
            erase()
        return answer.result(60)


def test_erasure_race_prompt_assembled_before_is_assembled_again(ada, secret, admin, api, actor_token):
    caller = api.as_token(actor_token)
    assert SECRET in caller.post("/context", ASKED).json()["system_prompt"]
    answer = raced(
        ada,
        lambda: caller.post("/context", ASKED),
        lambda: fact_erase(fact=secret, by=admin, reason="They asked."),
    )
    assert answer.status_code == 200
    assert "lighthouse" not in answer.content.decode()
    assert ContextRun.objects.get().pk.hex == answer.json()["id"].replace("-", "")
    assert_gone("lighthouse", "Quuxley sleeps")


def test_erasure_race_prompt_logged_meanwhile_is_found(ada, secret, admin, api, actor_token):
    """The erasure has read the log through, waits for somebody who holds the agent, and must look again."""
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic(), agent_lock_shared(ada.pk):
            erased = pool.submit(
                on_a_connection_of_its_own, lambda: fact_erase(fact=secret, by=admin, reason="They asked.")
            )
            until("it waits for who holds the agent", somebody_waits)
            told = ContextRun.objects.create(
                agent=ada, persona="actor", session_id="s", input="x", request={}, system_prompt=SECRET, sections=[],
                tokens=1, duration_ms=1, principal_name="x",
            )  # fmt: skip
        assert erased.result(60).rows["contextrun"] == 1
    assert not ContextRun.objects.filter(pk=told.pk).exists()
    assert_gone("lighthouse")


def test_erasure_race_prompt_of_an_erased_agent_is_not_found(ada, secret, admin, api, actor_token):
    caller = api.as_token(actor_token)
    answer = raced(
        ada, lambda: caller.post("/context", ASKED), lambda: agent_erase(agent=ada, by=admin, reason="It has ended.")
    )
    assert answer.status_code == 404, answer.content
    assert not ContextRun.objects.exists()


def calls_about(fact, other, run_id):
    return {
        "confirm": (f"/facts/{fact.pk}/confirm", {}, 404),
        "supersede": (f"/facts/{fact.pk}/supersede", {"by": {"content": "Quuxley lives at sea."}}, 404),
        "supersede by it": (f"/facts/{other.pk}/supersede", {"fact_id": str(fact.pk)}, 404),
        "invalidate": (f"/facts/{fact.pk}/invalidate", {}, 404),
        "answer": (f"/context/{run_id}/response", {"response": SECRET}, 404),
        "outcome": (f"/context/{run_id}/outcome", {"outcome": "success"}, 404),
        "learn": ("/facts", {"content": "Quuxley sleeps in the new lighthouse.", "subject": "Quuxley"}, 201),
    }


CALLS = ("confirm", "supersede", "supersede by it", "invalidate", "answer", "outcome", "learn")


@pytest.mark.parametrize("name", CALLS)
def test_erasure_race_call_about_the_fact_leaves_nothing(name, ada, secret, actor, admin, charlie, api, actor_token):
    other = fact_learn(agent=ada, content="The mill is closed.", by=actor).fact
    caller = api.as_token(actor_token)
    run_id = caller.post("/context", ASKED).json()["id"]
    path, body, expected = calls_about(secret, other, run_id)[name]
    if name == "invalidate":
        caller = api.as_person(charlie)
        path += "?agent=ada"
    answer = raced(
        ada, lambda: caller.post(path, body), lambda: fact_erase(fact=secret, by=admin, reason="They asked.")
    )
    assert answer.status_code == expected, answer.content
    assert_gone("old lighthouse")
    assert not MemoryUsage.objects.exists()
    assert not FactChange.objects.filter(other=secret.pk).exists()
    assert not AuditEvent.objects.filter(after__contains={"content": SECRET}).exists()
    assert Fact.objects.filter(content="Quuxley lives at sea.").count() == 0


def test_erasure_race_judge_answer_from_before_is_not_kept(ada, secret, actor, admin):
    """The judge has read the fact, says so, and is heard only when the fact is gone."""
    with JudgeServer() as server, server.configured():
        server.reply(status=529, raw=b"{}")
        words = {"content": "Quuxley sometimes sleeps in the old lighthouse.", "subject": "Quuxley"}
        learned = fact_learn(agent=ada, by=actor, **words).fact
        run = Job.objects.get(handler="fact_check")
        server.reply(relation="contradiction", confidence=0.9, reason="One says that the lighthouse is old.")
        done = raced(
            ada,
            lambda: job_run(run.pk),
            lambda: fact_erase(fact=secret, by=admin, reason="They asked."),
        )
    assert done in ("not ours", "done")
    assert list(Fact.objects.values_list("pk", flat=True)) == [learned.pk]
    assert_gone("One says")


def test_erasure_race_job_reads_current_facts(ada, secret, actor, admin):
    """A proposal to merge, made of facts of which one is erased before it is kept."""
    for number in range(12):
        fact_learn(agent=ada, content=f"Quuxley owns boat number {number} of the harbour.", subject="Quuxley", by=actor)
    MemoryReview.objects.all().delete()
    Job.objects.all().delete()
    dream_queue()
    run = Job.objects.get(handler="compaction", agent=ada)
    with JudgeServer() as server, server.configured():
        server.reply(content=f"{SECRET} He owns boats.")
        server.reply(content="He owns boats.")
        done = raced(
            ada,
            lambda: job_run(run.pk),
            lambda: fact_erase(fact=secret, by=admin, reason="They asked."),
        )
    assert done == "done"
    asked = MemoryReview.objects.get(kind="compaction")
    assert asked.proposal == "He owns boats."
    assert secret.pk not in asked.facts
    assert_gone("lighthouse")


def test_erasure_race_working_memory_goes_with_the_fact(ada, secret, admin):
    WorkingMemory.objects.create(
        agent=ada, persona="actor", session_id="s", task=f"Find out whether {SECRET}",
        items=[{"id": "1", "type": "note", "text": SECRET, "relevance": 1}],
        open_threads=[{"id": "2", "text": f"Why? {SECRET}"}, {"id": "3", "text": "Buy oil."}],
    )  # fmt: skip
    receipt = fact_erase(fact=secret, by=admin, reason="They asked.")
    assert receipt.rows["workingmemory"] == 1
    assert_gone("lighthouse")
    assert WorkingMemory.objects.get().open_threads == [{"id": "3", "text": "Buy oil."}]

"""Workers that are killed, and two workers at once, on the database that the test sees: real processes throughout."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.db import connection, transaction
from django.db.models import Count, Q
from django.test import override_settings
from django_q.models import OrmQ
from django_q.tasks import async_task

from identity.principal import Principal
from identity.services.agents import agent_create
from identity.services.tokens import token_create
from memory.jobs import TASK, job_queue
from memory.lifecycle.handler import STALE_AFTER
from memory.lifecycle.handlers import DREAM, handlers
from memory.models import (
    Censor,
    Decision,
    Episode,
    Fact,
    FactChange,
    Job,
    JudgeCall,
    MemoryReview,
    Procedure,
    SearchItem,
)
from memory.services.censors import censor_check, censor_create, censor_false_positive
from memory.services.decisions import decision_record
from memory.services.episodes import episode_close, episode_open
from memory.services.facts import fact_learn
from memory.services.procedures import procedure_create, procedure_report
from nousweb.lib import clock
from tests.factories import pair_review
from tests.judge_server import KEY, JudgeServer, Reply
from tests.memory.embedders import Endpoint, endpoint
from tests.product import PROJECT, kill, tied, until

pytestmark = pytest.mark.django_db(transaction=True)

SLOW = "bruno"
"""Of the two agents, the one about whom everybody outside answers only when the gate is open."""


class Gate:
    """Where those who ask about Bruno are held; `held` says what has come so far."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.held: set[str] = set()

    def pass_by(self, who: str, said: str) -> None:
        if SLOW in said.lower():
            self.held.add(who)
            self.open.wait(60)


class Answering(JudgeServer):
    """A judge that answers each kind of question in its way."""

    answers: dict[str, dict[str, Any]] = {
        "record_relation": {"relation": "update", "confidence": 0.95, "reason": "It changed."},
        "record_summary": {"title": "By the judge", "summary": "What the judge says."},
        "record_facts": {
            "facts": [{"subject": "lunch", "content": "Lunch is at noon.", "category": "concept", "confidence": 0.9}]
        },
        "record_merged": {"content": "All of it at once."},
    }
    gate: Gate

    def _take(self, body: dict[str, Any], headers: dict[str, str]) -> Reply:
        super()._take(body, headers)
        tool = body["tool_choice"]["name"]
        self.gate.pass_by(tool, body["messages"][0]["content"])
        return Reply(input=self.answers[tool])


class Workers:
    """Starts worker programs on the test's own database; whatever is left at the end is killed."""

    def __init__(self, folder: Any, **variables: str) -> None:
        address = urlsplit(os.environ["DATABASE_URL"])
        path = "/" + connection.settings_dict["NAME"]
        self.url = address._replace(path=path).geturl()
        self.owner_url = urlsplit(os.environ["DATABASE_OWNER_URL"])._replace(path=path).geturl()
        self.log = folder / "workers.log"
        self.environment = os.environ | {"DATABASE_URL": self.url, "DATABASE_OWNER_URL": "", **variables}
        self.programs: list[subprocess.Popen[bytes]] = []

    def start(self, processes: int = 1) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            program = subprocess.Popen(
                tied(sys.executable, str(PROJECT / "manage.py"), "qcluster"),
                cwd=PROJECT,
                env=self.environment | {"NOUS_WORKER_PROCESSES": str(processes)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.programs.append(program)
        return program

    def stop(self) -> None:
        for program in self.programs:
            with contextlib.suppress(ProcessLookupError):
                kill(program)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def outside(gate: Gate) -> Iterator[tuple[Endpoint, Answering]]:
    with endpoint() as embeddings, Answering() as judge:
        judge.gate = gate
        with override_settings(EMBEDDER="openai", EMBED_MODEL="test", EMBED_BASE_URL=embeddings.url):
            yield embeddings, judge
        gate.open.set()


@pytest.fixture
def workers(outside, tmp_path) -> Iterator[Workers]:
    embeddings, judge = outside
    started = Workers(
        tmp_path,
        NOUS_EMBEDDER="openai",
        NOUS_EMBED_MODEL="test",
        NOUS_EMBED_BASE_URL=embeddings.url,
        NOUS_ANTHROPIC_API_KEY=KEY,
        NOUS_JUDGE_BASE_URL=judge.url,
    )
    try:
        yield started
    finally:
        started.stop()


def actor_of(agent) -> Principal:
    return Principal.of_token(token_create(agent=agent, persona="actor", name="actor", by=Principal.of_system("t"))[0])


def work_that_asks_outside(agent, by) -> None:
    """Something to do for the handlers that ask a judge; the agent's name is in all that they send."""
    name = agent.name
    for thing in ("apples", "bread", "cheese", "dates", "eggs", "figs", "grapes", "honey", "ink", "jam", "kale"):
        fact_learn(agent=agent, content=f"{name} likes {thing}.", subject="food", by=by)
    fact_learn(agent=agent, content=f"{name}'s twin is the archive of Graz.", subject="archive", by=by)
    fact_learn(agent=agent, content=f"{name}'s twin is the archive of Linz.", subject="archive", by=by)
    question = MemoryReview.objects.get(agent=agent, kind="attribute")
    job_queue("fact_judge", agent=agent, persona="actor", subject=pair_review(question.pk))
    episode = episode_open(agent=agent, detail=f"{name}'s job was slow. It is fast now.", by=by)
    decision_record(agent=agent, description="Watch it.", by=by)
    episode_close(episode=episode, by=by)


def work_that_asks_nobody(agent, by, person) -> None:
    """Something to do for each of the other handlers."""
    now = clock.now()
    with clock.at(now - STALE_AFTER - timedelta(days=1)):
        fact_learn(agent=agent, content="The archive is old.", subject="age", category="technical", by=by)
    for days in range(8, 1, -1):
        with clock.at(now - timedelta(days=days)):
            fact_learn(agent=agent, content="This is often told.", subject="often", by=by)
    with clock.at(now - timedelta(days=40)):
        old = episode_open(agent=agent, title="Old", by=by)
        episode_close(episode=old, summary=" ".join(["word"] * 150), by=by)
    procedure = procedure_create(agent=agent, name="Release", steps=["Tag it."], by=by)
    for _ in range(5):
        procedure_report(procedure=procedure, success=True, by=by)
    mistaken = censor_create(agent=agent, pattern="mistaken", severity="block", by=by)
    censor_create(agent=agent, pattern="rising", by=by)
    for _ in range(5):
        censor_check(text="rising, mistaken", agent=agent, by=by, count=True)
    for _ in range(3):
        censor_false_positive(censor=mistaken, by=Principal.of_user(person))
    for subject in ("Ledger", "Books"):
        for words in ("is kept by hand", "closes at six"):
            fact_learn(agent=agent, content=f"{subject} {words}.", subject=subject, by=by)
    known = fact_learn(agent=agent, content="The job's twin is in Graz.", subject="rest", by=by).fact
    with transaction.atomic():
        # In a transaction nothing is embedded, so the worker compares it by meaning.
        text = "The job's twin is in Linz."
        fact_learn(agent=agent, content=text, subject="rest", by=by, exclude=[known.pk])


def effects_outside(agent) -> dict[str, Any]:
    """What the handlers that ask a judge have come to, as something that would show if it had happened twice."""
    superseded = FactChange.objects.filter(action="superseded", fact__content__contains="archive of Graz")
    episode = Episode.objects.get(agent=agent, detail__contains="slow")
    learned = Fact.objects.filter(agent=agent, source=f"episode:{episode.pk}")
    return {
        "fact_judge": superseded.filter(fact__agent=agent).count(),
        "episode_close": (
            episode.title,
            list(learned.values_list("content", "confirmation_count")),
            Decision.objects.filter(agent=agent, episode=episode).count(),
        ),
        "compaction": MemoryReview.objects.filter(agent=agent, kind="compaction").count(),
    }


def effects_inside(agent) -> dict[str, Any]:
    facts, reviews = Fact.objects.filter(agent=agent), MemoryReview.objects.filter(agent=agent)
    often = facts.get(content__contains="often told")
    return {
        "fact_check": FactChange.objects.filter(
            fact__agent=agent, action="superseded", fact__content__contains="in Graz"
        ).count(),
        "censor_escalate": (
            Censor.objects.get(agent=agent, pattern="rising").severity,
            reviews.filter(kind="escalation").count(),
        ),
        "staleness": facts.get(content__contains="is old").confidence,
        "core_facts": (often.importance, often.changes.filter(reason__contains="core fact").count()),
        "episode_compact": len(SearchItem.objects.get(agent=agent, text__startswith="Old").text.split()),
        "procedure_flags": Procedure.objects.get(agent=agent).tags,
        "censor_retire": Censor.objects.get(agent=agent, pattern="mistaken").active,
        "subject_contexts": reviews.filter(kind="same_subject").count(),
    }


ONCE_OUTSIDE = {"fact_judge": 1, "episode_close": ("By the judge", [("Lunch is at noon.", 0)], 1), "compaction": 1}
ONCE_INSIDE = {
    "fact_check": 1,
    "censor_escalate": ("block", 1),
    "staleness": 0.9,
    "core_facts": (0.9, 1),
    "episode_compact": 82,
    "procedure_flags": ["effective"],
    "censor_retire": False,
    "subject_contexts": 1,
}

HALF_WAY = """
SELECT handler FROM memory_job WHERE agent_id = %(agent)s AND id NOT IN (
    SELECT id FROM memory_job WHERE agent_id = %(agent)s FOR UPDATE SKIP LOCKED)
"""
"""Handlers whose run is locked: they are inside the transaction of their effect."""


def run_messages() -> int:
    return sum(message.func() == TASK for message in OrmQ.objects.all())


def unfinished() -> list[Any]:
    return list(Job.objects.exclude(status="done").values_list("agent__slug", "handler", "status", "error"))


def test_worker_killed_in_every_handler_leaves_each_effect_once(ada, bob, outside, workers, gate):
    """Ada's handlers are stopped half-way through their effects, Bruno's while they ask outside; then -9 for all."""
    bruno = agent_create(slug=SLOW, name="Bruno", prompt="You are Bruno.", by=Principal.of_system("tests"))
    by, by_bruno = actor_of(ada), actor_of(bruno)
    work_that_asks_nobody(ada, by, bob)
    Job.objects.all().exclude(handler__in=["fact_check", "censor_escalate"]).delete()
    work_that_asks_outside(ada, by)
    work_that_asks_outside(bruno, by_bruno)
    for name in DREAM:
        job_queue(name, agent=ada, persona="subconscious", subject=ada)
    job_queue("compaction", agent=bruno, persona="subconscious", subject=bruno)
    # Expectations are checked again after every change, so of them no attempt is the last: test_expectations.py. An
    # import goes on from what it has stored: tests/console/memory/test_imports.py kills it half-way. An export has no
    # effect but a file.
    inside = set(handlers()) - {"expectation_check", "import_run", "export_run"}
    asking = {"fact_judge", "episode_close", "compaction"}
    assert set(Job.objects.filter(agent=ada).values_list("handler", flat=True)) == inside
    for message in OrmQ.objects.all():
        # Vectors would be made in the same processes, and wait for the same lock.
        if message.func() != TASK:
            message.delete()
    with psycopg.connect(workers.owner_url) as holding, psycopg.connect(workers.url, autocommit=True) as looking:
        # Each of these handlers writes an audit record or the index after its first change, and stands there.
        holding.execute("LOCK TABLE identity_auditevent, memory_searchitem IN SHARE MODE")
        worker = workers.start(processes=len(inside) + len(asking))
        until(
            "Ada's handlers stand half-way",
            lambda: {row[0] for row in looking.execute(HALF_WAY, {"agent": ada.pk}).fetchall()} >= inside,
        )
        until(
            "the judge is asked about Bruno",
            lambda: {"record_relation", "record_summary", "record_merged"} <= gate.held,
        )
        kill(worker)
    held = Job.objects.filter(status="running")
    assert set(held.filter(agent=ada).values_list("handler", flat=True)) >= inside
    assert set(held.filter(agent=bruno).values_list("handler", flat=True)) >= asking
    killed = dict(held.values_list("pk", "attempts"))
    gate.open.set()
    workers.start()
    until("all runs are done", lambda: not unfinished())
    again = dict(Job.objects.filter(pk__in=killed).values_list("pk", "attempts"))
    assert again == {key: attempts + 1 for key, attempts in killed.items()}
    assert effects_inside(ada) == ONCE_INSIDE
    assert effects_outside(ada) == effects_outside(bruno) == ONCE_OUTSIDE


def test_workers_on_one_database_do_no_work_twice(ada, outside, workers):
    """Every message is there three times, and both workers take them as fast as they can."""
    by = actor_of(ada)
    for number in range(12):
        with transaction.atomic():
            fact_learn(agent=ada, content=f"Machine {number} never stops at night.", subject=f"m{number}", by=by)
            known = Fact.objects.get(subject=f"m{number}")
            text = f"Machine {number} sometimes stops at night."
            fact_learn(agent=ada, content=text, subject=f"m{number}", by=by, exclude=[known.pk])
        episode = episode_open(agent=ada, detail=f"Machine {number} was looked at. Nothing was wrong.", by=by)
        episode_close(episode=episode, by=by)
    runs = list(Job.objects.values_list("pk", flat=True))
    assert len(runs) == 36
    for run in runs * 2:
        async_task(TASK, run)
    both = [workers.start(processes=2), workers.start(processes=2)]
    until("all runs are done and no message is left", lambda: not unfinished() and not run_messages())
    for worker in both:
        kill(worker)
    assert set(Job.objects.filter(pk__in=runs).values_list("attempts", flat=True)) == {1}
    judged = JudgeCall.objects.values("task").annotate(calls=Count("pk"))
    # Where only the judge sees a relation, it is asked a second time.
    assert {row["task"]: row["calls"] for row in judged} == {"summarise": 12, "extract_facts": 12, "relation": 24}
    assert FactChange.objects.filter(action="superseded").count() == 12
    assert Fact.objects.get(content="Lunch is at noon.").confirmation_count == 11
    assert set(Episode.objects.values_list("title", flat=True)) == {"By the judge"}


def test_worker_describes_every_closed_episode_though_the_judge_is_down(ada, workers):
    workers.environment["NOUS_JUDGE_BASE_URL"] = "http://127.0.0.1:1"
    workers.start()
    by = actor_of(ada)
    began = clock.now()
    for number in range(4):
        episode = episode_open(agent=ada, detail=f"We repaired machine {number}. It runs again.", by=by)
        episode_close(episode=episode, by=by)
        episode.refresh_from_db()
        assert (episode.title, episode.summary_kind) == (f"We repaired machine {number}", "extractive")
    until("all runs are done", lambda: not unfinished())
    results = Job.objects.values_list("status", "result__judge")
    assert set(results) == {("done", "pending")}
    assert Job.objects.latest("finished_at").finished_at - began < timedelta(seconds=30)
    assert not Episode.objects.filter(Q(title="") | Q(summary="")).exists()

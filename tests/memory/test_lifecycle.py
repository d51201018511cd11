"""Runs of the lifecycle: once in effect, tried again, given up visibly; and what each handler does."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from identity.principal import Principal
from memory.jobs import JOB_LEASE, LOST_AFTER, LOST_IN_BACKLOG, job_queue
from memory.layers.event_validation import MAX_SUMMARY_WORDS, extract_summary, extract_title
from memory.lifecycle.handler import STALE_AFTER, Defer, Handler
from memory.lifecycle.handlers import DREAM, handlers
from memory.lifecycle.handlers.dream import flag_of
from memory.lifecycle.runner import REQUEUE_TASK, dream_queue, due_jobs_requeue, job_retry, job_run, judgements_retry
from memory.models import Censor, Decision, Episode, Fact, FactChange, Job, MemoryReview, SearchItem
from memory.services.censors import censor_check, censor_create, censor_false_positive
from memory.services.decisions import decision_record
from memory.services.episodes import episode_close, episode_open
from memory.services.facts import fact_learn
from memory.services.reviews.resolve import review_resolve
from memory.services.reviews.undo import review_undo
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, NotAllowed
from nousweb.queue import schedule_pause, schedule_run
from tests.judge_server import JudgeServer

pytestmark = pytest.mark.django_db
DETAIL = (
    "We looked at why invoices were sent twice. The nightly job had been started by two schedulers. "
    "Bob moved the lock of the nightly job into the database. We decided to watch the invoices for a week. "
    "The lunch was late. Invoices have been sent once since then."
)


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer() as server, server.configured():
        yield server


@pytest.fixture
def handler(monkeypatch):
    """A handler of the test's own, called "test"; `queue` queues a run of it."""

    def put(apply=lambda run, prepared: {}, prepare=lambda run: None):
        monkeypatch.setitem(handlers(), "test", Handler(apply=apply, prepare=prepare))

    return put


def run_of(**fields):
    return Job.objects.get(**fields)


def fails(run, *_):
    raise RuntimeError("secret words of a memory")


def test_job_is_queued_once_for_its_key(ada, handler):
    handler()
    assert job_queue("test", agent=ada, persona="actor", subject=ada) is not None
    assert job_queue("test", agent=ada, persona="actor", subject=ada) is None
    assert Job.objects.count() == 1


def test_job_message_received_twice_has_one_effect(ada, handler):
    calls = []
    handler(apply=lambda run, _: calls.append(1) or {"did": "it"})
    run = job_queue("test", agent=ada, persona="actor", subject=ada)
    assert [job_run(run.pk), job_run(run.pk)] == ["done", "not ours"]
    assert (calls, run_of(pk=run.pk).result) == ([1], {"did": "it"})


def test_job_failure_is_retried_with_backoff_until_given_up(ada, handler, bob):
    handler(apply=fails)
    run = job_queue("test", agent=ada, persona="actor", subject=ada)
    for attempt in range(1, JOB_LEASE.max_attempts + 1):
        expected = "dead" if attempt == JOB_LEASE.max_attempts else "failed"
        assert job_run(run.pk) == expected
    run = run_of(pk=run.pk)
    assert (run.status, run.attempts) == ("dead", JOB_LEASE.max_attempts)
    assert "secret" not in run.error
    assert [JOB_LEASE.backoff(n) for n in (1, 2, 3)] == [timedelta(seconds=pause) for pause in (15, 30, 60)]
    assert job_run(run.pk) == "not ours"
    handler()
    job_retry(job=run, by=Principal.of_user(bob))
    assert job_run(run.pk) == "done"
    with pytest.raises(Conflict):
        job_retry(job=run, by=Principal.of_user(bob))


def test_job_retry_is_for_people(ada, actor, alice, handler):
    handler(apply=fails)
    run = job_queue("test", agent=ada, persona="actor", subject=ada)
    job_run(run.pk)
    for by in (actor, Principal.of_user(alice)):
        with pytest.raises(NotAllowed):
            job_retry(job=run, by=by)


def test_job_failure_leaves_no_half_effect(ada, handler):
    def half(run, _):
        Fact.objects.create(agent=ada, content="Half.")
        raise RuntimeError

    handler(apply=half)
    run = job_queue("test", agent=ada, persona="actor", subject=ada)
    assert job_run(run.pk) == "failed"
    assert not Fact.objects.exists()


def test_job_deferral_is_no_attempt(ada, handler):
    at = clock.now() + timedelta(hours=5)

    def later(run):
        raise Defer("Spent.", retry_at=at)

    handler(prepare=later)
    run = job_queue("test", agent=ada, persona="actor", subject=ada)
    assert job_run(run.pk) == "failed"
    run = run_of(pk=run.pk)
    assert (run.attempts, run.next_attempt_at, run.error) == (0, at, "Spent.")


def test_job_of_a_killed_worker_is_taken_over_after_its_lease(ada, handler):
    handler(apply=lambda run, _: {"by": "another"})
    run = job_queue("test", agent=ada, persona="actor", subject=ada)
    Job.objects.filter(pk=run.pk).update(
        status="running", attempts=1, next_attempt_at=clock.now() + timedelta(minutes=1)
    )
    assert job_run(run.pk) == "not ours"
    Job.objects.filter(pk=run.pk).update(next_attempt_at=clock.now() - timedelta(seconds=1))
    assert due_jobs_requeue() == 1
    assert job_run(run.pk) == "done"


def test_job_of_a_worker_past_its_lease_has_no_effect(ada, handler):
    def overtaken(run):
        # Meanwhile another worker has taken the run over.
        Job.objects.filter(pk=run.pk).update(attempts=2, started_at=clock.now())

    handler(prepare=overtaken, apply=lambda run, _: {"late": True})
    run = job_queue("test", agent=ada, persona="actor", subject=ada)
    assert job_run(run.pk) == "not ours"
    assert run_of(pk=run.pk).result == {}


def test_job_with_a_lost_message_is_notified_again(ada, handler):
    from django_q.models import OrmQ

    handler()
    run = job_queue("test", agent=ada, persona="actor", subject=ada)
    OrmQ.objects.all().delete()
    assert due_jobs_requeue() == 0
    Job.objects.filter(pk=run.pk).update(next_attempt_at=clock.now() - LOST_AFTER)
    assert due_jobs_requeue() == 1
    assert OrmQ.objects.count() == 1
    assert due_jobs_requeue() == 0


def test_job_with_a_lost_message_is_notified_while_others_wait(ada, handler):
    from django_q.models import OrmQ
    from django_q.tasks import async_task

    handler()
    run = job_queue("test", agent=ada, persona="actor", subject=ada)
    OrmQ.objects.all().delete()
    async_task("memory.tasks.embed_pending")
    Job.objects.filter(pk=run.pk).update(next_attempt_at=clock.now() - LOST_AFTER)
    assert due_jobs_requeue() == 0
    Job.objects.filter(pk=run.pk).update(next_attempt_at=clock.now() - LOST_IN_BACKLOG)
    assert due_jobs_requeue() == 1


@pytest.mark.django_db(transaction=True)
def test_job_lease_is_renewed_while_its_handler_works(ada, handler, monkeypatch):
    from memory.lifecycle import runner

    monkeypatch.setattr(runner, "JOB_LEASE", replace(JOB_LEASE, renew_every=timedelta(milliseconds=20)))
    seen = []

    def wait_for_two_renewals(run):
        while len(seen) < 3:
            until = run_of(pk=run.pk).next_attempt_at
            if until not in seen:
                seen.append(until)

    handler(prepare=wait_for_two_renewals, apply=lambda run, _: {"did": "it"})
    run = job_queue("test", agent=ada, persona="actor", subject=ada)
    assert job_run(run.pk) == "done"
    assert seen == sorted(seen)


@pytest.mark.django_db(transaction=True)
def test_job_reaper_runs_in_every_worker_unless_paused(ada, handler, monkeypatch):
    from django_q.models import OrmQ, Schedule
    from django_q.signals import post_spawn

    from memory.jobs import REQUEUE_EVERY
    from nousweb.lib import background

    rounds, go, done = threading.Semaphore(0), threading.Semaphore(0), threading.Event()

    class Pause:
        def wait(self, seconds):
            if seconds != REQUEUE_EVERY.total_seconds():
                return True  # The other receiver of the signal would go on in this process, beside the next tests.
            rounds.release()
            go.acquire()
            return done.is_set()

    monkeypatch.setattr(background, "Event", Pause)
    handler()
    run = job_queue("test", agent=ada, persona="actor", subject=ada)
    OrmQ.objects.all().delete()
    Job.objects.filter(pk=run.pk).update(status="failed", attempts=1)
    Schedule.objects.filter(func=REQUEUE_TASK).update(repeats=0)
    post_spawn.send(sender="django_q", proc_name="test")
    rounds.acquire()
    go.release()
    rounds.acquire()
    assert OrmQ.objects.count() == 0
    Schedule.objects.filter(func=REQUEUE_TASK).update(repeats=-1)
    go.release()
    rounds.acquire()
    assert OrmQ.objects.count() == 1
    done.set()
    go.release()


def test_job_that_ends_its_worker_repeatedly_is_given_up(ada, handler):
    handler()
    run = job_queue("test", agent=ada, persona="actor", subject=ada)
    Job.objects.filter(pk=run.pk).update(
        status="running", attempts=JOB_LEASE.max_attempts, next_attempt_at=clock.now() - timedelta(seconds=1)
    )
    due_jobs_requeue()
    assert run_of(pk=run.pk).status == "dead"


# Episodes


def closed(ada, actor, detail=DETAIL, **fields):
    episode = episode_open(agent=ada, by=actor, detail=detail)
    decision_record(agent=ada, description="Watch the invoices.", by=actor)
    episode_close(episode=episode, by=actor, **fields)
    return episode, run_of(handler="episode_close", subject_id=str(episode.pk))


def test_episode_summary_without_a_judge_is_extractive(ada, actor):
    episode, run = closed(ada, actor)
    assert job_run(run.pk) == "done"
    episode.refresh_from_db()
    assert episode.title == "We looked at why invoices were sent twice"
    assert episode.summary_kind == "extractive"
    assert episode.summary.startswith("We looked")
    assert episode.summary.endswith("since then.")
    assert not Fact.objects.exists()
    assert Decision.objects.get().episode_id == episode.pk
    assert episode.active


def test_episode_summary_with_a_judge_has_title_summary_and_facts(ada, actor, server):
    fact_learn(agent=ada, content="Bob keeps the nightly job.", subject="Bob", by=actor)
    server._replies.clear()
    server.reply(title="Invoices that were sent twice", summary="The lock was moved.")
    fact = {"subject": "Bob", "content": "Bob keeps the nightly job.", "category": "concept", "confidence": 0.9}
    unsure = {"subject": "lunch", "content": "Lunch tends to be late.", "category": "concept", "confidence": 0.2}
    unsure |= {"attribute": "Usual time", "value": "late"}
    server.reply(facts=[fact, unsure])
    episode, run = closed(ada, actor)
    assert job_run(run.pk) == "done"
    episode.refresh_from_db()
    assert (episode.title, episode.summary, episode.summary_kind) == (
        "Invoices that were sent twice", "The lock was moved.", "judge",
    )  # fmt: skip
    run.refresh_from_db()
    assert run.result["facts"] == {"confirmed": 1, "stored": 1}
    learned = Fact.objects.get(content="Lunch tends to be late.")
    assert (learned.source_episode_id, learned.source) == (episode.pk, f"episode:{episode.pk}")
    assert (learned.attribute, learned.value) == ("usual time", "late")
    assert MemoryReview.objects.get().kind == "low_confidence"
    assert run.tokens == 240


def test_episode_summary_extractive_is_replaced_by_the_judges(ada, actor, server):
    server.fail(500)
    episode, run = closed(ada, actor)
    assert job_run(run.pk) == "done"
    episode.refresh_from_db()
    assert episode.summary_kind == "extractive"
    assert judgements_retry() == 1
    server.reply(title="Invoices sent twice", summary="By the judge.")
    server.reply(facts=[])
    assert job_run(run.pk) == "done"
    episode.refresh_from_db()
    assert (episode.title, episode.summary, episode.summary_kind) == ("Invoices sent twice", "By the judge.", "judge")
    assert judgements_retry() == 0


def test_episode_summary_of_the_agent_is_never_replaced(ada, actor, server):
    episode, run = closed(ada, actor, title="Mine", summary="My own words.")
    server.reply(facts=[])
    assert job_run(run.pk) == "done"
    episode.refresh_from_db()
    assert (episode.title, episode.summary, episode.summary_kind) == ("Mine", "My own words.", "given")


def test_episode_summary_of_nothing_is_skipped(ada, actor):
    _, run = closed(ada, actor, detail="")
    assert job_run(run.pk) == "done"
    assert "skipped" in run_of(pk=run.pk).result


def test_episode_summary_stays_within_its_words():
    text = ". ".join(f"Sentence {n} tells of matter {n % 7} and of thing {n % 3}" for n in range(300))
    assert len(extract_summary(text).split()) <= MAX_SUMMARY_WORDS
    assert len(extract_summary("word " * 1000).split()) <= MAX_SUMMARY_WORDS
    assert extract_summary(" \n ") == extract_title("...") == ""
    assert len(extract_title("x" * 500)) <= 200


# Censors


def trigger(ada, actor, times):
    for _ in range(times):
        censor_check(text="here is my auth token", agent=ada, by=actor, count=True)
        for run in Job.objects.filter(handler="censor_escalate", status="queued"):
            assert job_run(run.pk) == "done"


def test_censor_escalation_at_its_threshold_is_reversible(ada, actor, bob):
    by = Principal.of_user(bob)
    censor = censor_create(agent=ada, pattern="token", by=actor)
    trigger(ada, actor, 4)
    censor.refresh_from_db()
    assert censor.severity == "warn"
    trigger(ada, actor, 1)
    censor.refresh_from_db()
    assert censor.severity == "block"
    review = MemoryReview.objects.get(kind="escalation")
    review_resolve(review=review, resolution="reverse", by=by)
    trigger(ada, actor, 4)
    censor.refresh_from_db()
    assert (censor.severity, censor.escalation_threshold) == ("warn", 10)
    review_undo(review=review, by=by)
    censor.refresh_from_db()
    assert (censor.severity, censor.escalation_threshold) == ("block", 5)


def test_censor_escalation_never_changes_a_block(ada, actor):
    censor = censor_create(agent=ada, pattern="token", severity="block", by=actor)
    trigger(ada, actor, 12)
    censor.refresh_from_db()
    assert censor.severity == "block"
    assert not MemoryReview.objects.exists()


@pytest.mark.parametrize(
    ("severity", "count", "author", "higher"),
    [("warn", 4, "token", ""), ("warn", 5, "token", "block"), ("warn", 9, "person", "block"),
     ("block", 9, "person", ""), ("absolute", 99, "person", "")],
)  # fmt: skip
def test_censor_escalation_is_one_step_within_its_authors_cap(severity, count, author, higher):
    censor = Censor(severity=severity, activation_count=count, escalation_threshold=5, author_kind=author)
    assert censor.escalates_to == higher


# The dream cycle


def dream(*names):
    for run in Job.objects.filter(handler__in=names or DREAM, status="queued"):
        assert job_run(run.pk) == "done", run_of(pk=run.pk).error


def test_dream_is_queued_once_a_day(ada, bruno):
    assert dream_queue() == 2 * len(DREAM)
    assert dream_queue() == 0
    dream()
    assert set(Job.objects.values_list("status", flat=True)) == {"done"}


def test_dream_old_facts_fade_unless_ageless(ada, actor):
    with clock.at(clock.now() - STALE_AFTER - timedelta(days=1)):
        for category in ("technical", "preference", "person", "concept"):
            fact_learn(agent=ada, content=f"A thing of {category}.", category=category, subject=category, by=actor)
    dream_queue()
    dream()
    found = dict(Fact.objects.values_list("category", "confidence"))
    assert found == {"technical": 0.9, "preference": 1.0, "person": 1.0, "concept": 1.0}
    Job.objects.all().delete()
    dream_queue()
    dream()
    assert Fact.objects.get(category="technical").confidence == 0.9


def test_dream_facts_confirmed_on_many_days_become_core(ada, actor):
    moments = [clock.now() - timedelta(days=day) for day in range(8, 1, -1)]
    for moment in moments:
        with clock.at(moment):
            fact_learn(agent=ada, content="Deploys happen on Tuesdays.", by=actor)
    for _ in range(9):
        fact_learn(agent=ada, content="Backups run at night.", by=actor)
    dream_queue()
    dream()
    assert Fact.objects.get(content="Deploys happen on Tuesdays.").importance == 0.9
    assert Fact.objects.get(content="Backups run at night.").importance == 0.5


def test_dream_shortens_the_index_of_old_episodes(ada, actor):
    summary = " ".join(f"word{n}" for n in range(150))
    for days in (10, 40, 100):
        with clock.at(clock.now() - timedelta(days=days)):
            episode = episode_open(agent=ada, by=actor, title=f"of {days}")
            episode_close(episode=episode, by=actor, summary=summary)
    dream_queue()
    dream("episode_compact")
    words = {item.text.split()[1]: len(item.text.split()) for item in SearchItem.objects.filter(item_type="episode")}
    assert words == {"10": 152, "40": 83, "100": 43}
    assert set(Episode.objects.values_list("summary", flat=True)) == {summary}


@pytest.mark.parametrize(("good", "bad", "flag"), [(4, 0, ""), (5, 0, "effective"), (2, 3, "ineffective"), (3, 2, "")])
def test_dream_flags_procedures_by_their_success(good, bad, flag):
    assert flag_of(good, bad) == flag


def test_dream_retires_mistaken_censors(ada, actor, bob):
    censor = censor_create(agent=ada, pattern="token", severity="block", by=actor)
    trigger(ada, actor, 5)
    for _ in range(3):
        censor_false_positive(censor=censor, by=Principal.of_user(bob))
    dream_queue()
    dream()
    assert not Censor.objects.active().exists()


def test_dream_proposes_and_merges_a_crowded_subject(ada, actor, bob):
    things = ["apples", "bread", "cheese", "dates", "eggs", "figs", "grapes", "honey", "ink", "jam", "kale"]
    for thing in things:
        fact_learn(agent=ada, content=f"Tim likes {thing}.", subject="Tim", by=actor)
    assert Fact.objects.active().count() == 11
    dream_queue()
    dream()
    review = MemoryReview.objects.get(kind="compaction")
    by = Principal.of_user(bob)
    review_resolve(review=review, resolution="merge", content="Tim likes all kinds of food.", by=by)
    assert [fact.content for fact in Fact.objects.active()] == ["Tim likes all kinds of food."]
    assert FactChange.objects.filter(action="merged").count() == 11
    review_undo(review=review, by=by)
    assert Fact.objects.active().count() == 11


# Schedules


def test_schedule_can_be_paused_and_run_now(bob, alice):
    from django_q.models import OrmQ, Schedule

    by = Principal.of_user(bob)
    schedule = Schedule.objects.get(func="memory.tasks.dream")
    assert schedule_pause(schedule=schedule, by=by).repeats == 0
    with pytest.raises(Conflict):
        schedule_pause(schedule=schedule, by=by)
    assert schedule_pause(schedule=schedule, by=by, pause=False).repeats == -1
    schedule_run(schedule=schedule, by=by)
    assert OrmQ.objects.count() == 1
    with pytest.raises(NotAllowed):
        schedule_run(schedule=schedule, by=Principal.of_user(alice))

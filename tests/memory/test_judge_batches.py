"""Several pairs of facts in one call of the judge, and the backlog, which waits for new facts and episodes."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from django_q.models import OrmQ, Schedule
from django_q.signing import SignedPackage

from identity.models import Agent
from identity.principal import Principal
from memory import tasks
from memory.comparison.fact_snapshot import FactSnapshot
from memory.judge import FactPair, JudgeFailed, configured_judge, pairs_judge
from memory.lifecycle.runner import job_run, judgements_retry
from memory.models import Fact, Job, JudgeCall, MemoryReview
from memory.services.episodes import episode_close, episode_open
from nousweb.lib import clock
from tests.factories import make_facts
from tests.http import browser
from tests.judge_server import JudgeServer, Reply

BOTH = {"relation": "unrelated", "confidence": 0.9, "reason": "Both are true."}


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[JudgeServer]:
    with JudgeServer(getattr(request, "param", "anthropic")) as server, server.configured():
        yield server


BOTH_PROTOCOLS = pytest.mark.parametrize("server", ["anthropic", "openai"], indirect=True)
"""For one test of each way to ask; what follows from an answer has no protocol (`test_judge.py` has each form)."""


def waiting(agent: Agent, by: Principal, count: int, *, ago: timedelta = timedelta(), **fields) -> list[MemoryReview]:
    """Reviews of pairs of facts that nobody has judged."""
    made = []
    first = timezone.now() - ago
    for number in range(count):
        with clock.at(first + timedelta(milliseconds=number)):
            texts = [fields.get("text", f"Machine {number} {word} stops.") for word in ("never", "sometimes")]
            old, new = make_facts(agent, texts, by, subject=f"m{number}", origin=fields.get("origin", "agent"))
            made.append(
                MemoryReview.objects.create(
                    agent=agent, persona=by.persona, kind="duplicate", about=f"pair:{old.pk}", old=old, new=new,
                    expires_at=clock.now() + timedelta(days=90),
                )
            )  # fmt: skip
    return made


def job_of(review: MemoryReview) -> Job:
    return Job.objects.create(
        key=f"fact_judge:{review.pk}", handler="fact_judge", agent=review.agent, persona=review.persona,
        subject_type="memoryreview", subject_id=str(review.pk),
    )  # fmt: skip


def verdicts(*answers) -> Reply:
    return Reply(input={"verdicts": [{"pair": number} | answer for number, answer in enumerate(answers, 1)]})


def undecided() -> int:
    return MemoryReview.objects.filter(verdict={}).count()


@BOTH_PROTOCOLS
def test_reviews_of_one_agent_are_judged_in_one_call(server, ada, actor):
    reviews = waiting(ada, actor, 5)
    jobs = [job_of(review) for review in reviews]
    contradiction = {"relation": "contradiction", "confidence": 0.9, "reason": "One of them."}
    server.queue(verdicts(BOTH, BOTH, contradiction, BOTH, BOTH))
    assert job_run(jobs[1].pk) == "done"
    (prompt,) = server.prompts
    assert (prompt.count("<pair "), prompt.count("</memory>")) == (5, 10)
    # The job's own review is the first of the call, the others follow by age.
    kinds = [review.kind for review in MemoryReview.objects.order_by("created_at", "id")]
    assert kinds == ["duplicate", "duplicate", "contradiction", "duplicate", "duplicate"]
    assert MemoryReview.objects.filter(status="resolved", resolution="both").count() == 4
    call = JudgeCall.objects.get()
    assert (call.task, call.tokens_in + call.tokens_out, len(call.verdict["verdicts"])) == ("relation", 120, 5)
    assert "Both are true" not in str(call.verdict)
    assert set(MemoryReview.objects.values_list("judge_call", flat=True)) == {call.pk}
    for job in jobs:
        assert job_run(job.pk) in ("done", "not ours")
    assert len(server.requests) == 1
    assert sorted(Job.objects.values_list("tokens", flat=True)) == [0, 0, 0, 0, 120]
    assert Job.objects.get(pk=jobs[1].pk).result == {
        "judge": "unrelated", "confidence": 0.9, "answer": "both", "others": 4,
    }  # fmt: skip


def test_a_bad_verdict_is_requested_alone_and_spoils_no_other(server, ada, actor):
    jobs = [job_of(review) for review in waiting(ada, actor, 6)]
    answers = [
        BOTH, BOTH | {"confidence": 7}, {"relation": "?"}, BOTH, BOTH | {"pair": 99}, BOTH | {"pair": "four"}, "six",
        BOTH | {"pair": 4, "relation": "duplicate"}, None, [1],
    ]  # fmt: skip
    numbered = [
        {"pair": number} | answer if isinstance(answer, dict) else answer for number, answer in enumerate(answers, 1)
    ]
    server.queue(Reply(input={"verdicts": numbered}))
    for _ in range(3):
        server.reply(**BOTH)
    server.queue(Reply(input={}), Reply(status=400, raw=b"{}"), Reply(status=400, raw=b"{}"))
    assert job_run(jobs[0].pk) == "done"
    # One of six came with the others, three came alone; the others are asked about by their own jobs.
    assert undecided() == 2
    assert Job.objects.get(pk=jobs[0].pk).result["others"] == 3


def test_a_verdict_that_never_comes_leaves_its_review_to_people(server, ada, actor):
    reviews = waiting(ada, actor, 3)
    job = job_of(reviews[0])
    refusal = Reply(content=[], stop_reason="refusal")
    server.queue(refusal, refusal, Reply(input=BOTH), Reply(input=BOTH))
    assert job_run(job.pk) == "done"
    job.refresh_from_db()
    assert job.result == {"judge": "The judge refused to answer.", "others": 2}
    assert MemoryReview.objects.get(verdict={}).pk == reviews[0].pk
    assert len(server.requests) == 4
    assert judgements_retry() == 0


def test_no_valid_verdict_fails_the_job_which_is_tried_again(server, ada, actor):
    job = job_of(waiting(ada, actor, 2)[0])
    server.always(Reply(input={"verdicts": []}))
    assert job_run(job.pk) == "failed"
    # The next call has half as many pairs.
    server.always(Reply(input=BOTH))
    assert job_run(job.pk) == "done"
    assert undecided() == 1


def test_calls_are_bounded_in_number_and_size(server, ada, actor):
    job = job_of(waiting(ada, actor, 30)[0])
    server.queue(verdicts(*[BOTH] * 12))
    assert job_run(job.pk) == "done"
    assert server.prompts[0].count("<pair ") == 12
    assert undecided() == 18
    MemoryReview.objects.update(status="expired")
    job = job_of(waiting(ada, actor, 3, text="Long. " * 700)[0])
    server.always(Reply(input=BOTH))
    assert job_run(job.pk) == "done"
    assert all(prompt.count("<memory ") == 2 for prompt in server.prompts[1:])


def test_pairs_of_different_trust_never_share_a_call(server, ada, actor):
    job = job_of(waiting(ada, actor, 2)[0])
    waiting(ada, actor, 2, origin="web")
    server.queue(verdicts(BOTH, BOTH), verdicts(BOTH, BOTH))
    assert job_run(job.pk) == "done"
    shown = [sorted(part.split("</pair>")[0] for part in prompt.split("<pair ")[1:]) for prompt in server.prompts]
    assert [len(parts) for parts in shown] == [2, 2]
    assert undecided() == 0


@pytest.fixture
def learn(ada, actor, api, actor_token):
    """Learns what resembles three facts, over HTTP."""
    games = [f"Tim plays {game} on Mondays with Ann." for game in ("chess", "go", "golf")]
    make_facts(ada, games, actor, subject="Tim")

    def learn() -> str:
        body = {"content": "Tim plays cards on Mondays with Ann.", "subject": "Tim"}
        answer = api.as_token(actor_token).post("/facts", body)
        assert answer.status_code == 201, answer.content
        return str(answer.json()["action"])

    return learn


def test_learning_asks_about_several_facts_in_one_call_and_uses_each_valid_verdict(server, learn):
    update = BOTH | {"relation": "update"}
    server.queue(Reply(input={"verdicts": [{"pair": 1} | BOTH, {"pair": 2}, {"pair": 3} | update]}))
    assert learn() == "superseded"
    (prompt,) = server.prompts
    replaced = Fact.objects.get(active=False).content
    assert prompt.split("<pair ")[3].count(replaced) == 1
    # The worker asks about the pair that got no valid verdict.
    job = Job.objects.get(handler="fact_check")
    server.queue(verdicts(BOTH, BOTH))
    assert job_run(job.pk) == "done"
    assert server.prompts[1].count("<pair ") == 2
    assert Job.objects.get(pk=job.pk).result == {"action": "stored", "superseded": 0, "asked": 0}


def test_a_check_keeps_valid_verdicts_and_asks_again_about_the_others_only(server, learn):
    server.fail(500)
    assert learn() == "stored"
    job = Job.objects.get(handler="fact_check")
    update = BOTH | {"relation": "update"}
    server.queue(Reply(input={"verdicts": [{"pair": 1} | update, {"pair": 2}, {"pair": 3} | BOTH]}), Reply(input={}))
    assert job_run(job.pk) == "done"
    job.refresh_from_db()
    assert (job.result["superseded"], job.result["judge"], len(job.result["judged"])) == (1, "pending", 2)
    assert judgements_retry() == 1
    server.reply(**update)
    assert job_run(job.pk) == "done"
    (last,) = Fact.objects.filter(active=True).exclude(content__contains="cards").values_list("content", flat=True)
    assert last not in server.prompts[-1]
    assert "<pair" not in server.prompts[-1]
    assert judgements_retry() == 0


class Queue:
    """Runs the messages of the queue in their order, as a worker does."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run(self, *, steps: int = 1000) -> None:
        while steps and (message := OrmQ.objects.order_by("id").first()):
            task = SignedPackage.loads(message.payload)
            message.delete()
            name = task["func"].rpartition(".")[2]
            if name in ("lifecycle_run", "retry_judgements"):
                if name == "lifecycle_run":
                    self.ran.append(Job.objects.get(pk=task["args"][0]).handler)
                getattr(tasks, name)(*task["args"])
                steps -= 1


class Answering(JudgeServer):
    """Answers each kind of question."""

    def _take(self, body, headers):
        super()._take(body, headers)
        pairs = self.prompts[-1].count("<pair ")
        if pairs:
            return verdicts(*[BOTH] * pairs)
        text = str(body)
        if "record_summary" in text or '"title"' in text:
            return Reply(input={"title": "Invoices sent twice", "summary": "By the judge."})
        return Reply(input={"facts": []} if "record_facts" in text else BOTH)


def test_episodes_are_judged_before_older_reviews(ada, actor):
    old = timedelta(days=3)
    waiting(ada, actor, 26, ago=old)
    for _ in range(2):
        episode_close(episode=episode_open(agent=ada, by=actor, detail="Invoices were sent twice."), by=actor)
    queue = Queue()
    queue.run()
    assert queue.ran == ["episode_close"] * 2
    assert judgements_retry() == 0
    with Answering() as server, server.configured():
        queue.ran.clear()
        assert judgements_retry() == 1
        assert judgements_retry() == 0
        queue.run(steps=1)
        # Without a new message nothing of the backlog is asked while something new waits.
        episode_close(episode=episode_open(agent=ada, by=actor, detail="The lock was moved."), by=actor)
        queue.run()
        first = ["episode_close"] * 3
        assert queue.ran[:3] == first
        assert queue.ran[3:] == ["fact_judge"] * 3
        assert undecided() == 0
        assert len(server.requests) == 3 * 2 + 3


def test_a_new_episode_waits_for_one_call_of_the_backlog_and_people_see_how_far_it_is(ada, actor, bob: User):
    waiting(ada, actor, 26, ago=timedelta(days=3))
    queue = Queue()
    with Answering() as server, server.configured():
        page = browser(bob).get("/lifecycle/").content.decode()
        assert "0 of 26 older reviews judged." in " ".join(page.split())
        assert judgements_retry() == 1
        queue.run(steps=1)
        episode_close(episode=episode_open(agent=ada, by=actor, detail="The lock was moved."), by=actor)
        page = browser(bob).get("/lifecycle/").content.decode()
        assert "12 of 26 older reviews judged." in " ".join(page.split())
        queue.run()
        assert queue.ran[:2] == ["fact_judge", "episode_close"]
        assert queue.ran.count("fact_judge") == 3
        page = browser(bob).get("/lifecycle/").content.decode()
        assert "older reviews" not in page


def test_a_new_review_does_not_wait_for_older_ones_in_its_call(ada, actor):
    waiting(ada, actor, 20, ago=timedelta(days=3))
    new = waiting(ada, actor, 2)
    with Answering() as server, server.configured():
        assert job_run(job_of(new[0]).pk) == "done"
        assert server.prompts[0].count("<pair ") == 2
        assert undecided() == 20


def test_a_slow_model_is_asked_about_the_facts_of_an_episode_later(ada, actor, monkeypatch):
    make_facts(ada, ["Tim plays chess on Mondays with Ann."], actor, subject="Tim")
    fact = {
        "subject": "Tim",
        "content": "Tim plays cards on Mondays with Ann.",
        "category": "person",
        "confidence": 0.9,
    }
    monkeypatch.setattr("memory.lifecycle.handlers.episode_close.ASK_WITHIN_SECONDS", 0.5)

    class Slow(JudgeServer):
        def _take(self, body, headers):
            time.sleep(0.6)
            return super()._take(body, headers)

    with Slow() as server, server.configured():
        episode = episode_open(agent=ada, title="Games", detail="Tim plays cards now.", by=actor)
        episode_close(episode=episode, summary="Tim plays cards.", by=actor)
        server.reply(facts=[fact])
        assert job_run(Job.objects.get(handler="episode_close").pk) == "done"
        assert (len(server.requests), Fact.objects.filter(source_episode=episode).count()) == (1, 1)
        server.reply(**BOTH)
        assert job_run(Job.objects.get(handler="fact_check").pk) == "done"
        assert "cards" in server.prompts[1]


def test_a_slow_model_is_asked_a_second_time_in_the_same_job(server, ada, monkeypatch):
    monkeypatch.setattr("memory.judge.pair_verdicts.ASK_WITHIN_SECONDS", 0)
    pairs = {1: FactPair(FactSnapshot("It was early."), FactSnapshot("It is late."), "agent", related=False)}
    update = BOTH | {"relation": "update"}
    server.reply(**update)
    asked = pairs_judge(configured_judge(), agent=ada, persona="actor", pairs=pairs)
    assert (asked.verdicts[1].value.relation, asked.error, len(server.confirmations)) == ("update", None, 1)
    with server.configured(JUDGE_TIMEOUT_SECONDS=60):
        # Another attempt could end after the worker's time.
        monkeypatch.setattr("memory.judge.pair_verdicts.MAX_CALL_SECONDS", 30)
        server.reply(**update)
        asked = pairs_judge(configured_judge(), agent=ada, persona="actor", pairs=pairs)
        assert (asked.verdicts, len(server.requests), len(server.confirmations)) == ({}, 2, 1)


def test_a_slow_model_is_asked_about_fewer_pairs(ada, actor):
    waiting(ada, actor, 12, ago=timedelta(days=3))
    jobs = [job_of(review) for review in MemoryReview.objects.order_by("created_at")]

    class Slow(Answering):
        def _take(self, body, headers):
            reply = super()._take(body, headers)
            return replace(reply, hold=held) if self.prompts[-1].count("<pair ") > 3 else reply

    with Slow("openai") as server, server.configured(JUDGE_TIMEOUT_SECONDS=1):
        held = server.hang()
        states = [job_run(job.pk) for job in jobs]
        assert states == ["failed"] * 2 + ["done"] * 10
        assert [prompt.count("<pair ") for prompt in server.prompts] == [12, 6, 3, 3, 3, 3]
        assert undecided() == 0


@BOTH_PROTOCOLS
def test_pairs_of_a_call_grow_again_after_quick_answers(server, ada):
    judge = configured_judge()
    facts = [(FactSnapshot(f"It is {number}."), FactSnapshot("It is late.")) for number in range(12)]

    def asked(count: int) -> int:
        with suppress(JudgeFailed):
            if count > 1:
                judge.relations(agent=ada, persona="actor", pairs=facts[:count])
            else:
                judge.relation(agent=ada, persona="actor", old=facts[0][0], new=facts[0][1])
        return judge.pairs_at_once

    server.fail(413).fail(413).fail(413).fail(413).fail(529)
    assert [asked(count) for count in (12, 6, 3, 1, 1)] == [6, 3, 1, 1, 1]
    server.always(Reply(input=BOTH))
    assert [asked(1) for _ in range(6)] == [1, 1, 1, 1, 2, 2]
    server.always(verdicts(BOTH, BOTH))
    assert [asked(2) for _ in range(6)] == [2, 2, 2, 2, 3, 3]


def test_a_review_whose_job_found_no_judge_is_judged_by_the_first_one(ada, actor):
    (review,) = waiting(ada, actor, 1)
    job = job_of(review)
    assert job_run(job.pk) == "done"
    assert Job.objects.get(pk=job.pk).result == {"judge": "no judge"}
    queue = Queue()
    with Answering() as server, server.configured():
        assert judgements_retry() == 1
        queue.run()
        assert (len(server.requests), undecided(), judgements_retry()) == (1, 0, 0)


def test_a_backlog_stops_while_people_have_paused_it(ada, actor):
    waiting(ada, actor, 30, ago=timedelta(days=3))
    schedule = Schedule.objects.create(name="t", func="memory.tasks.retry_judgements", repeats=0)
    queue = Queue()
    with Answering() as server, server.configured():
        assert judgements_retry() == 1
        queue.run()
        assert (len(server.requests), undecided()) == (1, 18)
        schedule.delete()
        assert judgements_retry() == 1
        queue.run()
        assert undecided() == 0


def test_an_episode_that_the_judge_never_answers_keeps_no_review_waiting(ada, actor):
    episode_close(episode=episode_open(agent=ada, by=actor, detail="Invoices were sent twice."), by=actor)
    waiting(ada, actor, 3, ago=timedelta(days=3))
    queue = Queue()
    with JudgeServer() as server, server.configured():
        server.always(Reply(input={}))
        for _ in range(4):
            judgements_retry()
            queue.run()
        assert queue.ran == ["episode_close"] * 3 + ["fact_judge"]


def test_a_down_judge_is_not_asked_about_the_rest_of_the_backlog(ada, actor):
    waiting(ada, actor, 40, ago=timedelta(days=3))
    queue = Queue()
    with JudgeServer() as server, server.configured():
        server.always(Reply(status=529, raw=b"{}"))
        assert judgements_retry() == 1
        queue.run()
        assert judgements_retry() == 0
        assert (len(server.requests), queue.ran) == (1, ["fact_judge"])


def test_pairs_judge_names_its_error_only_if_pairs_are_left(server, ada):
    pairs = {
        number: FactPair(FactSnapshot(f"It is {number}."), FactSnapshot("It is late."), "agent") for number in range(3)
    }
    server.queue(Reply(input={"verdicts": [{"pair": 2} | BOTH]}), Reply(input=BOTH), Reply(input=BOTH))
    asked = pairs_judge(configured_judge(), agent=ada, persona="actor", pairs=pairs)
    assert (sorted(asked.verdicts), asked.tokens, asked.error) == ([0, 1, 2], 360, None)
    server.queue(Reply(input={"verdicts": [{"pair": 2} | BOTH]}))
    asked = pairs_judge(configured_judge(), agent=ada, persona="actor", pairs=pairs, again=False)
    assert list(asked.verdicts) == [1]
    assert isinstance(asked.error, JudgeFailed)
    assert asked.error.retryable

"""Whatever a token of the subconscious does, the actor's next answers are byte for byte what they were without it.

A property over every operation of the API. The actor does something at random; then the same is done again from the
same beginning with calls of the subconscious in between, and every answer to the actor has to be the same, headers too.
The worker's tasks run in between both times. Moments are told by the clock, ids are drawn from what belongs to the step
and to who takes it: so nothing is left out of the comparison but how long things took. What the database counts for all
(sequences) goes on from play to play, so a number that everybody shares shows too.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from uuid import UUID

import django_q.tasks
import pytest
from django.db import transaction
from django.utils import timezone

from context.expectations.services import expectation_create, request_of
from identity.policy.permissions import SCOPE_PERMISSIONS
from identity.services import change_feed
from identity.services.tokens import token_create
from memory import tasks
from memory.lifecycle.runner import job_run
from memory.models import Job
from nousweb.api import api as the_api
from nousweb.lib import clock
from tests.security.persona_calls import MAKERS, PEOPLES, Call, Known, call_make, operation_choose
from tests.security.scale import scaled

NIGHTS = scaled(8, 130)
"""Plays with the subconscious: each has a sequence of its calls before each of the ACTS."""
NIGHTS_A_DAY = 4
"""Plays with the same acts of the actor."""
ACTS = 8
CALLS = 6
"""At most so many calls of the subconscious in a sequence, and at least one."""
PROBES = 2
"""Of LAST, so many follow each act, in turn."""
WORK_AFTER = (2, ACTS - 1)
"""Acts after which the worker does all that it has to do."""
TIMES = ("timings", "duration_ms")

LAST: tuple[Call, ...] = (
    ("GET", "/identity", {}, None),
    ("GET", "/identity/preferences/history", {}, None),
    ("GET", "/index", {}, None),
    ("GET", "/changes", {"limit": 500, "bodies": "true"}, None),
    ("GET", "/facts", {"state": "all", "limit": 200}, None),
    ("GET", "/subjects", {"limit": 200}, None),
    ("GET", "/events", {"limit": 200}, None),
    ("GET", "/loops", {"limit": 1}, None),
    ("GET", "/censors", {"state": "all", "limit": 200}, None),
    ("GET", "/reviews", {"status": "all", "limit": 200}, None),
    ("GET", "/lifecycle", {"limit": 2}, None),
    ("GET", "/episodes", {"limit": 200}, None),
    ("GET", "/decisions", {"limit": 200}, None),
    ("GET", "/procedures", {"limit": 200}, None),
    ("GET", "/expectations", {"limit": 200}, None),
    ("GET", "/stm", {"q": "The ledger export"}, None),
    ("GET", "/recall", {"q": "How does the ledger export run?", "min_score": 0}, None),
    ("POST", "/context", {}, {"session_id": "s1", "input": "Where does Tim live?", "explain": True}),
    ("POST", "/context", {}, {"session_id": "s1", "input": "How does the ledger export run?", "explain": True}),
    ("POST", "/censors/check", {}, {"text": "A zeppelin over the ledger, on Tuesdays."}),
    ("POST", "/events", {}, {"events": [{"kind": "actor_output", "content": "Good night.", "loop_id": "evening"}]}),
    ("PUT", "/identity/preferences", {}, {"content": "Answers in Celsius.", "reason": "Asked."}),
)
"""What the actor asks after each act in turn, and wholly at the end."""
STEPS = ACTS * (1 + PROBES) + len(LAST)


def test_persona_calls_cover_every_operation():
    paths = the_api.get_openapi_schema()["paths"]
    assert {f"{method.upper()} {path}" for path, operations in paths.items() for method in operations} == MAKERS.keys()


@dataclass
class Chance:
    """Where random bytes, and with them UUIDs, come from: the same ones whenever the same is done again."""

    source: Random = field(default_factory=Random)
    changes: Random = field(default_factory=Random)
    """Where the names of changes come from."""

    @contextmanager
    def of(self, *what: object) -> Iterator[None]:
        before = self.source, self.changes
        self.source, self.changes = Random(repr(what)), Random(repr(what))
        try:
            yield
        finally:
            self.source, self.changes = before


@pytest.fixture
def chance(monkeypatch):
    found = Chance()
    monkeypatch.setattr(os, "urandom", lambda size: found.source.randbytes(size))
    monkeypatch.setattr(change_feed, "change_key_new", lambda: UUID(int=found.changes.getrandbits(128), version=4))
    # One message to the worker is enough for both personas, and nobody is told its name.
    messages = Random()
    monkeypatch.setattr(django_q.tasks, "uuid", lambda: ("message", UUID(int=messages.getrandbits(128), version=4).hex))
    return found


@dataclass
class Play:
    """What the actor did and was answered, step by step, and what the subconscious did in between."""

    acts: list[Call] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    dreams: list[tuple[int, str]] = field(default_factory=list)
    """Calls of the subconscious by step: the operation, and by which seed it was made."""
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)


class Stage:
    """Ada with a past, to which every play comes back."""

    def __init__(self, actor, night, chance):
        self.actor, self.night, self.chance = actor, night, chance
        self.began = timezone.now() - timedelta(days=1)
        self.past = Known()
        with clock.at(self.began - timedelta(days=40)):
            for number, call in enumerate(PAST):
                self.past.learn(json.loads(self._call(self.actor, call, f"past-{number}").content))
            self._work("past", dream=True)
        self.savepoint = transaction.savepoint()

    def play(self, acts=None, dreams=(), *, seed=0, dreaming=False):
        """The actor's acts, drawn by `seed` where none are given, with these dreams or, `dreaming`, random ones."""
        transaction.savepoint_rollback(self.savepoint)
        self.savepoint = transaction.savepoint()
        play, rng = Play(), Random(seed)
        mine, its = Known(), Known()
        for known in (mine, its):
            known.ids = {kind: list(ids) for kind, ids in self.past.ids.items()}
        for step in range(STEPS):
            act = step // (1 + PROBES) if step % (1 + PROBES) == 0 and step < ACTS * (1 + PROBES) else None
            with clock.at(self.began + timedelta(seconds=step)):
                planned = [one for one in dreams if one[0] == step]
                if dreaming and act is not None:
                    planned = [(step, rng.getrandbits(64)) for _ in range(rng.randint(1, CALLS))]
                for place, (_, dream) in enumerate(planned):
                    self._dream(play, its, step, place, dream)
                call = acts[step] if acts else LAST[step % len(LAST)] if act is None else self._act(rng, mine)
                play.acts.append(call)
                with self.chance.of("act", step):
                    answer = self._call(self.actor, call, f"act-{step}")
                play.answers.append(shown(answer))
                if answer.content:
                    said = json.loads(answer.content)
                    mine.learn(said)
                    its.learn(said)
                if act in WORK_AFTER:
                    self._work(step, dream=act == WORK_AFTER[-1])
        return play

    def _act(self, rng, known):
        call = call_make(operation_choose(rng), rng, known)
        if rng.random() < 0.1 and known.ids.get("event"):
            # What the other persona's events would be called.
            call = ("GET", f"/events/{int(known.one('event', rng)) ^ 1}", {}, None)
        return call

    def _dream(self, play, known, step, place, seed):
        rng = Random(seed)
        operation = operation_choose(rng)
        play.dreams.append((step, seed))
        with self.chance.of("dream", step, place, seed):
            answer = self._call(self.night, call_make(operation, rng, known), f"dream-{step}-{place}")
        assert answer.status_code < 500, (operation, answer.content)
        play.statuses[operation, answer.status_code] += 1
        if answer.content:
            known.learn(json.loads(answer.content))

    def _call(self, client, call, request_id):
        method, path, query, body = call
        named = client.with_headers(X_Request_Id=request_id)
        return named.request(method, path, body=body, query={k: v for k, v in query.items() if v is not None})

    def _work(self, step, *, dream=False):
        """What the worker would do now, and with `dream` what the clock starts once a day."""
        if dream:
            for task in (tasks.dream, tasks.backfill_layers, tasks.refresh_search_statistics, tasks.expire_reviews):
                with self.chance.of(task.__name__, step):
                    task()
        with self.chance.of("idle", step):
            tasks.close_idle_loops()
        while queued := list(Job.objects.filter(status="queued").order_by("pk").values_list("pk", "key")):
            for key, name in queued:
                with self.chance.of("run", step, name):
                    job_run(key)
        with self.chance.of("embed", step):
            tasks.embed_pending()


PAST: tuple[Call, ...] = (
    ("POST", "/facts", {}, {"content": "Tim lives in Silver Spring.", "subject": "Tim", "category": "person"}),
    ("POST", "/facts", {}, {"content": "The ledger export runs at nine.", "category": "technical"}),
    ("POST", "/facts", {}, {"content": "Tim's twin is Ann.", "subject": "Tim"}),
    ("POST", "/facts", {}, {"content": "Tim's twin is Eva.", "subject": "Tim"}),
    ("POST", "/facts", {}, {"content": "The ledger export writes CSV files.", "category": "technical"}),
    ("POST", "/events", {}, {"events": [{"kind": "user_input", "content": "Deploy it.", "loop_id": "morning"}]}),
    ("POST", "/events", {}, {"events": [{"kind": "actor_output", "content": "Deployed.", "loop_id": "morning"}]}),
    ("POST", "/episodes", {}, {"title": "The first deploy", "detail": "It went well."}),
    ("POST", "/procedures", {}, {"name": "Deploy", "steps": ["Tag.", "Push."]}),
    ("POST", "/decisions", {}, {"description": "Deploy on Tuesdays."}),
    ("POST", "/censors", {}, {"pattern": "zeppelin", "escalation_threshold": 2}),
    ("PUT", "/identity/character", {}, {"content": "Brisk.", "mode": "propose"}),
    ("PUT", "/working/s1", {}, {"task": "The ledger", "capacity": 3}),
    ("POST", "/context", {}, {"session_id": "s1", "input": "How does the ledger export run?"}),
)


def shown(answer):
    """An answer as it is compared: everything but how long things took."""
    body = answer.content.decode()
    if body:
        body = json.dumps(_timeless(json.loads(body)))
    headers = sorted((name, value) for name, value in answer.headers.items() if name != "Content-Length")
    return f"{answer.status_code} {headers} {body}"


def _timeless(value):
    if isinstance(value, list):
        return [_timeless(one) for one in value]
    if isinstance(value, dict):
        return {name: "" if name in TIMES else _timeless(one) for name, one in value.items()}
    return value


def difference(one, other):
    """The first step at which two plays were answered differently, or None."""
    return next(
        (step for step, pair in enumerate(zip(one.answers, other.answers, strict=True)) if len({*pair}) > 1), None
    )


def fewest(stage, day, dreams):
    """The dreams without those that make no difference, for a failure that can be read."""
    for one in list(dreams):
        fewer = [each for each in dreams if each is not one]
        if difference(day, stage.play(day.acts, fewer)) is not None:
            dreams = fewer
    return dreams


@pytest.fixture
def stage(ada, api, system, chance):
    def client(persona):
        scopes = list(SCOPE_PERMISSIONS)
        return api.as_token(token_create(agent=ada, persona=persona, name=persona, scopes=scopes, by=system)[1])

    for persona in ("actor", "subconscious"):
        demand = {"requirement": "present", "target": "text", "text": "ledger", "persona": persona}
        expectation_create(agent=ada, by=system, request=request_of("How does the ledger export run?"), **demand)
    return Stage(client("actor"), client("subconscious"), chance)


def test_persona_answers_of_the_actor_are_independent_of_the_subconscious(stage):
    statuses: Counter[tuple[str, int]] = Counter()
    for first in range(0, NIGHTS, NIGHTS_A_DAY):
        day = stage.play(seed=first)
        if first == 0:
            assert difference(day, stage.play(day.acts)) is None, "the comparison itself does not repeat"
        for number in range(first, min(first + NIGHTS_A_DAY, NIGHTS)):
            night = stage.play(day.acts, seed=1_000_000 + number, dreaming=True)
            if difference(day, night) is not None:
                again = stage.play(day.acts, fewest(stage, day, night.dreams))
                step = difference(day, again)
                pytest.fail(
                    f"Night {number}: after {dict(again.statuses)} of the subconscious, act {step}"
                    f" {day.acts[step]} was answered\n{again.answers[step]}\nand not\n{day.answers[step]}"
                )
            statuses += night.statuses
    calls = sum(statuses.values())
    done = {operation for operation, status in statuses if status < 300}
    succeeded = sum(count for (_, status), count in statuses.items() if status < 300)
    sys.stdout.write(
        f"{NIGHTS * ACTS} sequences in {NIGHTS} plays: {calls} calls of the subconscious, of which {succeeded}"
        f" succeeded; {NIGHTS * STEPS} answers to the actor are the same\n"
    )
    # Else it would be no attack.
    assert succeeded > calls / 2
    assert calls < 2_000 or done == MAKERS.keys() - PEOPLES

"""Whatever a token limited to projects calls, no row changes that it may not write, and none appears or goes there.

A property over every operation of the API that such a token has: random tokens, calls with ids of all projects, and
rows that are compared before and after each call.
"""

import json
from collections import Counter
from random import Random

import pytest
from django.db import transaction

from context.models import MemoryUsage
from identity.policy.permissions import SCOPE_PERMISSIONS
from memory.lifecycle.runner import job_run
from memory.models import (
    Censor,
    Decision,
    Document,
    Episode,
    EpisodeEvent,
    Event,
    Fact,
    FactChange,
    Job,
    LongTermEntry,
    LoopSummary,
    Procedure,
    WorkingMemory,
)
from nousweb.lib import clock
from tests.factories import make_person, make_token
from tests.security.persona_calls import LOOPS, PEOPLES, SESSIONS, Known, call_make, operation_choose
from tests.security.scale import scaled

PLAYS = scaled(5, 100)
CALLS = scaled(40, 200)
PROJECTS = ("", "apollo", "zeus")
KEYED = (Fact, Event, Episode, Decision, Procedure, Document, LoopSummary, WorkingMemory)
OF_OTHERS = ((FactChange, "fact"), (EpisodeEvent, "episode"), (LongTermEntry, "event"))
"""Rows that belong to one with the key of a project."""
TAKES_PROJECT = {
    "POST /api/facts", "POST /api/episodes", "POST /api/decisions", "POST /api/procedures", "PUT /api/documents",
    "PUT /api/working/{session_id}", "PATCH /api/decisions/{decision_id}", "PATCH /api/procedures/{procedure_id}",
    "POST /api/context",
}  # fmt: skip


def rows_of(projects):
    """All that belongs to these projects, by model and key, as it is stored."""
    found = {}
    for model in KEYED:
        found |= {(model.__name__, str(row["id"])): row for row in model.objects.filter(project__in=projects).values()}
    for model, owner in OF_OTHERS:
        rows = model.objects.filter(**{f"{owner}__project__in": projects}).values()
        found |= {(model.__name__, str(row)): row for row in rows}
    if "" in projects:
        found |= {("Censor", str(row["id"])): row for row in Censor.objects.values()}
    keys = {key for _, key in found}
    used = MemoryUsage.objects.filter(counted=True).values_list("item_type", "item_id")
    return found | {("used", each): count for each, count in Counter(used).items() if each[1] in keys}


@pytest.fixture
def known(api, ada):
    """What a token without limits has written in each project, with a censor that is about to block."""
    full = api.as_token(make_token(ada, name="full", scopes=sorted(SCOPE_PERMISSIONS)))
    known = Known()

    def call(method, path, body):
        answer = full.request(method, path, body=body)
        assert answer.status_code in (200, 201), answer.content
        known.learn(answer.json())

    for project in PROJECTS:
        keys = {"project": project} if project else {}
        word = project or "office"
        # A loop and a session of the names that everybody tries first, global ones among them.
        loop = {"": LOOPS[0], "zeus": LOOPS[1]}.get(project, f"{word} loop")
        event = {"kind": "user_input", "content": f"The ledger of {word}.", "loop_id": loop, **keys}
        call("POST", "/events", {"events": [event]})
        call("POST", "/facts", {"content": f"The ledger of {word} runs at nine.", "subject": "ledger", **keys})
        call("POST", "/facts", {"content": "Tim lives in Silver Spring.", "subject": "Tim", **keys})
        call("POST", "/episodes", {"title": f"Trip of {word}", **keys})
        call("POST", "/decisions", {"description": f"{word} sails.", **keys})
        call("POST", "/procedures", {"name": f"Sail {word}", "steps": ["Sail."], **keys})
        call("PUT", "/documents", {"namespace": ["notes"], "key": "ledger", "value": {"text": word}, **keys})
        session = {"": SESSIONS[0], "zeus": SESSIONS[1]}.get(project, f"{word} session")
        call("PUT", f"/working/{session}", {"task": f"Plan {word}.", **keys})
        call("POST", f"/working/{session}/items", {"text": f"Item of {word}."})
    person = api.as_person(make_person("rita", "Reviewer"))
    body = {"pattern": "zeppelin|Tuesdays|Tim", "reason": "Mine.", "escalation_threshold": 2}
    known.learn(person.post("/censors", body, {"agent": "ada"}).json())
    return known


def call_in(rng, known):
    """A call, with a project where the operation takes one."""
    operation = operation_choose(rng)
    while operation in PEOPLES:
        operation = operation_choose(rng)
    method, path, query, body = call_make(operation, rng, known)
    project = rng.choice(["", "apollo", "apollo", "zeus", "hermes"])
    if operation in TAKES_PROJECT and body is not None and rng.random() < 0.8:
        body = {**body, "project": project}
    for event in (body or {}).get("events", ()):
        if rng.random() < 0.7:
            event["project"] = project
    return method, path, query, body


@pytest.mark.django_db
def test_project_tokens_change_no_row_that_they_may_not_write(api, ada, known):
    done = Counter()
    start = transaction.savepoint()
    for play in range(PLAYS):
        transaction.savepoint_rollback(start)
        start = transaction.savepoint()
        rng = Random(play)
        own = rng.choice([["apollo"], ["apollo"], ["zeus"], ["apollo", "hermes"]])
        may_write = rng.choice(["read", "read", "write"])
        scopes = sorted(SCOPE_PERMISSIONS) if rng.random() < 0.8 else ["context:read", "memory:read", "memory:write"]
        name = f"play {play}"
        caller = api.as_token(make_token(ada, name=name, scopes=scopes, projects=own, global_memory=may_write))
        others = [each for each in (*PROJECTS, "hermes", "other") if each not in own and (each or may_write == "read")]
        its = Known({kind: list(ids) for kind, ids in known.ids.items()})
        before = rows_of(others)
        for _ in range(CALLS):
            method, path, query, body = call_in(rng, its)
            asked = {name: value for name, value in query.items() if value is not None}
            answer = caller.request(method, path, body=body, query=asked)
            assert answer.status_code < 500, (play, method, path, body, answer.content)
            done[method, answer.status_code] += 1
            if answer.content:
                its.learn(json.loads(answer.content))
            after = rows_of(others)
            changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
            assert not changed, (play, own, may_write, method, path, body, answer.content, changed)
        with clock.at(clock.now()):
            for key in list(Job.objects.filter(status="queued").order_by("pk").values_list("pk", flat=True)):
                job_run(key)
        assert rows_of(others) == before, (play, own, may_write)
    assert sum(count for (method, status), count in done.items() if method != "GET" and status < 300) > 20, done

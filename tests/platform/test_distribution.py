"""Statements on the tables that Citus distributes name the agent, so that each goes to one part of one server."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.urls import reverse

from memory.lifecycle import runner
from memory.models import Fact, Job, MemoryReview
from memory.services.indexing import embeddings_make
from memory.services.loops import loops_summarise
from nousweb.database.distributing import NotDistributable, distribute
from nousweb.database.distribution import COLUMN, DISTRIBUTED
from tests.http import browser

pytestmark = pytest.mark.django_db

NAMED = re.compile(rf"{COLUMN}\"?\)?(?: \+ 0)?\s*(?:=|IN)\s*(?:ANY\s*)?\(*\s*(?:%|\d)")
"""An agent that is compared with a value. A row that is inserted has its agent in any case."""
INSERTED = re.compile(rf"INSERT INTO \S+(?: AS \w+)? \([^)]*{COLUMN}")
TABLES = re.compile(rf"\b({'|'.join(DISTRIBUTED)})(?:_actor|_subconscious)?\b")

ALLOWED = {
    r"SELECT DISTINCT agent_id FROM \(\s*SELECT agent_id, id FROM memory_searchitem": "whose rows wait for vectors",
    r"UPDATE \"memory_searchitem\" SET \"status\" = %s, \"error\" = %s WHERE \(\"memory_searchitem\".\"attempts\"": (
        "gives up rows of all agents that end the process that embeds them"
    ),
    r"SELECT \"memory_loopsummary\".\"agent_id\" AS \"agent\" FROM": "whose loop a message of the queue is about",
    r"SELECT \"context_contextrun\".*WHERE \"context_contextrun\".\"id\" = %s ORDER": "a run known by its id alone",
    r"SELECT \"identity_agent\".\"id\" AS \"pk\", ARRAY\(SELECT": "the last requests of each of several agents",
    r"\(SELECT 'the inbox' AS \"page\"": "what the navigation counts for a person, of all agents",
}
"""Statements that name no agent, each with its reason."""


@contextmanager
def statements(values: list[Any] | None = None) -> Iterator[list[str]]:
    """What is sent to the database meanwhile; its parameters go into `values`."""
    sent: list[str] = []

    def note(execute, sql, params, many, context):
        sent.append(str(sql))
        if values is not None:
            values.append(params)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield sent


def nameless(sent: list[str]) -> set[str]:
    """Those that read or change rows of distributed tables without saying of which agent."""
    return {
        " ".join(sql.split())
        for sql in sent
        if TABLES.search(sql) and not NAMED.search(sql) and not INSERTED.search(sql)
    }


def unexpected(found: set[str]) -> set[str]:
    return {sql for sql in found if not any(re.match(allowed, sql) for allowed in ALLOWED)}


@pytest.mark.skipif(settings.DB_DISTRIBUTED, reason="there it would find nothing to do")
def test_distribute_says_what_a_server_without_citus_lacks():
    connection.ensure_connection()
    with pytest.raises(NotDistributable, match="no extension citus"):
        distribute(connection.connection)


@pytest.mark.skipif(settings.DB_DISTRIBUTED, reason="reads the statements, which are the same on any PostgreSQL")
def test_statements_of_requests_and_tasks_name_the_agent(api, ada, all_scopes_token, charlie):
    caller, person = api.as_token(all_scopes_token), browser(charlie)
    with statements() as sent:
        for content in ("The office is in Berlin.", "The office is in Paris.", "The office is not in Berlin."):
            caller.post("/facts", {"content": content, "subject": "office"})
        words = [{"loop_id": "l", "kind": kind, "content": kind} for kind in ("user_input", "actor_output")]
        events = [event["id"] for event in caller.post("/events", {"events": words}).json()["events"]]
        episode = caller.post("/episodes", {"title": "Moving"}).json()["id"]
        caller.post(f"/episodes/{episode}/events", {"event_ids": events, "text": "We moved the office."})
        caller.post(f"/episodes/{episode}/close", {"outcome": "success"})
        caller.post("/decisions", {"description": "Move the office.", "reasons": ["Rent."]})
        run = caller.post("/context", {"session_id": "s", "input": "Where is the office?"}).json()["id"]
        caller.get("/recall", {"q": "Where is the office?", "context": run})
        caller.post(f"/context/{run}/response", {"response": "The office is in Paris."})
        caller.post(f"/context/{run}/outcome", {"outcome": "success"})
        fact = Fact.objects.filter(agent=ada).first()
        for path in ("/facts", f"/facts/{fact.pk}", f"/facts/{fact.pk}/history", "/events", "/loops", "/identity"):
            caller.get(path)
        for name in ("agent_facts", "agent_events", "agent_episodes", "agent_context_runs", "agent_identity"):
            person.get(reverse(name, args=["ada"]))
        for name, key in (("agent_fact", fact.pk), ("agent_context_run", run), ("agent_episode", episode)):
            assert person.get(reverse(name, args=["ada", key])).status_code == 200
        loops_summarise(ada.loops.values_list("pk", flat=True))
        for job in list(Job.objects.values_list("pk", flat=True)):
            runner.job_run(job)
        embeddings_make()
    assert MemoryReview.objects.exists()
    assert len(sent) > 300
    assert not unexpected(nameless(sent))


@pytest.mark.skipif(not settings.DB_DISTRIBUTED, reason="asks a Citus cluster, which TEST_CITUS_URL names")
def test_search_goes_to_one_part_of_one_server(api, ada, all_scopes_token):
    caller = api.as_token(all_scopes_token)
    for content in ("The office is in Berlin.", "Tim sails on Sundays."):
        caller.post("/facts", {"content": content})
    with statements(values := []) as sent:
        assert caller.get("/recall", {"q": "Where is the office?"}).json()["items"]
        assert caller.post("/context", {"session_id": "s", "input": "Where is the office?"}).status_code == 200
    # What a context reads at first is several in one, of which that of core memory asks each part of its tables.
    read = [
        (sql, given)
        for sql, given in zip(sent, values, strict=True)
        if TABLES.search(sql) and "INSERT" not in sql and "json_agg" not in sql
    ]
    assert sum("hits AS" in sql for sql, _ in read) == 2
    with connection.cursor() as cursor:
        for sql, given in read:
            cursor.execute(f"EXPLAIN (COSTS OFF) {sql}", given)
            plan = "\n".join(row[0] for row in cursor.fetchall())
            assert re.findall(r"Task Count: (\d+)", plan) == ["1"], f"{sql}\n{plan}"

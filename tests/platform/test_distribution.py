"""Statements on the tables that Citus distributes name the agent, so that each goes to one part of one server."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psycopg
import pytest
from django.db import connection
from django.urls import reverse

from memory.lifecycle import runner
from memory.models import Fact, Job, MemoryReview
from memory.search.row_retrieval import TUNING
from memory.services.loops import loops_summarise
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.database.distribute import COLUMN, REFERENCE, NotDistributable, distribute, distributed_tables
from tests.cluster import ClusterDatabase, not_on_a_cluster, on_a_cluster
from tests.docs.demo_server import demo_server
from tests.http import ApiClient, browser
from tests.product import PROJECT, until

pytestmark = pytest.mark.django_db

NAMED = re.compile(rf"{COLUMN}\"?\)?(?: \+ 0)?\s*(?:=|IN)\s*(?:ANY\s*)?\(*\s*(?:%|\d)")
"""An agent that is compared with a value. A row that is inserted has its agent in any case."""
INSERTED = re.compile(rf"INSERT INTO \S+(?: AS \w+)? \([^)]*{COLUMN}")
DISTRIBUTED = distributed_tables()
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


def _post(path: str, expected: int = 201, **body: Any) -> Callable[[ApiClient], None]:
    def turn(caller: ApiClient) -> None:
        answer = caller.post(path, body)
        assert answer.status_code == expected, answer.content

    return turn


AGENT_TURN = (
    _post("/events", events=[{"loop_id": "l", "kind": "user_input", "content": "Where is the office?"}]),
    _post("/facts", content="The office is in Berlin.", subject="office"),
    _post("/facts", content="The office is not in Berlin.", subject="office"),
    _post("/facts", content="Tim's job title is baker.", subject="Tim", category="person"),
    _post("/context", 200, session_id="s", input="Where is the office?"),
    lambda caller: caller.get("/recall", {"q": "Where is the office?"}),
)
"""What an agent sends again and again."""


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


@not_on_a_cluster
def test_distribute_says_what_a_server_without_citus_lacks():
    connection.ensure_connection()
    with pytest.raises(NotDistributable, match="no extension citus"):
        distribute(connection.connection)


@not_on_a_cluster
def test_statements_of_requests_and_tasks_name_the_agent(api, ada, all_scopes_token, charlie):
    caller, person = api.as_token(all_scopes_token), browser(charlie)
    with statements() as sent:
        for town in ("Berlin", "Paris"):
            for content in (f"The office is in {town}.", f"The office's twin is in {town}."):
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
        embed_pending_rows()
    assert MemoryReview.objects.exists()
    assert len(sent) > 300
    assert not unexpected(nameless(sent))


@on_a_cluster
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_each_statement_of_an_agent_goes_to_one_part_of_one_server(api, ada, all_scopes_token, first):
    caller = api.as_token(all_scopes_token)
    if not first:
        for turn in AGENT_TURN:
            turn(caller)
        embed_pending_rows()
    with statements(values := []) as sent:
        for turn in AGENT_TURN:
            turn(caller)
    asked = [(sql, given) for sql, given in zip(sent, values, strict=True) if TABLES.search(sql)]
    assert len(asked) > 40
    spread = {}
    with connection.cursor() as cursor:
        for sql, given in asked:
            cursor.execute(f"EXPLAIN (COSTS OFF) {sql}", given)
            plan = "\n".join(row[0] for row in cursor.fetchall())
            if re.findall(r"Task Count: (\d+)", plan) != ["1"]:
                spread[sql] = plan
    assert not spread, "\n\n".join(f"{sql}\n{plan}" for sql, plan in spread.items())


@pytest.fixture
def empty_database() -> Iterator[str]:
    """Address of a database of its own on every server of the cluster, which is removed afterwards."""
    database = ClusterDatabase()
    try:
        yield database.url
    finally:
        database.remove()


def _contents(database: psycopg.Connection[Any]) -> dict[str, tuple[int, int]]:
    """Number and checksum of the rows of each table of the product."""
    names = database.execute(
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition"
        " AND relname ~ '^(memory|context|identity)_'"
    ).fetchall()
    checksum = "sum(('x' || left(md5(t::text), 8))::bit(32)::bigint)"
    return {
        name: database.execute(f"SELECT count(*), {checksum} FROM {name} t".encode()).fetchone()  # noqa: S608
        for (name,) in names
    }


def program(database: str, folder: Path, *words: str) -> str:
    """The output of a program of the product on a database, with no other setting than its address."""
    environment = {"DATABASE_URL": database, "NOUS_DATA_DIR": str(folder), "NOUS_SECRET_KEY": "x" * 50}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=PROJECT,
        env={name: value for name, value in os.environ.items() if not name.startswith(("NOUS_", "DATABASE_"))}
        | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr[-2000:]
    return done.stdout


SCHEDULED = """
import django
django.setup()
from django.utils.module_loading import import_string
from nousweb.lib.background import tasks_declared
for path, task in tasks_declared().items():
    if task.minutes:
        import_string(path)()
"""


@on_a_cluster
def test_demo_and_worker_run_on_a_distributed_database(empty_database, tmp_path):
    program(empty_database, tmp_path, "manage.py", "migrate", "--verbosity", "0")
    program(empty_database, tmp_path, "manage.py", "distribute", "--shards", "4")
    with demo_server(DATABASE_URL=empty_database) as demo, psycopg.connect(empty_database, autocommit=True) as database:
        body = json.dumps({"session_id": "s", "input": "Checkout is slow. What do we know?"}).encode()
        headers = {"Authorization": f"Bearer {demo.token}", "Content-Type": "application/json"}
        with urlopen(Request(f"{demo.address}/api/context", body, headers)) as answer:
            assert "checkout" in json.load(answer)["system_prompt"]
        open_jobs = "SELECT handler, status, error FROM memory_job WHERE status <> 'done'"
        until("jobs are done", lambda: not database.execute(open_jobs).fetchall(),
              state=lambda: database.execute(open_jobs).fetchall())  # fmt: skip
        program(empty_database, tmp_path, "-c", SCHEDULED)
        failed = "SELECT func, result FROM django_q_task WHERE NOT success"
        assert not database.execute(failed).fetchall()


@on_a_cluster
def test_each_server_searches_vectors_as_the_product_does():
    with connection.cursor() as cursor:
        for name in ("hnsw.iterative_scan", "hnsw.ef_search"):
            cursor.execute("SELECT result FROM run_command_on_all_nodes(%s)", [f"SHOW {name}"])
            assert {row[0] for row in cursor.fetchall()} == {TUNING[name]}


@on_a_cluster
def test_distribute_moves_the_rows_of_a_filled_database(empty_database, tmp_path):
    def command(*words: str) -> str:
        return program(empty_database, tmp_path, "manage.py", *words)

    command("migrate", "--verbosity", "0")
    command("loaddemo")
    with psycopg.connect(empty_database, autocommit=True) as database:
        before = _contents(database)
        facts = before["memory_fact"][0]
        assert facts
        assert f"Distributed by agent: {len(DISTRIBUTED)} tables." in command("distribute", "--shards", "4")
        assert _contents(database) == before
        hidden = "SELECT sum(pg_relation_size(relid)) FROM unnest(%s::text[]) name, pg_partition_tree(name::regclass)"
        assert database.execute(hidden, [[*DISTRIBUTED, *REFERENCE]]).fetchone() == (0,)
        assert "Distributed by agent: 0 tables." in command("distribute")
        for table in ("memory_event", "identity_auditevent"):
            row = database.execute(f"SELECT max(id) FROM {table}".encode()).fetchone()  # noqa: S608
            following = database.execute("SELECT nextval(pg_get_serial_sequence(%s, 'id'))", [table]).fetchone()
            assert following > row
        with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
            database.execute(
                "UPDATE memory_event SET content = '' WHERE agent_id = (SELECT min(id) FROM identity_agent)"
            )

"""An agent with thousands of subjects: whatever is asked about one of them is looked up, and nothing reads them all."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.models import Fact, Subject
from memory.persona import ActorMemory
from memory.selectors import subjects_shown
from memory.services.facts import fact_learn
from memory.services.search_index.reembedding import index_rebuild
from memory.services.subjects.changes import subject_merge
from memory.services.subjects.registry import alias_find, similar_subjects
from memory.subjects.registry_backfill import registry_fill
from tests.database import as_the_owner
from tests.http import browser

COUNT = 2_000
TABLES = ("memory_subject", "memory_subjectalias", "memory_fact", "memory_memoryreview")
ALMOST_EMPTY = """
SELECT pg_restore_relation_stats(
    'schemaname', current_schema()::text, 'relname', %s, 'relpages', 1000000, 'reltuples', 1::real)
"""
"""What the planner believes of a table before it is analysed, whatever other tests have left in its file."""


@pytest.fixture
def many(ada):
    names = [f"{word} {number:04}" for number in range(COUNT // 4) for word in ("house", "ship", "tower", "bridge")]
    Fact.objects.bulk_create(Fact(agent=ada, subject=name, content=f"The {name} is painted.") for name in names)
    registry_fill(ada.pk)
    index_rebuild(agent=ada)
    # As autovacuum does after a load.
    with as_the_owner(), connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return names


def read_whole(work):
    """Tables of subjects that a statement of `work` reads from one end to the other, with the statement.

    Only where it cannot do otherwise: what is the cheaper way for so few rows depends on statistics of the moment.
    """
    with CaptureQueriesContext(connection) as asked:
        work()
    found = []
    for query in asked:
        if not query["sql"].lstrip("( ").startswith(("SELECT", "WITH")):
            continue
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute(f"EXPLAIN {query['sql']}")
            plan = "\n".join(row[0] for row in cursor.fetchall())
            cursor.execute("SET LOCAL enable_seqscan = on")
        found += [(table, query["sql"][:300], plan) for table in TABLES if f"Seq Scan on {table} " in plan]
    return found


def test_no_statement_about_a_subject_reads_all_of_them(ada, many, system, bob):
    learn = {"agent": ada, "by": system}
    thing = alias_find(agent=ada, persona="actor", spelling="ship 0100").subject
    works = {
        "learn of a new one": lambda: fact_learn(content="The new palace is grey.", subject="new palace", **learn),
        "learn of a known one": lambda: fact_learn(
            content="The ship 0007 has two masts.", subject="ship 0007", **learn
        ),
        "find": lambda: alias_find(agent=ada, persona="actor", spelling="Ship-0042"),
        "alike": lambda: similar_subjects(thing, "shp 0100"),
        "first page of the list": lambda: list(subjects_shown(ActorMemory(ada)).order_by("-created_at", "-id")[:50]),
        "page": lambda: browser(bob).get(f"/agents/ada/subjects/{thing.pk}/"),
        "merge": lambda: subject_merge(
            subject=alias_find(agent=ada, persona="actor", spelling="tower 0001").subject, into=thing, by=system
        ),
    }
    fact_learn(content="Something else is known.", subject="warm up", **learn)
    assert {name: found for name, work in works.items() if (found := read_whole(work))} == {}
    assert Subject.objects.standing().filter(agent=ada).count() == COUNT + 1


@pytest.mark.django_db
def test_learning_reads_a_memory_without_statistics_a_few_times_at_most(ada, system):
    """A memory that was filled a moment ago: until it is analysed, the planner takes it for almost empty."""
    if connection.pg_version < 180000:
        pytest.skip("Statistics can be set since PostgreSQL 18.")
    with as_the_owner(), connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(ALMOST_EMPTY, [table])
    count = 100
    for number in range(count):
        fact_learn(agent=ada, content=f"The ship {number} is painted.", subject=f"ship {number}", by=system)
    with CaptureQueriesContext(connection) as asked:
        fact_learn(agent=ada, content="The ship of Tom is grey.", subject="ship of Tom", by=system)
    rows = {query["sql"][:300]: rows_read(query["sql"]) for query in asked if "FROM memory_" in query["sql"]}
    assert any("memory_subjectalias" in statement for statement in rows)
    assert {statement: read for statement, read in rows.items() if read > 10 * count} == {}


def rows_read(statement):
    """Rows that the scans of a statement go through, those that do not qualify included; 0 for one that writes."""
    if not statement.lstrip("( \n").startswith(("SELECT", "WITH")):
        return 0
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}")
        [[[plan]]] = cursor.fetchall()
    return rows_scanned(plan["Plan"])


def rows_scanned(node):
    """The same of a node of a plan and all below it."""
    own = node.get("Actual Rows", 0) + node.get("Rows Removed by Filter", 0) if "Relation Name" in node else 0
    return own * node["Actual Loops"] + sum(map(rows_scanned, node.get("Plans", ())))

"""Prepared statements give what Django's querysets give, and connections remember what was set."""

import numpy as np
import pytest
from django.db import DataError, IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from identity.models import Agent, ApiToken
from identity.services.agents import agent_create
from identity.services.tokens import token_create
from nousweb.lib.prepared_statements import (
    CachedQuery,
    columns_of,
    columns_prepared,
    fetch_combined,
    instance_insert,
    instance_of,
    rows_prepared,
    session_settings_set,
)
from tests.database import as_the_owner

BY_KIND = CachedQuery(
    lambda shape, agent, kind: (
        Agent.objects.filter(pk__gte=agent, kind=kind)
        .exclude(slug__in=shape)
        .order_by("-slug")
        .values_list("slug", "pk")
    ),
    agent=-1,
    kind="?",
)


def shown(name):
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [name])
        return cursor.fetchone()[0]


@pytest.fixture
def commits_told(transactional_db):
    """The connection waits for the disk as by its setting `local`, and an agent inserted is named after the setting."""
    with as_the_owner(), connection.cursor() as cursor:
        cursor.execute(
            "SET synchronous_commit TO local;"
            " CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN NEW.name := current_setting('synchronous_commit'); RETURN NEW; END $$;"
            " CREATE TRIGGER told BEFORE INSERT ON identity_agent FOR EACH ROW EXECUTE FUNCTION told()"
        )
    yield
    with as_the_owner(), connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION told CASCADE; RESET synchronous_commit")


@pytest.mark.django_db
def test_prepared_queryset_gives_its_rows_for_every_shape_and_value(system):
    made = {
        slug: agent_create(slug=slug, name=f"100% {slug}", kind=kind, prompt="I am.", by=system).pk
        for slug, kind in (("kay", "peasant"), ("lou", "peasant"), ("max", "royalty"))
    }
    for _ in range(4):
        assert BY_KIND.rows((), agent=0, kind="peasant") == [("lou", made["lou"]), ("kay", made["kay"])]
        assert BY_KIND.rows(("kay", "it's 5 %s"), agent=0, kind="peasant") == [("lou", made["lou"])]
        assert BY_KIND.rows((), agent=made["max"], kind="royalty") == [("max", made["max"])]
        assert BY_KIND.rows((), agent=made["max"] + 1, kind="royalty") == []


@pytest.mark.django_db
def test_queries_together_give_the_rows_of_each(system):
    kay = agent_create(slug="kay", name="Kay", kind="peasant", prompt="I am.", by=system).pk
    one, none = BY_KIND.bound((), agent=0, kind="peasant"), BY_KIND.bound(("kay",), agent=0, kind="peasant")
    with CaptureQueriesContext(connection) as captured:
        assert fetch_combined({"one": one, "none": none}) == {"one": [("kay", kay)], "none": []}
    assert len(captured.captured_queries) == 1
    assert one.rows() == [("kay", kay)]


@pytest.mark.django_db
def test_statements_are_prepared_once_and_reported_to_listeners(ada):
    statement = "SELECT slug FROM identity_agent WHERE id = %(wanted)s::bigint"
    for _ in range(4):
        assert rows_prepared(statement, {"wanted": ada.pk}) == [("ada",)]
    found = rows_prepared(
        "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE %(like)s", {"like": "SELECT slug%"}
    )
    assert found[0][0] == 1
    with CaptureQueriesContext(connection) as captured:
        rows_prepared(statement, {"wanted": ada.pk})
    assert [query["sql"] for query in captured.captured_queries] == [statement.replace("%(wanted)s", str(ada.pk))]


@pytest.mark.django_db
def test_columns_come_as_arrays_whoever_sends_the_statement():
    statement = (
        "SELECT array_agg(n), array_agg(n::float8 / 2), array_agg(ARRAY[n, 7::int]), array_agg('w%%' || n),"
        " array_agg(n) FILTER (WHERE n > %(most)s::int) FROM generate_series(1, %(most)s::int) AS n"
    )

    def check():
        numbers, halves, pairs, words, none = columns_prepared(statement, {"most": 3})
        assert np.asarray(numbers).tolist() == [1, 2, 3]
        assert np.asarray(halves).tolist() == [0.5, 1.0, 1.5]
        assert np.reshape(pairs, (-1, 2)).tolist() == [[1, 7], [2, 7], [3, 7]]
        assert (words, len(none)) == (["w%1", "w%2", "w%3"], 0)

    for _ in range(3):
        check()
    with CaptureQueriesContext(connection):
        check()
    with pytest.raises(ValueError, match="has a NULL"):
        columns_prepared("SELECT ARRAY[1, NULL]", {})


@pytest.mark.django_db
def test_instance_equals_the_one_that_django_makes(ada, system):
    token, _ = token_create(agent=ada, persona="actor", name="n", by=system)
    for model, row in ((ApiToken, token), (Agent, ada)):
        [values] = rows_prepared(
            f"SELECT {columns_of(model, 'one')} FROM {model._meta.db_table} AS one WHERE id = %(id)s::bigint",  # noqa: S608
            {"id": row.pk},
        )
        found, expected = instance_of(model, values), model.objects.get(pk=row.pk)
        assert found == expected
        for field in model._meta.concrete_fields:
            assert getattr(found, field.attname) == getattr(expected, field.attname), field.name


@pytest.mark.django_db(transaction=True)
def test_settings_hold_for_the_connection_or_the_transaction():
    before = shown("max_parallel_workers_per_gather")
    session_settings_set("one", {"max_parallel_workers_per_gather": "7"})
    assert shown("max_parallel_workers_per_gather") == "7"
    with CaptureQueriesContext(connection) as captured:
        session_settings_set("one", {"max_parallel_workers_per_gather": "7"})
    assert not captured.captured_queries
    connection.close()
    assert shown("max_parallel_workers_per_gather") == before
    with transaction.atomic():
        session_settings_set("one", {"max_parallel_workers_per_gather": "8"})
        assert shown("max_parallel_workers_per_gather") == "8"
    assert shown("max_parallel_workers_per_gather") == before
    session_settings_set("one", {"max_parallel_workers_per_gather": "9"})
    assert shown("max_parallel_workers_per_gather") == "9", (
        "a transaction's settings are not taken for the connection's"
    )
    connection.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("durable", [True, False])
def test_inserted_instance_equals_the_one_that_django_saves(system, durable):
    # More often than psycopg waits before it prepares a statement; ints of another size make another statement.
    for number in (1, 2, 3, 40_000, 3_000_000_000):
        row = Agent(slug=f"kay-{number}", name="100% 'Kay'", kind="peasant", config={"a": [number, None, 'x"\\']})
        row.pk = number
        instance_insert(row, durable=durable)
        found = Agent.objects.get(pk=number)
        for field in Agent._meta.concrete_fields:
            assert getattr(found, field.attname) == getattr(row, field.attname), field.name
        assert not row._state.adding


@pytest.mark.django_db(transaction=True)
def test_insert_that_fails_changes_nothing_and_keeps_the_connection(system):
    for row in (Agent(pk=7, slug="x" * 300, kind="peasant"), Agent(pk=7, slug="kay", kind=None)):
        with pytest.raises((DataError, IntegrityError)):
            instance_insert(row, durable=False)
    assert not Agent.objects.exists()


def test_asynchronous_commit_is_for_what_need_not_last(commits_told):
    instance_insert(Agent(pk=1, slug="waited", kind="peasant"))
    instance_insert(Agent(pk=2, slug="hurried", kind="peasant"), durable=False)
    assert shown("synchronous_commit") == "local"
    with transaction.atomic():
        # What else is in the transaction may have to last.
        instance_insert(Agent(pk=3, slug="inside", kind="peasant"), durable=False)
        assert shown("synchronous_commit") == "local"
    assert list(Agent.objects.order_by("pk").values_list("name", flat=True)) == ["local", "off", "local"]

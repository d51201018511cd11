"""Prepared statements give what Django's querysets give, and connections remember what was set."""

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from identity.models import Agent, ApiToken
from identity.services.agents import agent_create
from identity.services.tokens import token_create
from nousweb.lib.sql import Repeated, columns_of, instance_of, rows_prepared, session_tuned

BY_KIND = Repeated(
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


@pytest.mark.django_db
def test_a_repeated_queryset_gives_its_rows_for_every_shape_and_value(system):
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
def test_statements_are_prepared_once_and_told_to_whoever_listens(ada):
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
def test_an_instance_is_the_one_that_django_makes(ada, system):
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
    session_tuned("one", {"max_parallel_workers_per_gather": "7"})
    assert shown("max_parallel_workers_per_gather") == "7"
    with CaptureQueriesContext(connection) as captured:
        session_tuned("one", {"max_parallel_workers_per_gather": "7"})
    assert not captured.captured_queries
    connection.close()
    assert shown("max_parallel_workers_per_gather") == before
    with transaction.atomic():
        session_tuned("one", {"max_parallel_workers_per_gather": "8"})
        assert shown("max_parallel_workers_per_gather") == "8"
    assert shown("max_parallel_workers_per_gather") == before
    session_tuned("one", {"max_parallel_workers_per_gather": "9"})
    assert shown("max_parallel_workers_per_gather") == "9", (
        "a transaction's settings are not taken for the connection's"
    )
    connection.close()

"""History is kept by the database itself, whatever code or person speaks to it, the tables' owner included.

What the running product may not even try is in tests/security/test_database_roles.py.
"""

import pytest
from django.db import IntegrityError, connection, transaction

from identity.models import AuditEvent, IdentityVersion
from identity.principal import Principal
from identity.services.proposals import identity_propose
from memory.models import FactChange
from memory.services.facts import fact_learn
from tests.database import as_the_owner

APPEND_ONLY = {"identity_auditevent": "message", "memory_factchange": "reason"}


@pytest.fixture
def history(ada, bob, system):
    identity_propose(agent=ada, section="character", content="Two.", by=Principal.of_user(bob))
    fact_learn(agent=ada, content="Tim sails.", by=system)
    with connection.cursor() as cursor:
        # A TRUNCATE is refused for checks that wait, before it is refused for good.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    with as_the_owner():
        yield


def refused(sql, *values):
    """Run `sql` as an operator with full access would, and give the words of its refusal."""
    with pytest.raises(IntegrityError) as error, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql, values)
    return str(error.value)


@pytest.mark.parametrize("table", APPEND_ONLY)
def test_append_only_rows_are_neither_changed_nor_removed(history, table):
    column = APPEND_ONLY[table]
    before = _rows(table)
    assert "UPDATE is refused" in refused(f"UPDATE {table} SET {column} = 'other'")  # noqa: S608
    assert "UPDATE is refused" in refused(f"UPDATE {table} SET {column} = {column}")  # noqa: S608
    assert "DELETE is refused" in refused(f"DELETE FROM {table}")  # noqa: S608
    assert "TRUNCATE is refused" in refused(f"TRUNCATE {table} CASCADE")
    assert _rows(table) == before != []


def test_append_only_rows_are_refused_by_the_orm(history):
    record = AuditEvent.objects.latest("id")
    record.message = "other"
    for change in (
        record.save,
        record.delete,
        AuditEvent.objects.all().delete,
        lambda: AuditEvent.objects.update(message="other"),
        lambda: FactChange.objects.update(reason="other"),
        FactChange.objects.all().delete,
        IdentityVersion.objects.all().delete,
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            change()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("content", "other"), ("reason", "other"), ("version", "9"), ("author_name", "mallory"),
        ("section", "values"), ("created_at", "2001-01-01"), ("previous_id", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("also", ["", ", is_current = false"])
def test_append_only_version_columns_are_never_edited(history, column, value, also):
    """Not even together with losing `is_current`, which alone is allowed."""
    sql = f"UPDATE identity_identityversion SET {column} = %s{also} WHERE section = 'character' AND version = 2"  # noqa: S608
    assert "never edited" in refused(sql, value)


def test_append_only_version_never_becomes_current_again(history):
    table = "identity_identityversion"
    assert "never edited" in refused(f"UPDATE {table} SET is_current = true WHERE version = 1 AND NOT is_current")  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET is_current = false WHERE version = 2")  # noqa: S608
        assert cursor.rowcount == 1
    assert "never edited" in refused(f"UPDATE {table} SET is_current = true WHERE version = 2")  # noqa: S608


def test_append_only_versions_are_neither_removed_nor_truncated(history):
    assert "DELETE is refused" in refused("DELETE FROM identity_identityversion WHERE version = 1")
    assert "TRUNCATE is refused" in refused("TRUNCATE identity_identityversion CASCADE")


def test_append_only_section_has_one_current_version_and_unique_numbers(history, ada):
    version = IdentityVersion.objects.current().get(agent=ada, section="character")
    for number, constraint in ((3, "one_current_version"), (2, "one_row_per_version")):
        with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
            IdentityVersion.objects.create(
                agent=ada, section="character", version=number, content="x", is_current=number == 3,
                author_kind="system", author_id="x", author_name="x",
            )  # fmt: skip
    assert IdentityVersion.objects.current().get(agent=ada, section="character") == version


def test_append_only_erasure_may_delete_and_not_change(history):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL nous.erasure = 'on'")
        cursor.execute("DELETE FROM identity_auditevent WHERE id = (SELECT max(id) FROM identity_auditevent)")
        assert cursor.rowcount == 1
    assert "UPDATE is refused" in refused("UPDATE identity_auditevent SET message = 'other'")
    assert "TRUNCATE is refused" in refused("TRUNCATE identity_auditevent")
    assert "never edited" in refused("UPDATE identity_identityversion SET content = 'other'")


def _rows(table):
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table} ORDER BY id")  # noqa: S608
        return cursor.fetchall()

"""Whoever can run SQL as the product cannot take history away, nor the guards that keep it."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection

from nousweb.database.privileges import APPEND_ONLY, READ_ONLY, privileges_grant, weakness
from nousweb.runtime.postgres.server import OWNER, ROLE
from tests.product import PROJECT, Product, product_running, until

RECEIPT = (
    '{"author_kind": "person", "author_id": "1", "author_name": "mallory", "agent_slug": "ada", "persona": "both",'
    ' "object_type": "agent", "object_id": "1", "object_label": "x", "request_id": "", "channel": "", "message": "%s",'
    ' "action": "%s"}'
)
WITH_IDENTITY = """
import os, django
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
django.setup()
from identity.principal import Principal
from identity.services.agents import agent_create
agent_create(slug="carl", name="Carl", prompt="You are Carl.", by=Principal.of_system("tests"))
"""
UNFINISHED = """
SELECT EXISTS (SELECT FROM memory_job WHERE status NOT IN ('done', 'dead'))
    OR EXISTS (SELECT FROM memory_searchitem WHERE status = 'pending')
    OR EXISTS (SELECT FROM django_q_ormq)
"""
EVENT = {"events": [{"kind": "user_input", "content": "The office is in Oslo.", "loop_id": "loop"}]}


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    """Web server and worker as the product, with an event, a fact and its history in the database."""
    with product_running("roles") as running:
        running.web()
        running.worker()
        until("ready", lambda: running.call("GET", "/events")[0] == 200)
        assert running.call("POST", "/events", EVENT)[0] == 201
        assert running.call("POST", "/facts", {"content": "Tim sails on Sundays.", "subject": "Tim"})[0] == 201
        with psycopg.connect(running.url) as connection:
            # What it does by the clock writes history too: on a busy machine it would do so between two looks at it.
            connection.execute("UPDATE django_q_schedule SET next_run = now() + interval '1 day'")
        # What the worker makes of them goes into the tables that are compared below.
        until("the worker has nothing left to do", lambda: running.rows(UNFINISHED) == [(False,)])
        yield running


def history(product: Product) -> list[list[tuple[object, ...]]]:
    with psycopg.connect(product.url) as reader:
        return [
            reader.execute(f"SELECT to_jsonb(t)::text FROM {table} t ORDER BY 1").fetchall()  # noqa: S608
            for table in APPEND_ONLY
        ]


ATTACKS = [
    *(f"ALTER TABLE {table} DISABLE TRIGGER ALL" for table in APPEND_ONLY),
    *(f"DELETE FROM {table}" for table in APPEND_ONLY),  # noqa: S608
    *(f"TRUNCATE {table} CASCADE" for table in APPEND_ONLY),
    *(f"DROP TABLE {table} CASCADE" for table in APPEND_ONLY),
    "UPDATE identity_auditevent SET message = ''",
    "UPDATE memory_event SET content = 'other'",
    "UPDATE memory_factchange SET reason = ''",
    "UPDATE memory_judgecall SET tokens_in = 0",
    "UPDATE identity_identityversion SET content = 'other'",
    "UPDATE identity_logseal SET count = 1",
    "UPDATE identity_logleaves SET salts = ''",
    "DELETE FROM identity_loghole",
    "INSERT INTO identity_loghole (seal_id, slot, key, blanked, transaction, at) VALUES (1, 1, '1', false, '', now())",
    "UPDATE identity_identityversion SET is_current = true, content = 'other'",
    "INSERT INTO identity_auditevent SELECT * FROM identity_auditevent ON CONFLICT (id) DO UPDATE SET message = ''",
    "DROP TRIGGER audit_rows_append_only ON identity_auditevent",
    "ALTER TABLE identity_auditevent RENAME TO other",
    f"ALTER TABLE identity_auditevent OWNER TO {ROLE}",
    "ALTER TABLE identity_auditevent ADD COLUMN other text",
    "CREATE TRIGGER mine BEFORE INSERT ON identity_auditevent FOR EACH ROW EXECUTE FUNCTION nous_append_only()",
    "CREATE RULE mine AS ON INSERT TO identity_auditevent DO INSTEAD NOTHING",
    "CREATE OR REPLACE FUNCTION nous_append_only() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE FUNCTION pg_temp.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "DROP FUNCTION nous_append_only() CASCADE",
    "ALTER FUNCTION nous_erase_agent(bigint, jsonb) RESET search_path",
    "CREATE TABLE mine (id int)",
    "CREATE TEMPORARY TABLE identity_auditevent (id int)",
    "CREATE SCHEMA mine",
    "CREATE EXTENSION dblink",
    "CREATE INDEX mine ON identity_auditevent (id)",
    "SET session_replication_role = replica",
    "SET LOCAL session_replication_role = replica",
    f"SET ROLE {OWNER}",
    f"SET SESSION AUTHORIZATION {OWNER}",
    "SET ROLE postgres",
    f"GRANT {OWNER} TO {ROLE}",
    f"ALTER ROLE {ROLE} SUPERUSER",
    "CREATE ROLE mine SUPERUSER",
    f"REASSIGN OWNED BY {OWNER} TO {ROLE}",
    "COPY (SELECT 1) TO PROGRAM 'id'",
    "COPY identity_auditevent FROM '/etc/passwd'",
    "COPY (SELECT 1) TO '/tmp/mine'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT lo_import('/etc/passwd')",
    "ALTER SYSTEM SET archive_command = 'id'",
    "ALTER DATABASE nous SET session_replication_role = replica",
    "UPDATE pg_trigger SET tgenabled = 'D'",
    "DELETE FROM django_migrations",
    "LOCK TABLE identity_auditevent IN ACCESS EXCLUSIVE MODE",
    "SELECT nous_erasure_receipt(1, '{}', '{}')",
]


@pytest.mark.parametrize("statement", ATTACKS)
def test_product_sql_changes_no_history_and_no_guard(product: Product, statement: str) -> None:
    """By a connection that claims to be an erasure, which may do no less than another."""
    before = history(product)
    with psycopg.connect(product.url) as attacker:
        attacker.execute("SET nous.erasure = 'on'")
        attacker.commit()
        with pytest.raises(psycopg.Error) as refused:
            attacker.execute(statement)
        assert isinstance(
            refused.value,
            (
                psycopg.errors.InsufficientPrivilege,
                psycopg.errors.UndefinedFile,
                psycopg.errors.FeatureNotSupported,
                psycopg.errors.ActiveSqlTransaction,
            ),
        ), refused.value
    assert history(product) == before


def test_product_role_cannot_give_itself_rights(product: Product) -> None:
    """PostgreSQL only warns here."""
    with psycopg.connect(product.url) as attacker:
        attacker.execute(f"GRANT ALL ON identity_auditevent TO {ROLE}")
        assert weakness(attacker) == ""


def test_identity_version_may_only_lose_its_currency(product: Product) -> None:
    product.run("-c", WITH_IDENTITY)
    with psycopg.connect(product.url) as attacker:
        attacker.execute("SET nous.erasure = 'on'")
        assert attacker.execute("UPDATE identity_identityversion SET is_current = false").rowcount > 0
        with pytest.raises(psycopg.errors.RestrictViolation):
            attacker.execute("UPDATE identity_identityversion SET is_current = true")
        attacker.rollback()


@pytest.mark.parametrize(
    ("agent", "fact", "why", "action", "reason"),
    [
        (True, False, "why", "agent.erase", "foreign key"),
        (True, False, "why", "fact.erase", "erases an agent"),
        (False, False, "why", "agent.erase", "no such agent"),
        (False, True, "why", "fact.erase", "no such fact"),
        (True, True, " ", "fact.erase", "says who"),
        (True, True, "why", "agent.erase", "erases facts"),
    ],
)
def test_erasure_functions_refuse_incomplete_and_unreasoned_calls(
    product: Product, agent: bool, fact: bool, why: str, action: str, reason: str
) -> None:
    before = history(product)
    [(agent_id, fact_id)] = product.rows("SELECT agent_id, id FROM memory_fact LIMIT 1")
    values: list[object] = [agent_id if agent else 0, RECEIPT % (why, action)]
    call = "SELECT nous_erase_agent(%s, %s)"
    if fact:
        call = "SELECT nous_erase_facts(%s, %s::uuid[], NULL, %s)"
        values.insert(1, [fact_id])
    with psycopg.connect(product.url) as attacker, pytest.raises(psycopg.Error, match=reason):
        attacker.execute(call, values)
    assert history(product) == before


def test_erasure_functions_leave_a_receipt_and_blank_nothing_else(product: Product) -> None:
    """Told to blank the whole trail with one fact, the function blanks what is about this fact, and says so."""
    status, made = product.call("POST", "/facts", {"content": "A fact that mallory may erase.", "subject": "x"})
    assert status == 201
    assert isinstance(made, dict)
    trail = product.rows("SELECT id FROM identity_auditevent")
    [(fact, agent)] = product.rows("SELECT id, agent_id FROM memory_fact WHERE subject = 'x'")
    [(subject,)] = product.rows("SELECT id FROM memory_subject WHERE name = 'x'")
    mine = f"object_id IN ('{fact}', '{subject}')"
    others = f"SELECT to_jsonb(t)::text FROM identity_auditevent t WHERE NOT {mine} ORDER BY id"  # noqa: S608
    before = product.rows(others)
    with psycopg.connect(product.url) as attacker:
        attacker.execute("DELETE FROM memory_searchitem WHERE item_id = %s", [str(fact)])
        attacker.execute(
            "SELECT nous_erase_facts(%s, ARRAY[%s]::uuid[], %s, %s)",
            [agent, fact, [row[0] for row in trail], RECEIPT % ("gone", "fact.erase")],
        )
    after = product.rows(others)
    assert after[: len(before)] == before
    [(receipt,)] = after[len(before) :]
    assert '"action": "fact.erase"' in str(receipt)
    assert '"message": "gone"' in str(receipt)
    assert '"fact": 1' in str(receipt)


def test_product_role_can_erase_reindex_and_serve(product: Product) -> None:
    assert product.call("POST", "/facts", {"content": "Zanzibar likes tea very much.", "subject": "Zanzibar"})[0] == 201
    product.manage("reindex")
    product.manage("erase", "subject", "ada", "Zanzibar", "--reason", "asked", "--no-input")
    assert product.rows("SELECT count(*) FROM memory_fact WHERE subject = 'Zanzibar'") == [(0,)]
    assert product.rows("SELECT message FROM identity_auditevent WHERE action = 'subject.erase'") == [("asked",)]
    assert product.call("POST", "/context", {"session_id": "s", "input": "Where is the office?"})[0] == 200
    product.manage("createagent", "bruno", "--name", "Bruno")
    product.manage("erase", "agent", "bruno", "--reason", "asked", "--no-input")
    assert product.rows("SELECT count(*) FROM identity_agent WHERE slug = 'bruno'") == [(0,)]
    assert product.rows("SELECT usename FROM pg_stat_activity WHERE usename = 'nous_owner'") == []


def test_append_only_tables_declared_are_those_guarded(product: Product) -> None:
    guarded = product.rows(
        "SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger WHERE tgfoid = 'nous_append_only'::regproc"
    )
    assert {name for (name,) in guarded} == set(APPEND_ONLY)
    for table in READ_ONLY | APPEND_ONLY.keys():
        assert product.rows(f"SELECT has_table_privilege('{table}', 'DELETE, TRUNCATE, TRIGGER, REFERENCES')") == [
            (False,)
        ]
    owned = product.rows("SELECT relname FROM pg_class WHERE pg_get_userbyid(relowner) = current_user")
    assert owned == []


def test_single_role_is_reported(product: Product) -> None:
    said = product.manage("check", "--database", "default")
    assert "no issues" in said
    with psycopg.connect(product.server.owner_url) as owner:
        assert "owns its tables" in weakness(owner)
    with urllib.request.urlopen(f"http://127.0.0.1:{product.port}/readyz", timeout=30) as response:
        answer = json.loads(response.read())
    assert answer["checks"]["database_role"] == "ok"
    product.environment["DATABASE_URL"] = product.server.owner_url
    try:
        alone = subprocess.run(
            [sys.executable, "manage.py", "check", "--database", "default"],
            cwd=PROJECT, env=product.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        product.environment["DATABASE_URL"] = product.url
    assert "nous.W001" in alone.stderr
    assert "owns its tables" in alone.stderr


@pytest.mark.django_db
def test_privileges_are_granted_once_and_only_where_missing() -> None:
    role = connection.settings_dict["OPTIONS"].get("assume_role")
    if role is None:
        pytest.skip("the given server's user may not make roles")
    with connection.cursor() as cursor:
        cursor.execute("RESET ROLE")
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT xmin FROM pg_class WHERE relname = 'identity_auditevent'")
            before = cursor.fetchone()
            privileges_grant(connection.connection, role)
            cursor.execute("SELECT xmin FROM pg_class WHERE relname = 'identity_auditevent'")
            assert cursor.fetchone() == before
            cursor.execute("CREATE TABLE brand_new (id bigserial)")
            privileges_grant(connection.connection, role)
            cursor.execute("SELECT has_table_privilege(%s, 'brand_new', 'DELETE')", [role])
            assert cursor.fetchone() == (True,)
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"SET ROLE {role}")

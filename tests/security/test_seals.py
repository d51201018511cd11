"""Whoever edits what was sealed is found, and nothing that the product does is taken for an edit.

Edits are drawn at random (FUZZ_SEED draws others): 70 beside the other tests, 1,000 with ATTACK_SCALE=full.
"""

import io
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection, models, transaction

from identity.models import Agent, AuditEvent, Change, LogHole, LogHorizon, LogLeaves, LogSeal, LogVerification
from identity.policy.sealed_tables import SEALED_TABLES, SealedTable
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.proposals import identity_propose
from identity.services.seals.checks import Report, unsealed_check
from identity.services.seals.export import SealsDiffer, log_problem, seals_announce, seals_export
from identity.services.seals.sealer import log_seal, seal_values, values_hash
from identity.services.seals.verification import Verification, exported_check, verification_continue
from memory.models import Fact, FactChange, JudgeCall
from memory.services.erasure import agent_erase, fact_erase
from memory.services.facts import fact_learn
from nousweb.lib import clock
from tests.database import as_the_owner
from tests.factories import make_events, make_person, make_principal
from tests.http import browser
from tests.security.scale import scaled

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "Zanzibar Quux lives at 12 Elm Road."
SEALED = ("auditevent", "identityversion", "event", "factchange", "judgecall")
SEAL_COLUMNS = [column for column in LogSeal._meta.concrete_fields if column.name not in ("serial",)]
KINDS = (
    "all seals again", "hole of another erasure", "hole of", "leaves of", "removed", "deleted", "swapped",
    "changed places", "inserted", "seal ", " of ",
)  # fmt: skip
"""Words by which edits are counted: the first that tells what was done. The last is that of a column."""
Plant = Callable[[Random], tuple[str, str]]
"""Makes one edit; returns what it was, and words that a sentence of the verification must have."""


def verified(**options: Any) -> Report:
    verification = Verification(**options)
    while verification.step():
        pass
    return verification.finish()


def sealed_all() -> None:
    """Seal everything, until the floor of each table stands at its last row."""
    for _ in range(6):
        log_seal(at_once=True)
        LogHorizon.objects.exclude(noted_at=None).update(noted_at=clock.now() - timedelta(minutes=1))


def exported() -> list[dict[str, Any]]:
    return [
        json.loads(json.dumps({**seal_values(seal), "hash": seal.hash})) for seal in LogSeal.objects.order_by("serial")
    ]


def live(agent: Agent, by: Principal, person: Principal) -> list[Fact]:
    """Some of everything that is sealed; returns facts of which two name each other."""
    facts = [fact_learn(agent=agent, content=words, subject="Zanzibar", by=by).fact for words in (SECRET, "Tim sails.")]
    for words in ("Otto paints houses.", "The kiln stands in the cellar.", "Ida breeds bees."):
        fact_learn(agent=agent, content=words, subject=words.split()[1], by=by)
    for fact, other in (facts, facts[::-1]):
        FactChange.objects.create(
            agent=agent, fact=fact, other=other, action="superseded", reason=f"not {other.content}", score=0.25,
            evidence={"said": other.content}, author_kind="person", author_id="1", author_name="bob",
        )  # fmt: skip
    make_events(agent, by, "one", "two", "three", "four")
    for text in ("Two.", "Three."):
        identity_propose(agent=agent, section="values", content=text, reason="r", by=person)
    for number in range(3):
        JudgeCall.objects.create(
            agent=agent, persona="actor", task="merge", model="m", prompt_version="1", attempts=1, tokens_in=number,
            duration_ms=5, verdict={"kind": number},
        )  # fmt: skip
    return facts


@pytest.fixture
def log(ada: Agent, actor: Principal, bob: User, charlie: User) -> list[Fact]:
    """A sealed log in two rounds, with holes of an erasure in it."""
    facts = live(ada, actor, Principal.of_user(bob))
    sealed_all()
    fact_erase(fact=facts[0], by=Principal.of_user(charlie), reason="Asked.")
    make_events(ada, actor, "five", "six")
    sealed_all()
    assert verified().problems == 0
    return facts


def sql(statement: str, *values: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def superuser() -> Callable[[], Any]:
    """A way to do anything to a table for a moment, after which all is as it was."""

    class Undone:
        def __enter__(self) -> None:
            self.atomic = transaction.atomic()
            self.atomic.__enter__()
            self.owner = as_the_owner()
            self.owner.__enter__()
            for table in (*(one.table for one in SEALED_TABLES.values()), "identity_logseal", "identity_logleaves",
                          "identity_loghole"):  # fmt: skip
                sql(f"ALTER TABLE {table} DISABLE TRIGGER USER")

        def __exit__(self, *error: Any) -> None:
            transaction.set_rollback(True)
            self.owner.__exit__(*error)
            self.atomic.__exit__(None, None, None)

    return Undone


def keys_of(table: SealedTable) -> list[str]:
    holes = set(LogHole.objects.filter(seal__kind=table.name).values_list("key", flat=True))
    rows = sql(f"SELECT id::text FROM {table.table} ORDER BY id")  # noqa: S608
    return [key for (key,) in rows if key not in holes]


def column_edited(table: SealedTable, column: "models.Field[Any, Any]", random: Random) -> tuple[str, str]:
    key, name = random.choice(keys_of(table)), f'"{column.column}"'
    kind = column.get_internal_type()
    now = {
        "DateTimeField": f"{name} + interval '1 microsecond'",
        "JSONField": f"jsonb_build_object('was', {name})",
        "FloatField": f"coalesce({name}, 0) + 1e-12",
        "BooleanField": f"NOT {name}",
        "UUIDField": "gen_random_uuid()",
    }.get(kind)
    if column.is_relation:
        now = (
            "gen_random_uuid()"
            if column.related_model._meta.pk.get_internal_type() == "UUIDField"
            else f"coalesce({name}, 0) + 7"
        )
    elif now is None:
        text = kind in ("CharField", "TextField")
        now = (
            f"CASE WHEN {name} = 'x' THEN 'y' ELSE 'x' END"
            if text
            else f"{name} + {1 if kind == 'PositiveSmallIntegerField' else 1_000_000}"
        )
    sql("SET CONSTRAINTS ALL DEFERRED")
    sql(f"UPDATE {table.table} SET {name} = {now} WHERE id::text = %s", key)  # noqa: S608
    return f"{table.name}.{column.column} of {key}", f"{table.label} {key}"


def deleted(table: SealedTable, random: Random) -> tuple[str, str]:
    key = random.choice(keys_of(table))
    sql("SET CONSTRAINTS ALL DEFERRED")
    if table.name == "event":
        sql("DELETE FROM memory_longtermentry WHERE event_id = %s", key)
    sql(f"DELETE FROM {table.table} WHERE id::text = %s", key)  # noqa: S608
    return f"{table.name} {key} deleted", f"{table.label} {key}"


def swapped(table: SealedTable, random: Random) -> tuple[str, str]:
    one, other = random.sample(keys_of(table), 2)
    columns = [column for column in table.columns if column.attname != "id" and not column.unique]
    if table.name == "identityversion":
        columns = [column for column in columns if column.attname in ("content", "created_at", "reason")]
    if random.random() < 0.4:
        columns = [column for column in columns if isinstance(column, models.DateTimeField)]
    names = ", ".join(f'"{column.column}"' for column in columns)
    kinds = sql(f"SELECT count(DISTINCT ({names})) FROM {table.table} WHERE id::text IN (%s, %s)", one, other)  # noqa: S608
    if kinds == [(1,)]:
        # Both were written at the same moment: nothing would change.
        return swapped(table, random)
    theirs = ", ".join(f'b."{column.column}"' for column in columns)
    sql(
        f"UPDATE {table.table} a SET ({names}) = ROW({theirs}) FROM {table.table} b"  # noqa: S608
        " WHERE (a.id::text, b.id::text) IN ((%s, %s), (%s, %s))",
        one, other, other, one,
    )  # fmt: skip
    return f"{table.name} {one} and {other} swapped", f"{table.label} {one}"


def keys_swapped(table: SealedTable, random: Random) -> tuple[str, str]:
    """Two rows change places: each has the other's key."""
    one, other = random.sample(keys_of(table), 2)
    sql("SET CONSTRAINTS ALL DEFERRED")
    free = "gen_random_uuid()" if not table.numbered else "-1"
    (between,) = sql(f"UPDATE {table.table} SET id = {free} WHERE id::text = %s RETURNING id::text", one)[0]  # noqa: S608
    kind = "bigint" if table.numbered else "uuid"
    sql(f"UPDATE {table.table} SET id = %s::{kind} WHERE id::text = %s", one, other)  # noqa: S608
    sql(f"UPDATE {table.table} SET id = %s::{kind} WHERE id::text = %s", other, between)  # noqa: S608
    return f"{table.name} {one} and {other} changed places", f"{table.label} {one}"


def inserted(table: SealedTable, random: Random) -> tuple[str, str]:
    """A copy of a row where a row was taken away, or beside it."""
    key = random.choice(keys_of(table))
    if table.numbered:
        taken = {int(one) for (one,) in sql(f"SELECT id::text FROM {table.table}")}  # noqa: S608
        free = random.choice([one for one in range(int(key) - 300, int(key)) if one not in taken])
        changed = {"id": free, "key": None} if table.name == "event" else {"id": free}
    else:
        changed = {"id": "00000000-0000-4000-8000-00000000000f", "version": 0, "is_current": False}
    new = f"jsonb_populate_record(t, '{json.dumps(changed)}')"
    sql(f"INSERT INTO {table.table} SELECT n.* FROM {table.table} t, {new} n WHERE t.id::text = %s", key)  # noqa: S608
    if random.random() < 0.5:
        log_seal(at_once=True)
    return f"{table.name} {changed['id']} inserted", f"{table.label} {changed['id']}"


def seal_edited(random: Random) -> tuple[str, str]:
    seal, column = random.choice(list(LogSeal.objects.all())), random.choice(SEAL_COLUMNS)
    name = f'"{column.column}"'
    now: Any = {"DateTimeField": f"coalesce({name}, now()) + interval '1 microsecond'"}.get(column.get_internal_type())
    if now is None:
        text = column.get_internal_type() == "CharField"
        now = "'x'" if text else f"coalesce({name}, 0) + 100"
    sql(f"UPDATE identity_logseal SET {name} = {now} WHERE serial = %s", seal.serial)  # noqa: S608
    return f"seal {seal.serial}: {column.column}", f"Seal {seal.serial} "


def seal_removed(random: Random) -> tuple[str, str]:
    seal = random.choice(list(LogSeal.objects.all()))
    if random.random() < 0.5:
        last = LogSeal.objects.latest("serial").serial
        seal = random.choice(list(LogSeal.objects.exclude(serial=last)))
        sql("DELETE FROM identity_loghole WHERE seal_id = %s", seal.serial)
        sql("DELETE FROM identity_logleaves WHERE seal_id = %s", seal.serial)
    sql("SET CONSTRAINTS ALL DEFERRED")
    sql("DELETE FROM identity_logseal WHERE serial = %s", seal.serial)
    return f"seal {seal.serial} removed", f"Seal {seal.serial} is missing"


def leaves_edited(random: Random) -> tuple[str, str]:
    leaves = random.choice(list(LogLeaves.objects.all()))
    column = random.choice(["contents", "salts", "first_key", "keys", *(["digests"] if leaves.digests else [])])
    if leaves.first_key is None and column == "first_key":
        column = "contents"
    place = random.randrange(len(leaves.keys))
    held = set(LogHole.objects.filter(seal=leaves.seal_id).values_list("slot", flat=True))
    free = [slot for slot in range(1, len(leaves.keys) + 1) if slot not in held]
    if not free:
        column, place = "contents", 0
    else:
        place = random.choice(free) - 1
    at = place * {"salts": 16}.get(column, 32)
    now = {
        "first_key": "first_key - 1", "keys": f"array_replace(keys, keys[{place + 1}], 'seven')",
    }.get(column, f"set_byte({column}, {at}, get_byte({column}, {at}) # 1)")  # fmt: skip
    sql(f"UPDATE identity_logleaves SET {column} = {now} WHERE seal_id = %s", leaves.seal_id)  # noqa: S608
    return f"leaves of seal {leaves.seal_id}: {column} at {place}", f"eal {leaves.seal_id}"


def hole_edited(random: Random) -> tuple[str, str]:
    """A hole is taken away, moved, turned into another kind, or given to a row that somebody deleted."""
    hole = random.choice(list(LogHole.objects.all()))
    way = random.randrange(4)
    if way == 0:
        sql("DELETE FROM identity_loghole WHERE id = %s", hole.pk)
        return f"hole of {hole.key} removed", f" {hole.key} "
    if way == 1:
        sql("UPDATE identity_loghole SET blanked = NOT blanked WHERE id = %s", hole.pk)
        return f"hole of {hole.key} of another kind", f"audit record {hole.receipt_id}"
    if way == 2:
        sql("UPDATE identity_loghole SET receipt_id = NULL WHERE id = %s", hole.pk)
        return f"hole of {hole.key} without receipt", f" {hole.key} "
    what, words = deleted(SEALED_TABLES["judgecall"], random)
    key = words.split()[-1]
    leaves = LogLeaves.objects.get(kind="judgecall", keys__contains=[key])
    sql(
        "INSERT INTO identity_loghole (seal_id, slot, key, blanked, receipt_id, transaction, at)"
        " VALUES (%s, %s, %s, false, %s, '', now())",
        leaves.seal_id, leaves.keys.index(key) + 1, key, hole.receipt_id,
    )  # fmt: skip
    return f"{what}, with a hole of another erasure", f"audit record {hole.receipt_id}"


def computed_again(random: Random) -> tuple[str, str]:
    """A row is edited, and all seals are made again: nothing within the database tells of it."""
    what, _ = column_edited(SEALED_TABLES["event"], SEALED_TABLES["event"].model._meta.get_field("content"), random)
    for table in ("loghole", "logleaves", "logseal", "loghorizon"):
        sql(f"DELETE FROM identity_{table}")  # noqa: S608
    log_seal(at_once=True)
    report = Report()
    verification = Verification(report)
    while verification.step():
        pass
    assert not [one for one in report.findings if one.code != "receipt"]
    return f"{what}, and all seals again", "Seal 1 is different from the exported one"


def column_plants() -> list[Plant]:
    """Each column of each table once, but for keys, which a row of its own is for."""
    return [
        lambda random, table=table, column=column: column_edited(table, column, random)  # type: ignore[misc]
        for table in SEALED_TABLES.values()
        for column in table.columns
        if column.attname != "id"
    ]


def plants() -> Iterator[Plant]:
    """Every other way to edit the log, as often as it is to be tried."""
    for table in SEALED_TABLES.values():
        key = table.model._meta.get_field("id")
        yield lambda random, table=table, key=key: column_edited(table, key, random)  # type: ignore[misc]
        for way in (deleted, swapped, keys_swapped, inserted):
            yield lambda random, table=table, way=way: way(table, random)  # type: ignore[misc]
    for _ in range(4):
        yield from (seal_edited, seal_removed, leaves_edited, hole_edited)
    yield computed_again


def test_every_edit_of_the_log_is_found(log: list[Fact], superuser: Any, capsys: pytest.CaptureFixture[str]) -> None:
    random = Random(int(os.environ.get("FUZZ_SEED", "1")))
    copies, columns, others = exported(), column_plants(), list(plants())
    # Some columns at a time, and what else there is alone; in full each alone, and more of them at random.
    size = scaled(10, 1)
    rounds = [columns[at : at + size] for at in range(0, len(columns), size)] + [[way] for way in others]
    rounds += [[random.choice(columns + others)] for _ in range(scaled(0, 1_000 - len(rounds)))]
    missed, kinds = [], Counter[str]()
    for ways in rounds:
        with superuser():
            planted = [way(random) for way in ways]
            kinds.update(next(kind for kind in KINDS if kind in what) for what, _ in planted)
            report = verified()
            if "seals again" in planted[0][0]:
                exported_check(report, copies)
            said = [one.sentence for one in report.findings]
            missed += [(what, words, said[:5]) for what, words in planted if not any(words in one for one in said)]
    count = sum(kinds.values())
    with capsys.disabled():
        sys.stdout.write(f"\n{count - len(missed)} of {count} edits found: {dict(kinds)}\n")
    assert not missed, f"{len(missed)} of {count}: {missed[:10]}"
    assert len(rounds) >= scaled(1, 1_000)
    assert verified().problems == 0


def test_version_that_is_not_the_latest_cannot_be_made_current(log: list[Fact], superuser: Any) -> None:
    with superuser():
        (old, new) = [key for (key,) in sql(
            "SELECT id::text FROM identity_identityversion WHERE section = 'values' ORDER BY version DESC LIMIT 2"
        )][::-1]  # fmt: skip
        sql("UPDATE identity_identityversion SET is_current = false WHERE id::text = %s", new)
        sql("UPDATE identity_identityversion SET is_current = true WHERE id::text = %s", old)
        said = [one.sentence for one in verified().findings]
        assert any(old in one and "is not the latest" in one for one in said)


def test_record_that_claims_to_be_older_than_its_seal_is_found(log: list[Fact], superuser: Any) -> None:
    with superuser():
        sql(
            "INSERT INTO identity_auditevent SELECT n.* FROM identity_auditevent t,"
            " jsonb_populate_record(t, jsonb_build_object('id', t.id + 5, 'at', now() - interval '3 days')) n"
            " ORDER BY t.id DESC LIMIT 1"
        )
        log_seal(at_once=True)
        assert [one.code for one in verified().findings] == ["inserted"]


def test_every_column_is_sealed_or_says_why_not() -> None:
    assert tuple(sorted(SEALED_TABLES)) == tuple(sorted(SEALED))
    for table in SEALED_TABLES.values():
        columns = {column.attname for column in table.model._meta.concrete_fields}
        assert columns == {column.attname for column in table.columns} | set(table.open_columns)
        assert set(table.blanks) <= columns
        assert all(len(why) > 20 for why in table.open_columns.values())


def test_erasure_leaves_holes_with_receipts_and_no_text(log: list[Fact], ada: Agent, charlie: User) -> None:
    admin = Principal.of_user(charlie)
    receipt = AuditEvent.objects.get(action="fact.erase")
    holes = LogHole.objects.filter(receipt_id=receipt.pk)
    assert receipt.after["log"]["holes"] == holes.count() > 0
    assert {hole.blanked for hole in holes} == {True, False}
    for leaves in LogLeaves.objects.all():
        for hole in holes.filter(seal=leaves.seal_id):
            place = (hole.slot - 1) * 16
            assert bytes(leaves.salts)[place : place + 16] == bytes(16)
            if not hole.blanked and leaves.digests:
                assert bytes(leaves.digests)[place * 2 : place * 2 + 32] == bytes(32)
    for table in ("identity_logseal", "identity_logleaves", "identity_loghole"):
        kept = [row for (row,) in sql(f"SELECT to_jsonb(t)::text FROM {table} t")]  # noqa: S608
        assert not [row for row in kept if "Zanzibar" in row or "Elm" in row]
    fact_erase(fact=log[1], by=admin, reason="Asked again.")
    assert verified().problems == 0
    agent_erase(agent=ada, by=admin, reason="Asked for all.")
    sealed_all()
    report = verified()
    assert report.findings == []
    assert report.holes > holes.count()
    assert report.tail == 0
    assert verified(agent_id=ada.pk).problems == 0
    said = io.StringIO()
    call_command("verify", agent="ada", stdout=said)
    assert "All records match their seals." in said.getvalue()


def test_commits_in_another_order_than_they_began_are_no_edits(ada: Agent, system: Principal) -> None:
    sealed_all()
    begun, go = threading.Event(), threading.Event()

    def slow() -> None:
        try:
            with transaction.atomic():
                audit_record(by=system, action="agent.update", target=ada, agent=ada, message="began first")
                begun.set()
                go.wait(20)
        finally:
            connection.close()

    thread = threading.Thread(target=slow)
    thread.start()
    assert begun.wait(20)
    audit_record(by=system, action="agent.update", target=ada, agent=ada, message="committed first")
    later = AuditEvent.objects.get(message="committed first").pk
    sealed_all()
    assert verified().problems == 0
    assert LogHorizon.objects.get(kind="auditevent").floor < later
    go.set()
    thread.join()
    assert AuditEvent.objects.get(message="began first").pk < later
    sealed_all()
    report = verified()
    assert (report.findings, report.tail) == ([], 0)
    assert LogHorizon.objects.get(kind="auditevent").floor >= later


def test_sealer_and_erasure_at_once_leave_no_broken_row(ada: Agent, actor: Principal, charlie: User) -> None:
    """Either the sealer comes first, and the erasure finds the leaf, or it finds nothing to seal."""
    admin = Principal.of_user(charlie)
    facts = [
        fact_learn(agent=ada, content=f"Room {n} is painted in colour {n * 7}.", subject=f"r{n}", by=actor).fact
        for n in range(6)
    ]
    errors: list[BaseException] = []

    def sealing() -> None:
        try:
            for _ in range(6):
                log_seal(at_once=True)
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=sealing)
    thread.start()
    for fact in facts:
        fact_erase(fact=fact, by=admin, reason="Asked.")
    thread.join()
    log_seal(at_once=True)
    report = verified()
    assert (errors, report.findings) == ([], [])


def test_chain_with_few_rows_waits_and_a_full_one_does_not(ada: Agent, actor: Principal) -> None:
    log_seal(at_once=True)
    make_events(ada, actor, "one")
    assert log_seal() > 0  # The chain of events has no seal yet.
    make_events(ada, actor, "two")
    assert log_seal() == 0
    report = Report()
    unsealed_check(report)
    assert report.problems == 0
    assert report.tail > 0


def test_verify_command_compares_with_exported_seals(log: list[Fact], tmp_path: Any, superuser: Any) -> None:
    path = tmp_path / "seals.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in exported()))
    said = io.StringIO()
    call_command("verify", seals=path, stdout=said)
    assert "exported seals compared" in said.getvalue()
    with superuser():
        sql("UPDATE memory_event SET content = 'other' WHERE content = 'two'")
        said = io.StringIO()
        with pytest.raises(CommandError, match="1 problem"):
            call_command("verify", stdout=said)
        assert "was edited after it was sealed" in said.getvalue()
    line = json.loads(path.read_text().splitlines()[0])
    path.write_text(json.dumps({**line, "count": line["count"] + 1}) + "\n")
    with pytest.raises(CommandError):
        call_command("verify", seals=path, stdout=io.StringIO())
    assert values_hash({name: value for name, value in line.items() if name != "hash"}) == line["hash"]


def test_agents_of_both_personas_have_chains_of_their_own(ada: Agent, bruno: Agent, actor: Principal) -> None:
    below = make_principal(ada, "subconscious")
    make_events(ada, actor, "seen")
    make_events(ada, below, "unseen")
    log_seal(at_once=True)
    chains = set(LogSeal.objects.filter(kind="event").values_list("agent_slug", "persona", "count"))
    assert chains == {("ada", "actor", 1), ("ada", "subconscious", 1)}
    viewer = Principal.of_user(make_person("vera", "Viewer"))
    assert not LogSeal.objects.visible_to(viewer).filter(persona="subconscious").exists()
    assert verified(agent_id=bruno.pk).findings == []


def test_page_verifies_in_the_background_and_shows_what_is_broken(
    log: list[Fact], alice: User, charlie: User, superuser: Any, settings: Any
) -> None:
    client, admin = browser(alice), browser(charlie)
    assert "has not been checked yet" in client.get("/integrity/").content.decode()
    assert client.post("/integrity/verify/").status_code == 302
    assert "Pending" in client.get("/integrity/state/").content.decode()
    assert verification_continue() > 0
    page = client.get("/integrity/").content.decode()
    assert "All records match their seals" in page
    receipt = AuditEvent.objects.get(action="fact.erase")
    assert f"/audit/{receipt.pk}/" in page
    lines = b"".join(client.get("/integrity/?export=jsonl").streaming_content).decode().splitlines()
    report = Report()
    exported_check(report, [json.loads(line) for line in lines])
    assert report.findings == []
    assert len(lines) == LogSeal.objects.visible_to(Principal.of_user(alice)).count()
    assert log_problem() == ""
    with superuser():
        sql("UPDATE identity_auditevent SET author_name = 'nobody' WHERE id = %s", receipt.pk)
        admin.post("/integrity/verify/")
        verification_continue()
        found = LogVerification.objects.first()
        assert found is not None
        assert found.problems > 0
        assert f"Audit record {receipt.pk}" in admin.get("/integrity/").content.decode()
        assert "found" in log_problem()
        assert AuditEvent.objects.filter(action="log.problem").exists()


def test_verification_in_parts_finds_what_one_in_one_go_finds(log: list[Fact], superuser: Any) -> None:
    with superuser():
        sql("UPDATE memory_event SET content = 'other' WHERE content = 'six'")
        serial, report = 0, Report()
        while True:
            part = Verification(report, after=serial)
            more = part.step(1)
            if not more:
                break
            serial = part.serial
        part.finish()
        assert [one.sentence for one in report.findings] == [one.sentence for one in verified().findings]
        assert report.rows == verified().rows


def test_seals_are_sent_outside_and_a_chain_computed_again_is_noticed(
    log: list[Fact], ada: Agent, tmp_path: Any, superuser: Any, settings: Any
) -> None:
    settings.SEALS_FILE = tmp_path / "seals.jsonl"
    assert seals_export() == LogSeal.objects.count()
    assert seals_export() == 0
    assert log_problem() == ""
    with settings.SEALS_FILE.open("ab") as file:
        file.write(b'{"cut')
    make_events(ada, Principal.of_system("tests"), "seven")
    log_seal(at_once=True)
    assert seals_export() > 0
    lines = settings.SEALS_FILE.read_text().splitlines()
    assert len(lines) == LogSeal.objects.count() + 1
    assert seals_announce() == LogSeal.objects.exclude(agent_id=None).count()
    assert seals_announce() == 0
    told = Change.objects.filter(kind="log.sealed", agent=ada).latest("id")
    assert LogSeal.objects.get(hash=told.object_id).root == told.details["root"]
    with superuser():
        computed_again(Random(1))
        assert "recomputed" in log_problem()
        with pytest.raises(SealsDiffer):
            seals_export()

"""Export and import of a whole agent: what comes back is what went, row by row."""

import gzip
import io
import json
import lzma
import random
import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import transaction
from django.db.models import CharField, TextField
from django.utils import timezone

from context.expectations.services import expectation_create, request_of
from identity.models import Agent, AuditEvent
from identity.principal import Principal
from identity.services.agents import agent_create
from identity.services.proposals import identity_propose
from memory.models import (
    Attribute,
    Censor,
    Decision,
    Episode,
    EpisodeEvent,
    Event,
    Fact,
    FactChange,
    ImportedMemory,
    LoopSummary,
    Procedure,
    SearchItem,
    WorkingMemory,
)
from memory.services.documents import document_put
from memory.services.erasure import agent_erase
from memory.services.events import events_record
from memory.services.facts import fact_learn, fact_supersede
from memory.services.loops import derived_backfill
from memory.services.search_index.writer import index_put
from memory.transfer.agent_export import agent_export
from memory.transfer.export_tables import AUDIT_TABLE, LATER, LEFT_OUT, RENAMED, TABLES, columns, rows_of
from memory.types import MEMORY_TYPES, entry_of
from nousweb.lib.errors import NotAllowed
from tests.factories import SYSTEM, make_principal
from tests.security.scale import scaled

ENDING = {"ttl": 86_400, "source_ref": {"path": "docs/é.md", "sha256": "a" * 64}}
HARD = 'Zoë said "no"\\n\n\ttab — \u2028 \U0001f600'


NOTED = {"relevance": 0.5, "added_at": "2026-03-01T00:00:00+00:00"}


def other_stores(agent):
    """A row of each store that has none yet, with words in every text that needs some."""
    for store in (one.model for one in MEMORY_TYPES.values() if one.is_store):
        if not store.objects.filter(agent=agent).exists():
            columns = (column for column in store._meta.concrete_fields if isinstance(column, CharField | TextField))
            texts = {column.name: "Words." for column in columns if not column.blank and not column.choices}
            yield store.objects.create(agent=agent, **texts)


FIRST_RELEASE = Path(__file__).parents[1] / "fixtures" / "agent_before_0.1.0.jsonl.xz"


@pytest.fixture(scope="module")
def stored(module_db):
    """The key of Ada, with rows of every table and of both personas, and her actor; made once for all tests."""
    system = SYSTEM
    ada = agent_create(slug="ada", name="Ada", kind="knight", prompt="You are Ada, calm and exact.", by=system)
    bruno = agent_create(slug="bruno", name="Bruno", prompt="You are Bruno, quick and loud.", by=system)
    actor = make_principal(ada)
    # Events of somebody else first, so that ids differ when hers come back.
    events_record(agent=bruno, events=[{"kind": "error", "content": "x"}] * 3, by=system)
    subconscious = make_principal(ada, "subconscious", name="s")
    made = []
    for by in (actor, subconscious):
        said = [
            {
                "kind": "user_input",
                "content": HARD,
                "loop_id": "L",
                "metadata": {"n": [1.5, None, {"é": "x"}]},
                "key": "k",
            },
            {"kind": "actor_output", "content": "done", "loop_id": "L", "visibility": "private"},
        ]
        made += [one.event for one in events_record(agent=ada, events=said, by=by)]
    derived_backfill()
    first, second = (
        fact_learn(agent=ada, content=text, subject="Zoë", tags=["b", "a"], by=actor, **ENDING).fact
        for text in (HARD, "Yes")
    )
    fact_supersede(old=first, new=second, reason="said so", by=system)
    episode = Episode.objects.create(
        agent=ada, title=HARD, lessons=["one", "two"], participants=["Zoë"], ended_at=second.recorded_at,
        started_at=first.recorded_at,
    )  # fmt: skip
    for event in made[:2]:
        EpisodeEvent.objects.create(agent=episode.agent, episode=episode, event=event)
    # The kind is a word of the writer, which the history of facts once had too.
    Fact.objects.filter(pk=second.pk).update(
        source_event=made[1], source_episode=episode, contradiction_of=first, kind="held"
    )
    decision = Decision.objects.create(agent=ada, description="go", reasons=["a", "b"], episode=episode)
    procedure = Procedure.objects.create(agent=ada, name="deploy", steps=["x", "y"], success_count=3)
    for words in ("Words.", HARD):
        value = {"text": words, "n": [1.5]}
        document_put(agent=ada, namespace=["memories", "é"], key="notes", value=value, by=actor, **ENDING)
    index_put(map(entry_of, (episode, decision, procedure, *other_stores(ada))))
    Censor.objects.create(agent=ada, pattern="key|token", author_kind="person", author_id="1", author_name="bob")
    WorkingMemory.objects.create(
        agent=ada, persona="actor", session_id="s",
        items=[
            {"id": str(first.pk), "type": "fact", "text": "x", **NOTED},
            {"id": str(made[0].pk), "type": "event", "text": "y", **NOTED},
            {"id": "free", "type": "note", "text": "z", **NOTED},
        ],
    )  # fmt: skip
    Attribute.objects.create(agent=ada, name="spirit_animal", cardinality="one", decided_by="bob")
    identity_propose(agent=ada, section="character", content="New.", reason="why", by=actor)
    for item_type, item in (("fact", second), ("event", made[0])):
        expectation_create(
            agent=ada, request=request_of(HARD), requirement="present", target="memory", item_type=item_type,
            item_id=str(item.pk), by=system,
        )  # fmt: skip
    for item_type, item in (("fact", second), ("event", made[0])):
        ImportedMemory.objects.create(
            agent=ada, persona="actor", system="mem0", key=item_type, source_id=HARD, content_hash="d",
            item_type=item_type, item_id=str(item.pk), outcome="stored", file="a.json",
            earlier_item_ids=[str(first.pk)],
        )  # fmt: skip
    Agent.objects.filter(pk=ada.pk).update(config={"stm": {"window": 9}})
    return ada.pk, actor


@pytest.fixture
def full(db, stored):
    """Ada as she was stored, whatever another test did to its own."""
    return Agent.objects.get(pk=stored[0])


@pytest.fixture
def actor(stored):
    return stored[1]


def state(agent, *, audit=False):
    """Every row of an agent, with events and loops named by what they hold instead of by their numbers."""
    names = {
        pk: f"event {place}"
        for place, pk in enumerate(Event.objects.filter(agent=agent).order_by("pk").values_list("pk", flat=True))
    }
    found = {}
    for model in (*TABLES, *([AUDIT_TABLE] if audit else [])):
        found[model.__name__] = []
        for row in rows_of(model, agent.pk):
            values = {column.attname: getattr(row, column.attname) for column in columns(model)}
            for name in ("event_id", "source_event_id"):
                if values.get(name) is not None:
                    values[name] = names[values[name]]
            if model is Event:
                values["id"] = names[values["id"]]
            if model is LoopSummary:
                values["long_term_ids"] = [names[pk] for pk in values["long_term_ids"]]
            if model is WorkingMemory:
                values["items"] = [
                    item | {"id": names.get(int(item["id"]), "?")} if item["type"] == "event" else item
                    for item in values["items"]
                ]
            if values.get("item_type") == "event":
                values["item_id"] = names[int(values["item_id"])]
            found[model.__name__].append(values)
    return found


def index_of(agent):
    rows = SearchItem.objects.filter(agent=agent).exclude(item_type="event")
    return sorted(rows.values_list("persona", "item_type", "item_id", "text", "active", "subject"))


@pytest.fixture
def exported(tmp_path):
    def exported(slug, **options):
        path = tmp_path / f"{slug}.jsonl"
        call_command("exportagent", slug, out=path, **options)
        return path

    return exported


def import_agent(path, **options):
    call_command("importagent", str(path), stderr=io.StringIO(), **options)


def test_transfer_covers_every_table_of_an_agent_by_name():
    """A new table with rows of an agent has to be thought of in memory/transfer/export_tables.py."""
    held = {
        model.__name__
        for model in apps.get_models()
        if model._meta.app_label in ("identity", "memory")
        and any(field.name == "agent" for field in model._meta.concrete_fields)
    }
    assert held - LEFT_OUT <= {model.__name__ for model in TABLES}
    assert not LEFT_OUT & {model.__name__ for model in TABLES}


def test_transfer_round_trip(full, exported, system):
    state_before, index_before = state(full, audit=True), index_of(full)
    config, initiated = full.config, full.initiated_at
    assert all(state_before[model.__name__] for model in TABLES), "the test needs a row of every table"
    path = exported("ada", audit=True)
    agent_erase(agent=full, by=system, reason="moved")
    import_agent(path)
    back = Agent.objects.get(slug="ada")
    assert (back.config, back.initiated_at, back.name) == (config, initiated, full.name)
    after = state(back, audit=True)
    for name, rows in state_before.items():
        if name != "AuditEvent":
            assert after[name] == rows, name
    trail = [row for row in after["AuditEvent"] if row["action"] not in ("agent.import",)]
    shown = ("at", "action", "author_name", "object_label", "before", "after", "message", "object_type")
    assert [[row[name] for name in shown] for row in trail] == [
        [row[name] for name in shown] for row in state_before["AuditEvent"]
    ]
    assert index_of(back) == index_before
    assert set(SearchItem.objects.filter(agent=back).values_list("status", flat=True)) == {"pending"}
    assert SearchItem.objects.filter(agent=back, item_type="event").count() == 4
    assert not back.tokens.exists()
    assert AuditEvent.objects.get(action="agent.import").after["rows"]["event"] == 4
    assert derived_backfill() == {"long_term": 0, "index": 0, "loops": 0, "summaries": 0}


def test_transfer_copy_beside_the_original_refers_only_to_itself(full, exported):
    before = state(full)
    import_agent(exported("ada"), slug="copy")
    copy = Agent.objects.get(slug="copy")
    assert state(full) == before
    assert {name: len(rows) for name, rows in state(copy).items()} == {name: len(rows) for name, rows in before.items()}
    old, new = Fact.objects.filter(agent=copy).order_by("recorded_at")
    assert (old.superseded_by, new.contradiction_of) == (new, old)
    assert new.source_event.agent == new.source_episode.agent == copy
    assert set(EpisodeEvent.objects.filter(episode__agent=copy).values_list("event__agent", flat=True)) == {copy.pk}
    assert FactChange.objects.filter(fact__agent=copy, other__isnull=False).exclude(other__agent=copy).count() == 0
    items = WorkingMemory.objects.get(agent=copy).items
    assert items[0]["id"] == str(old.pk)
    assert Event.objects.get(pk=items[1]["id"]).agent == copy
    assert items[2]["id"] == "free"
    again = [json.loads(line) for line in agent_export(agent=copy, by=Principal.of_system("tests"))]
    first = [json.loads(line) for line in agent_export(agent=full, by=Principal.of_system("tests"))]
    assert again[-1] == first[-1]


@pytest.fixture(scope="module")
def exported_lines(stored):
    with transaction.atomic():
        lines = [*agent_export(agent=Agent.objects.get(pk=stored[0]), by=SYSTEM)]
        transaction.set_rollback(True)
    return lines


@pytest.fixture
def lines(db, exported_lines):
    return [*exported_lines]


def change(lines, table, **values):
    """The lines with the first row of `table` changed."""
    place = next(n for n, line in enumerate(lines) if json.loads(line).get("table") == table)
    row = json.loads(lines[place])
    row["row"] |= values
    return [*lines[:place], json.dumps(row) + "\n", *lines[place + 1 :]]


BAD = {
    "cut short": (lambda lines: lines[:-1], "ends too early"),
    "a row lost": (lambda lines: [*lines[:5], *lines[6:]], "not as many"),
    "a row twice": (lambda lines: [*lines[:2], lines[1], *lines[2:]], "there twice"),
    "cut inside a line": (lambda lines: [*lines[:3], lines[3][:20]], "Line 4: this is not JSON"),
    "no header": (lambda lines: lines[1:], "Line 1: this is not the beginning"),
    "empty": (lambda lines: [], "Line 1: this is not the beginning"),
    "a later version": (lambda lines: [lines[0].replace('"version":1', '"version":2'), *lines[1:]], "version 2"),
    "more after the end": (lambda lines: [*lines, lines[-1]], "more after the end"),
    "an unknown table": (
        lambda lines: [*lines[:1], '{"table":"apitoken","row":{}}\n', *lines[1:]],
        "no row of a known",
    ),
    "an unknown column": (lambda lines: change(lines, "fact", agent_id=1), "adds agent_id"),
    "a reference to nothing": (lambda lines: change(lines, "decision", episode_id="x"), "refers to nothing"),
    "an event elsewhere": (lambda lines: change(lines, "episodeevent", event_id=999_999), "not in this file"),
    "another persona": (lambda lines: change(lines, "longtermentry", persona="subconscious"), "persona and loop"),
    "a persona that is none": (lambda lines: change(lines, "event", persona="both"), "persona"),
    "a wrong moment": (lambda lines: change(lines, "event", ts="soon"), "ts"),
    "a wrong number": (lambda lines: change(lines, "fact", confidence=7), "confidence|refused"),
    "text that is none": (lambda lines: change(lines, "fact", content=None), "content"),
    "a NUL": (lambda lines: change(lines, "fact", content="a\x00"), "NUL"),
}


@pytest.mark.parametrize("kind", BAD)
def test_transfer_of_an_incomplete_or_wrong_file_stores_nothing(lines, tmp_path, kind):
    spoil, why = BAD[kind]
    path = tmp_path / "bad.jsonl"
    path.write_text("".join(spoil(lines)), encoding="utf-8")
    before = {model: model._default_manager.count() for model in (Agent, *TABLES, SearchItem, AuditEvent)}
    with pytest.raises(CommandError, match=why):
        import_agent(path, slug="copy")
    assert {model: model._default_manager.count() for model in before} == before


@pytest.mark.django_db
def test_export_from_before_the_first_release_imports_whole(system, tmp_path):
    path = tmp_path / "marlow.jsonl"
    path.write_bytes(lzma.decompress(FIRST_RELEASE.read_bytes()))
    rows = [line for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()) if "table" in line]
    import_agent(path)
    agent = Agent.objects.get(slug="marlow")
    again = [json.loads(line) for line in agent_export(agent=agent, by=system)]
    for table, column in (
        ("identityversion", "content"), ("fact", "content"), ("event", "content"), ("episode", "summary"),
        ("decision", "description"), ("procedure", "name"), ("censor", "pattern"), ("factchange", "action"),
    ):  # fmt: skip
        before, after = (
            sorted(str(line["row"][column]) for line in of if line.get("table") == table) for of in (rows, again)
        )
        assert before, table
        assert after == before, table
    active = {row["row"]["id"]: row["row"]["active"] for row in rows if row["table"] == "fact"}
    assert {str(key): kept for key, kept in Fact.objects.filter(agent=agent).values_list("id", "active")} == active


def test_transfer_slug_taken_or_missing_is_refused(full, exported):
    path = exported("ada")
    with pytest.raises(CommandError, match="There is already an agent 'ada'"):
        import_agent(path)
    with pytest.raises(CommandError, match="lower-case"):
        import_agent(path, slug="Not A Slug")
    assert Agent.objects.count() == 2


def test_transfer_is_for_administrators_and_not_for_tokens(full, actor, bob, charlie):
    for by in (actor, Principal.of_user(bob)):
        with pytest.raises(NotAllowed):
            agent_export(agent=full, by=by)
    assert "".join(agent_export(agent=full, by=Principal.of_user(charlie)))


def test_export_after_an_import_says_the_same(full, exported, system, tmp_path):
    """Line by line, but for the numbers of events, which are those of the database."""

    def lines(path):
        found, numbers = [], {}
        for line in map(json.loads, path.read_text(encoding="utf-8").split("\n")[:-1]):
            row = line.get("row", {})
            if line.get("table") == "event":
                row["id"] = numbers.setdefault(row["id"], len(numbers))
            for name in ("event_id", "source_event_id"):
                row |= {name: numbers[row[name]]} if row.get(name) is not None else {}
            if "long_term_ids" in row:
                row["long_term_ids"] = [numbers[key] for key in row["long_term_ids"]]
            for held in [row, *(row.get("items") or [])]:
                name = "item_id" if held is row else "id"
                if "event" in (held.get("item_type"), held.get("type")):
                    held[name] = numbers[int(held[name])]
            found.append(line)
        return found

    first = exported("ada")
    before = lines(first)
    agent_erase(agent=full, by=system, reason="moved")
    import_agent(first)
    second = tmp_path / "again.jsonl"
    call_command("exportagent", "ada", out=second, stderr=io.StringIO())
    assert lines(second) == before


def test_export_of_one_persona_holds_nothing_of_the_other(full, exported, tmp_path):
    stray = Event.objects.filter(agent=full, persona="subconscious").first()
    Fact.objects.filter(agent=full, source_event__isnull=False).update(source_event=stray)
    path = exported("ada", persona="actor")
    header, *rows, _ = map(json.loads, path.read_text(encoding="utf-8").split("\n")[:-1])
    assert header["persona"] == "actor"
    assert {one["row"].get("persona", "actor") for one in rows} == {"actor"}
    assert not any(str(stray.pk) == str(one["row"].get("source_event_id")) for one in rows)
    assert {one["table"] for one in rows} >= {"identityversion", "event", "fact", "factchange", "episodeevent"}
    import_agent(path, slug="half")
    half = Agent.objects.get(slug="half")
    assert Event.objects.filter(agent=half).count() == Event.objects.filter(agent=full, persona="actor").count()
    with pytest.raises(CommandError, match="covers both"):
        call_command("exportagent", "ada", persona="actor", audit=True)


def columns_of(export):
    """Columns of each table of an export, in their order."""
    # Not `splitlines`: a row may hold other ends of lines.
    rows = [entry for entry in map(json.loads, export.decode().strip("\n").split("\n")) if "table" in entry]
    return {entry["table"]: [*entry["row"]] for entry in reversed(rows)}


def test_document_of_the_format_names_every_table_in_the_order_of_a_file(full, exported):
    """And no column that there is not; a file has the columns that one of the first release had, in their order."""
    text = (Path(__file__).parents[2] / "docs" / "transfer.md").read_text(encoding="utf-8")
    paragraph = text.partition("The tables, in the order of a file: ")[2].partition("\n\n")[0]
    tables = re.findall(r"`(\w+)`", paragraph)
    assert tables == [model._meta.model_name for model in (*TABLES, AUDIT_TABLE)]
    written = columns_of(exported("ada", audit=True).read_bytes())
    assert {*written} == {*tables}
    explained = text.partition("Columns that do not explain themselves:")[2].partition("\n#")[0]
    for statement in explained.split("\n- "):
        table = ""
        for of, name in re.findall(r"(Of an? )?`([\w.]+)`", statement):
            if of or (not table and name in written):
                table = name
            else:
                table, column = name.split(".") if "." in name else (table, name)
                assert column in written[table], f"{table}.{column}"
    old = columns_of(lzma.decompress(FIRST_RELEASE.read_bytes()))
    first = {table: [RENAMED.get(name, name) for name in names] for table, names in old.items()}
    assert {table: [name for name in written[table] if name in first[table]] for table in first} == first
    added = {(table, name) for table in first for name in written[table] if name not in first[table]}
    assert added <= {(model._meta.model_name, name) for model, name in LATER}, "a file of the first release lacks it"


def test_transfer_file_is_private_and_replaces_nothing(full, exported):
    path = exported("ada")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(CommandError, match="there already"):
        exported("ada")
    said = io.StringIO()
    call_command("exportagent", "ada", stdout=said)
    assert said.getvalue() == path.read_text(encoding="utf-8")
    assert "digest" not in said.getvalue()


def test_transfer_of_an_earlier_version_is_read(full, exported, tmp_path):
    old = []
    for line in exported("ada").read_text().rstrip("\n").split("\n"):
        entry = json.loads(line)
        if entry.get("table") in ("episode", "decision", "procedure", "censor"):
            assert entry["row"].pop("retired_at", 0) is None
            assert entry["row"].pop("endorsed", 0) is False
        old.append(json.dumps(entry))
    path = tmp_path / "old.jsonl"
    path.write_text("\n".join(old) + "\n")
    import_agent(path, slug="copy")
    copied = Procedure.objects.get(agent__slug="copy")
    assert (copied.retired_at, copied.endorsed) == (None, False)


FUTURE = (timezone.now() + timedelta(days=900)).isoformat()
WRONG = (
    None, True, 0, -1, 10**400, 2**31, 1.5, -0.0, 1e300, "", " ", "\u200b", "x", "9" * 5_000, "2026-01-01",
    "2026-01-01T00:00:00",
    "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", FUTURE, "00000000-0000-0000-0000-000000000000", [],
    [None], [1],
    [[]], ["x" * 300], {}, {"a": 1}, {"type": "event", "id": "9" * 5_000}, {"valid_until": 7},
)  # fmt: skip


def refused_or_taken(path):
    """What an import of `path` says, after undoing it; "" when it is taken. Nothing else may come of it."""
    try:
        with transaction.atomic():
            import_agent(path, slug="copy")
            transaction.set_rollback(True)
    except CommandError as error:
        return str(error)
    return ""


def test_transfer_field_of_another_type_is_refused_by_line_and_name(lines, tmp_path):
    """No value of any field is a traceback, and what is refused says where it is."""
    path = tmp_path / "wrong.jsonl"
    before = {model: model._default_manager.count() for model in (Agent, *TABLES, SearchItem, AuditEvent)}
    rng = random.Random(1)
    refused = 0
    tables = {json.loads(line).get("table"): place for place, line in reversed(list(enumerate(lines)))}
    for table, place in tables.items():
        entry = json.loads(lines[place])
        holder = entry["row"] if table else entry.get("agent", entry.get("end"))
        for field in holder:
            for value in rng.sample(WRONG, scaled(1, len(WRONG))):
                spoilt = json.loads(lines[place])
                (spoilt["row"] if table else spoilt.get("agent", spoilt.get("end")))[field] = value
                path.write_text("".join([*lines[:place], json.dumps(spoilt) + "\n", *lines[place + 1 :]]))
                if not (said := refused_or_taken(path)):
                    continue
                refused += 1
                assert "\n" not in said
                assert said.startswith("wrong.jsonl: "), said
                whole = (
                    "Agent with", "slug", "of its event", "of another persona", "of another project", "not as many",
                    "last line",
                )  # fmt: skip
                assert re.search(r"Line \d+: ", said) or any(words in said for words in whole), (
                    table,
                    field,
                    value,
                    said,
                )
                named = field in said or (table or "") in said or any(words in said for words in whole)
                assert named, (table, field, value, said)
    assert refused > scaled(100, 3_000)
    assert {model: model._default_manager.count() for model in before} == before


def spoilt_files(raw):
    """Files that are no export any more, by what was done to them."""
    lines = raw.splitlines(keepends=True)
    first = json.loads(lines[1])
    yield from ((f"cut at {share}", raw[: len(raw) * share // 100]) for share in (1, 10, 50, 90, 99))
    yield "binary", bytes(range(256)) * 40
    yield "compressed", gzip.compress(raw)
    yield "utf-16", raw.decode().encode("utf-16")
    yield "latin-1", raw.replace("ë".encode(), b"\xeb")
    yield "a byte order mark", b"\xef\xbb\xbf" + raw
    yield "one line", raw.replace(b"\n", b" ")
    yield "lines as a list", b"[" + b",".join(lines) + b"]"
    for name, text in (
        ("NaN", b"NaN"), ("Infinity", b"-Infinity"), ("too great", b"1e999"), ("digits", b"9" * 5_000),
        ("deep", b"[" * 900 + b"]" * 900), ("deeper", b"[" * 100_000 + b"]" * 100_000), ("half a pair", b'"\\ud800"'),
    ):  # fmt: skip
        yield name, lines[0] + b'{"table": "event", "row": {"metadata": ' + text + b"}}\n"
    yield "a table of another type", lines[0] + json.dumps({**first, "table": ["event"]}).encode() + b"\n"
    yield "a row of another type", lines[0] + json.dumps({**first, "row": [1]}).encode() + b"\n"
    yield "counts of another type", b"".join(lines[:-1]) + b'{"end": {"event": [1]}}\n'
    yield "no counts", b"".join(lines[:-1]) + b'{"end": 7}\n'


def test_transfer_of_a_damaged_file_is_refused_in_a_sentence(full, exported, tmp_path):
    raw = exported("ada").read_bytes()
    before = Agent.objects.count()
    for name, spoilt in spoilt_files(raw):
        path = tmp_path / "spoilt.jsonl"
        path.write_bytes(spoilt)
        said = refused_or_taken(path)
        assert re.match(r"spoilt\.jsonl: (Line \d+: )?.{10,}\. Nothing was stored\.$", said), (name, said)
    for path in (tmp_path, tmp_path / "none", Path("/proc/self/mem")):
        assert refused_or_taken(path), path
    assert Agent.objects.count() == before

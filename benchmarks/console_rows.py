"""Many rows of each table that the console reads, made by the database from one stored row of each.

What is made looks as the services would have left it: each fact with its change, its subject and its row of the index,
each event with its entry, its loop and its row of the index. Vectors of facts are random, events have none, so that
searching them is no measure; benchmarks.large measures that.
"""

import sys
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.latency import HOW, WHAT, WHO

LOOP = 20
"""Events of a loop."""
FAR = 1 << 62
A_SUBJECT = 50
"""Facts about one subject."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows: of memory, of pending items, and of the log."""

    facts: int = 100_000
    events: int = 1_000_000
    items: int = 5_000
    runs: int = 20_000
    logged: int = 200_000


def copies(row: Any, count: int, **changed: str) -> None:
    """Store `count` further rows like `row`. `changed` gives fields that differ, as SQL in which `n` counts from 0."""
    from django.db import connection

    meta = row._meta
    names = {field.name: field.column for field in meta.concrete_fields}
    unknown = changed.keys() - names.keys()
    if unknown:
        raise ValueError(f"{meta.label} has no field {sorted(unknown)}.")
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        # Some that the database generates are plain fields to Django.
        cursor.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attgenerated <> ''", [meta.db_table]
        )
        left = {column for (column,) in cursor.fetchall()} | {meta.pk.column}
        values = {
            column: changed.get(name, f"original.{quote(column)}")
            for name, column in names.items()
            if name in changed or column not in left
        }
        cursor.execute(
            f"INSERT INTO {quote(meta.db_table)} ({', '.join(map(quote, values))}) SELECT {', '.join(values.values())}"  # noqa: S608
            f" FROM {quote(meta.db_table)} original, generate_series(0, {count - 1}) n"
            f" WHERE original.{quote(meta.pk.column)} = '{row.pk}'"
        )


def one_of(words: list[str], number: str) -> str:
    """SQL for the word whose place is `number`, which may be any."""
    listed = ", ".join("'" + word.replace("'", "''") + "'" for word in words)
    return f"(ARRAY[{listed}])[1 + ({number}) % {len(words)}]"


def key(kind: str, number: str = "n") -> str:
    """SQL for the key of the row of this number."""
    return f"md5('{kind} ' || ({number}))::uuid"


def sentence(number: str = "n") -> str:
    """SQL for a sentence that no other number has."""
    parts = (one_of(WHO, number), "' says of case '", number, "': the '", one_of(WHAT, f"{number} / 7"), "' '")
    return f"({' || '.join(parts)} || {one_of(HOW, f'{number} / 3')} || '.')"


CATEGORY = one_of(["technical", "project", "person", "tool", "workflow"], "n")


def back(days: int, count: int) -> str:
    """SQL for a moment, spread evenly over the last `days` days, the last row the latest."""
    return f"now() - ({count} - n) * interval '{days * 86_400 / count:.6f} seconds'"


def filled(size: Size) -> dict[str, float]:
    """Fill the memory of the demo's agent, as the owner of the tables; seconds of each part."""
    from django.db import connection

    from identity.models import Agent, LogHorizon
    from identity.policy.sealed_tables import SEALED_TABLES
    from nousweb.database.postgres_roles import as_owner

    agent = Agent.objects.get(slug="marlow")
    took: dict[str, float] = {}
    with as_owner():
        for part in (_facts, _events, _items, _runs, _logs, _others):
            began = time.perf_counter()
            part(agent, size)
            took[part.__name__.strip("_")] = time.perf_counter() - began
            sys.stderr.write(f"{part.__name__.strip('_')}: {took[part.__name__.strip('_')]:.0f} s\n")
        # What was filled counts as sealed long ago.
        for table in SEALED_TABLES.values():
            LogHorizon.objects.filter(kind=table.name).update(floor=FAR)
        began = time.perf_counter()
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
        took["vacuum"] = time.perf_counter() - began
    return took


def _facts(agent: Any, size: Size) -> None:
    from memory.models import Fact, FactChange, SearchItem, Subject, SubjectAlias, SubjectChange

    count, subjects = size.facts, max(1, size.facts // A_SUBJECT)
    fact = Fact.objects.filter(agent=agent, persona="actor", active=True).latest("recorded_at")
    name = f"'Case ' || n || ' of the ' || {one_of(WHAT, 'n')}"
    subject = Subject.objects.filter(agent=agent, persona="actor").latest("created_at")
    copies(subject, subjects, id=key("subject"), name=name, created_at=back(90, subjects))
    alias = SubjectAlias.objects.filter(subject__agent=agent, persona="actor").latest("created_at")
    copies(
        alias, subjects, id=key("alias"), subject=key("subject"), spelling=name, key=f"lower({name})",
        meaning=f"lower({name})",
    )  # fmt: skip
    created = SubjectChange.objects.filter(subject__agent=agent, persona="actor").latest("at")
    copies(created, subjects, id=key("subject change"), subject=key("subject"), at=back(90, subjects))
    of = f"n / {A_SUBJECT}"
    about = f"'Case ' || {of} || ' of the ' || {one_of(WHAT, of)}"
    retired = f"CASE WHEN n % 10 = 9 THEN {back(90, count)} + interval '1 hour' END"
    copies(
        fact, count, id=key("fact"), content=sentence(), subject=about, subject_alias=key("alias", of),
        category=CATEGORY, confidence="0.5 + (n % 50) / 100.0",
        recorded_at=back(90, count), active="n % 10 <> 9", retired_at=retired, endorsed="n % 7 = 0",
        superseded_by=f"CASE WHEN n % 10 = 9 THEN {key('fact', 'n - 1')} END",
        confirmation_count="n % 4", last_confirmed_at=f"CASE WHEN n % 4 > 0 THEN {back(90, count)} END",
    )  # fmt: skip
    change = FactChange.objects.filter(fact__agent=agent, action="stored", fact__persona="actor").latest("at")
    copies(change, count, fact=key("fact"), at=back(90, count))
    row = SearchItem.objects.filter(agent=agent, persona="actor", item_type="fact").latest("recorded_at")
    numbers = "generate_series(1, vector_dims(original.embedding)) number"
    vector = f"(SELECT array_agg(random() - 0.5 + 0 * (n + number)) FROM {numbers})::halfvec"  # noqa: S608
    copies(
        row, count, item_id=f"{key('fact')}::text", text=sentence(), subject=about, recorded_at=back(90, count),
        happened_at=back(90, count), active="n % 10 <> 9", retired_at=retired, embedding=vector, passages="0",
        category=CATEGORY,
    )  # fmt: skip


def _events(agent: Any, size: Size) -> None:
    from memory.models import Event, EventSequence, LongTermEntry, LoopSummary, SearchItem

    # Past what the demo's own events reach.
    count, first = size.events, 10_000
    number = f"({agent.pk}::bigint << 36) + (n + {first}) * 2"
    event = Event.objects.filter(agent=agent, persona="actor").latest("ts")
    kinds = one_of(["user_input", "actor_output", "tool_call", "tool_result"], "n")
    loop = f"'case-' || n / {LOOP}"
    moment = back(90, count)
    when = {"ts": moment, "recorded_at": moment}
    copies(event, count, id=number, key="NULL", loop_id=loop, kind=kinds, content=sentence(), **when)
    entry = LongTermEntry.objects.get(event=event)
    copies(entry, count, event=number, loop_id=loop, text=sentence(), created_at=moment)
    loops = max(1, count // LOOP)
    summary = LoopSummary.objects.filter(agent=agent, persona="actor").exclude(closed_at=None).latest("last_event_at")
    places = f"generate_series(n * {LOOP}, n * {LOOP} + {LOOP - 1}) place"
    own = f"ARRAY(SELECT ({agent.pk}::bigint << 36) + (place + {first}) * 2 FROM {places})"  # noqa: S608
    copies(
        summary, loops, loop_id="'case-' || n", summary=sentence(), long_term_ids=own, event_count=str(LOOP),
        covered_events=str(LOOP), first_event_at=back(90, loops), last_event_at=back(90, loops),
        closed_at=back(90, loops),
    )  # fmt: skip
    row = SearchItem.objects.filter(agent=agent, persona="actor", item_type="event").latest("recorded_at")
    copies(
        row, count, item_id=f"({number})::text", kind=kinds, text=sentence(), loop_id=loop, position=number,
        recorded_at=moment, happened_at=moment, embedding="NULL", passages="0",
    )  # fmt: skip
    EventSequence.objects.filter(agent=agent, persona="actor").update(last=first + count)


def _items(agent: Any, size: Size) -> None:
    from identity.models import ChangeProposal
    from identity.principal import Principal
    from memory.models import MemoryReview
    from memory.services.facts import fact_learn

    reviews, proposals = size.items * 9 // 10, size.items // 10
    # Without a worker the demo asks nothing: a pair that opens a question.
    for content in ("The harbour's twin is in Graz.", "The harbour has its twin in Graz."):
        fact_learn(agent=agent, content=content, subject="harbour", by=Principal.of_system("benchmark"))
    review = MemoryReview.objects.pending().filter(agent=agent, kind="duplicate").latest("created_at")
    old, new = key("fact", "n * 10"), key("fact", "n * 10 + 1")
    copies(
        review, reviews, id=key("review"), old=old, new=new, about="'pair:benchmark:' || n", subject=sentence(),
        kind=one_of(["contradiction", "duplicate", "low_confidence", "relearned"], "n"), created_at=back(20, reviews),
    )  # fmt: skip
    proposal = ChangeProposal.objects.filter(agent=agent, status="pending").latest("created_at")
    copies(
        proposal, proposals, id=key("proposal"), content=f"original.content || chr(10) || '- ' || {sentence('n / 2')}",
        risk=one_of(["low", "medium", "high"], "n / 2"), created_at=back(20, proposals), reason=sentence(),
        expires_at="now() + interval '30 days'",
    )  # fmt: skip


def _runs(agent: Any, size: Size) -> None:
    from context.models import ContextRun, MemoryUsage

    count = size.runs
    run = ContextRun.objects.filter(agent=agent, persona="actor").exclude(responded_at=None).latest("created_at")
    copies(
        run, count, id=key("run"), session_id="'session-' || n / 8", input=sentence(), created_at=back(30, count),
        responded_at=back(30, count), tokens="300 + n % 700", duration_ms="20 + n % 80",
        outcome=one_of(["success", "failure", ""], "n"),
    )  # fmt: skip
    usage = MemoryUsage.objects.filter(agent=agent, persona="actor", item_type="fact").latest("at")
    told = f"{key('fact', f'(n * 7919) % {size.facts}')}::text"
    copies(
        usage, count * 10, run=key("run", "n / 10"), item_id=told, referenced="n % 3 = 0", at=back(30, count * 10),
        tokens="10 + n % 30",
    )  # fmt: skip


def _logs(agent: Any, size: Size) -> None:
    from identity.models import AuditEvent, Change, ChangeStream
    from identity.services.change_feed import streams_publish

    count, facts = size.logged, f"{key('fact', f'n % {size.facts}')}::text"
    record = AuditEvent.objects.filter(agent=agent, action="fact.store", persona="actor").latest("pk")
    copies(record, count, at=back(90, count), object_id=facts, object_label=sentence())
    streams_publish()
    change = Change.objects.filter(agent=agent, kind="fact.learned", persona="actor").latest("position")
    last = ChangeStream.objects.get(agent=agent, persona="actor").last
    copies(change, count, key=key("change"), object_id=facts, at=back(90, count), position=f"{last + 1} + n")
    ChangeStream.objects.filter(agent=agent, persona="actor").update(last=last + count)


def _others(agent: Any, size: Size) -> None:
    from memory.models import Decision, Episode, Procedure

    count = max(1, size.facts // 20)
    for model, text in ((Decision, "description"), (Episode, "title"), (Procedure, "name")):
        row = model._default_manager.filter(agent=agent, persona="actor").latest("created_at")
        when = {"created_at": back(90, count), "updated_at": back(90, count)}
        copies(row, count, id=key(model.__name__), **{text: sentence()}, **when)

"""What all erasures have in common: scope and receipt, the apps' erasers, the rows that quote, and the transaction.

Of known sources, jobs and import records only that a memory was erased is kept: no later import restores it.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import reduce, wraps
from operator import or_
from typing import Any, ParamSpec
from uuid import UUID

from django.db import connection, models, transaction
from django.db.models import CharField, Q
from django.db.models.functions import Cast
from django.utils.module_loading import import_string

from identity.models import Agent, AuditEvent, ChangeProposal, IdentityVersion
from identity.policy.changes import ERASURES
from identity.principal import Principal
from identity.services.audit import audit_draft
from identity.services.inbox_items import item_rows_erase
from memory.models import (
    Document,
    Event,
    Fact,
    FactChange,
    ImportedMemory,
    ItemType,
    Job,
    JudgeCall,
    KnownSource,
    LongTermEntry,
    MemoryReview,
    WorkingMemory,
)
from memory.registrations import erasers, large_tables
from memory.types import MEMORY_TYPES
from nousweb.lib import text_check
from nousweb.lib.characters import plain_text
from nousweb.lib.dated_lines import undated_parts
from nousweb.lib.distribution import is_distributed
from nousweb.lib.injection.scan import secrets_in
from nousweb.lib.prompt_escaping import escape_markup, fence_item, fence_line
from nousweb.lib.transactions import sql_change, sql_row, sql_rows, transaction_retried

NEEDLE_CHARACTERS = 60
"""So many characters from the beginning of a text are searched for, since quotes may be truncated."""
PART_CHARACTERS, PART_EVERY, MAX_PARTS = 40, 20, 200
"""Of a longer text, parts of so many characters are searched for too: one begins after each PART_EVERY characters (in
texts with more than MAX_PARTS of them, more sparsely), so that a quote of any 60 to 70 characters contains one. The
owner's functions that blank the audit trail do the same."""
MIN_NEEDLE_CHARACTERS = 8
"""Shorter texts are not searched for, since they are not specific; rows that quote them are found by the id only.

For the audit trail, functions of the tables' owner set a larger minimum.
"""
MIN_STRING_CHARACTERS, MAX_STRINGS = 20, 200
"""Strings in a document's value that are searched for: the longest MAX_STRINGS with at least so many characters."""


@dataclass(frozen=True, slots=True)
class QuoteScan:
    """Result of the scan of large tables before the agent is locked: keys of the rows that contain one of `needles`.

    Rows of transactions with the id `since` or a later one must be scanned again.
    """

    needles: list[str]
    since: str
    keys: Mapping[type[models.Model], list[Any]]


@dataclass(frozen=True, slots=True)
class Erasure:
    """The scope of an erasure: facts, documents and events of an agent with all texts that they ever had, of events
    longer ones and the `secrets`; all rows of a `project` or a `user`; or the whole agent, if there is none of these.
    """

    agent: Agent
    fact_ids: tuple[UUID, ...] = ()
    texts: tuple[str, ...] = ()
    quote_scan: QuoteScan | None = None
    project: str = ""
    user: str = ""
    document_ids: tuple[UUID, ...] = ()
    event_ids: tuple[int, ...] = ()
    secrets: frozenset[str] = frozenset()

    @property
    def of_agent(self) -> bool:
        return not self.items and not self.keys

    @property
    def keys(self) -> dict[str, str]:
        """The key of which all rows are erased, by its name; {} for none."""
        return {name: key for name, key in (("project", self.project), ("user", self.user)) if key}

    @property
    def items(self) -> dict[str, list[str]]:
        """The ids of the erased memories, by memory type."""
        ids = {ItemType.FACT: self.fact_ids, ItemType.DOCUMENT: self.document_ids, ItemType.EVENT: self.event_ids}
        return {str(kind): list(map(str, found)) for kind, found in ids.items() if found}

    @property
    def needles(self) -> list[str]:
        """Strings to search for in the JSON of other rows: ids, and the beginnings and parts of texts.

        Each text is searched for in the forms of prompts too, since agents may quote those.
        """
        return self._needles(parts_of)

    @property
    def beginnings(self) -> list[str]:
        """The `needles` without the later parts of texts, by which many rows are searched in a short time."""
        return self._needles(lambda text: [text[:NEEDLE_CHARACTERS]])

    def _needles(self, parts: Callable[[str], Iterable[str]]) -> list[str]:
        spelled = dict.fromkeys(spelling for text in self.texts for spelling in spellings_of(text))
        texts = (part for text in spelled for part in parts(text) if len(part) >= MIN_NEEDLE_CHARACTERS)
        escaped = (json.dumps(text, ensure_ascii=False)[1:-1] for text in (*texts, *sorted(self.secrets)))
        return [*map(str, (*self.fact_ids, *self.document_ids, *self.event_ids)), *dict.fromkeys(escaped)]


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of an erasure. `rows`: numbers of erased or blanked rows by table.

    `still_quoted`: numbers of rows by table that still quote an erased text and need a decision of their own: events,
    other memories, the identity, and audit records of decisions.
    """

    rows: dict[str, int]
    still_quoted: dict[str, int] = field(default_factory=dict)


def erasure_of(
    agent: Agent,
    facts: Sequence[Fact],
    documents: Sequence[Document] = (),
    *,
    events: Sequence[Event] = (),
    quote_scan: QuoteScan | None = None,
    project: str = "",
    user: str = "",
) -> Erasure:
    """Build the scope of an erasure. `documents` must contain all versions of each document."""
    # Contents that edits have replaced are searched for too.
    texts = {fact.content for fact in facts}
    changes = FactChange.objects.filter(fact__in=facts)
    texts |= {change.before["content"] for change in changes if isinstance(change.before.get("content"), str)}
    # What somebody said in few words, others say too.
    said = [event.content for event in events]
    said += LongTermEntry.objects.filter(agent=agent, event__in=events).values_list("text", flat=True)
    texts |= {text for text in said if len(text) >= MIN_STRING_CHARACTERS}
    said += [f"password: {event.content}" for event in events if " " not in event.content.strip()]
    said += [text for event in events for text in _named_strings(event.metadata)]
    strings: set[str] = set()
    for document in documents:
        strings |= {document.text, *_strings_of(document.value)}
    longest = sorted(
        (text for text in strings if len(text) >= MIN_STRING_CHARACTERS), key=lambda text: (-len(text), text)
    )
    texts.update(longest[:MAX_STRINGS])
    return Erasure(
        agent,
        tuple(fact.pk for fact in facts),
        tuple(sorted(texts)),
        quote_scan,
        project=project,
        user=user,
        document_ids=tuple(document.pk for document in documents),
        event_ids=tuple(event.pk for event in events),
        secrets=frozenset(secret for text in said for secret in secrets_in(text)),
    )


def _strings_of(value: Any) -> Iterator[str]:
    """Every string within a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings_of(one)


def _named_strings(value: Any, name: str = "") -> Iterator[str]:
    """Every string within a JSON value, after the name of its member."""
    if isinstance(value, str):
        yield f"{name}: {value}"
    elif isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else ((name, one) for one in value):
            yield from _named_strings(one, key)


def parts_of(text: str) -> Iterator[str]:
    """Parts of `text` by which a quote of it is found: its beginning and later parts."""
    yield text[:NEEDLE_CHARACTERS]
    if len(text) > NEEDLE_CHARACTERS:
        step = max(PART_EVERY, len(text) // MAX_PARTS)
        for start in range(NEEDLE_CHARACTERS // 2, len(text) - PART_CHARACTERS, step):
            yield text[start : start + PART_CHARACTERS]
        yield text[-PART_CHARACTERS:]


def spellings_of(text: str) -> tuple[str, ...]:
    """`text` as it is, on one line without invisible characters, and as prompts show it: within a line, as an item of
    one line or several, and the longest part of that between days."""
    line, item = " ".join(plain_text(text).split()), fence_item(text)
    part = max(undated_parts(item), key=len).strip()
    spellings = text, line, escape_markup(line), fence_line(text), item
    return (*spellings, part) if len(part) >= MIN_STRING_CHARACTERS else spellings


def scan_tables(
    agent: Agent, facts: Sequence[Fact], documents: Sequence[Document] = (), events: Sequence[Event] = ()
) -> QuoteScan:
    """Scan the large tables for rows that quote these facts, documents and events in their current state."""
    erasure = erasure_of(agent, facts, documents, events=events)
    # Taken before the scan: rows that are committed during it are scanned again later.
    (since,) = sql_row("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")
    # In a cluster each server counts its own transactions, so everything is scanned while the agent is locked.
    tables = () if is_distributed() else large_tables
    return QuoteScan(erasure.needles, since, {model: quoting_keys(model, erasure) for model in tables})


def working_memory_erase(erasure: Erasure) -> int:
    """Remove quoting items, threads and tasks from working memories; returns the number of changed rows."""
    quoting = rows_quoting(WorkingMemory, erasure).order_by("pk").select_for_update()
    for memory in quoting:
        memory.put(
            items=[item for item in memory.items if not _names(item, erasure)],
            open_threads=[thread for thread in memory.open_threads if not _names(thread, erasure)],
            task="" if _names(memory.task, erasure) else memory.task,
        )
    return len(quoting)


def quoting_sql(table: str) -> str:
    """SQL condition on rows of `table`: any column contains one of the needles, which are its only parameter."""
    # The row is written as text once, and not for each needle.
    told = f"(SELECT to_jsonb({table})::text AS told OFFSET 0) AS whole"
    return f"EXISTS (SELECT 1 FROM {told}, unnest(%s::text[]) needle WHERE strpos(whole.told, needle) > 0)"  # noqa: S608


def quoting_keys(model: type[models.Model], erasure: Erasure) -> list[Any]:
    """Keys of the agent's rows that quote the erased text, ascending. Rows of an earlier scan are not scanned again."""
    rows, quote_scan = rows_quoting(model, erasure), erasure.quote_scan
    found: set[Any] = set()
    if quote_scan is not None and quote_scan.needles == erasure.needles and model in quote_scan.keys:
        found.update(quote_scan.keys[model])
        table = connection.ops.quote_name(model._meta.db_table)
        rows = rows.extra(where=[f"age({table}.xmin) <= age(%s::xid8::xid)"], params=[quote_scan.since])  # noqa: S610
    return sorted(found.union(rows.values_list("pk", flat=True)))


def rows_quoting(model: type[models.Model], erasure: Erasure, needles: list[str] | None = None) -> models.QuerySet:
    """Rows of the agent that contain one of `needles`, by default any of the erasure."""
    table = connection.ops.quote_name(model._meta.db_table)
    rows = model._default_manager.filter(agent=erasure.agent)
    return rows.extra(where=[quoting_sql(table)], params=[erasure.needles if needles is None else needles])  # noqa: S610  (names of our own tables)


def still_quoted(erasure: Erasure) -> dict[str, int]:
    """Numbers of remaining rows that quote the erased text, by table, without zeros."""
    keeping: tuple[type[models.Model], ...] = (
        *(model for memory_type in MEMORY_TYPES.values() for model in (memory_type.model, *memory_type.tables)),
        WorkingMemory,
        IdentityVersion,
        ChangeProposal,
    )
    counts = {model._meta.model_name or "": rows_quoting(model, erasure).count() for model in keeping}
    # A blanked record keeps the id, so that the receipt can be found.
    trail = rows_quoting(AuditEvent, erasure).exclude(before=None, after=None, message="", object_label="")
    counts["auditevent"] = trail.exclude(action__in=ERASURES).count()
    return {name: count for name, count in counts.items() if count}


def _names(value: object, erasure: Erasure) -> bool:
    text = json.dumps(value, ensure_ascii=False)
    return any(needle in text for needle in erasure.needles)


ERASE = "memory.erase_memory"
MAX_REASON_CHARACTERS = 2_000
P = ParamSpec("P")


def erasing(service: Callable[P, tuple[Receipt, Erasure]]) -> Callable[P, Receipt]:
    """Decorator: run an erasure in one transaction, again after a deadlock with work that takes no agent lock, such as
    an embedding.

    Rows that still quote the text are counted after the transaction, when the locks are released.
    """

    @wraps(service)
    def run(*args: P.args, **kwargs: P.kwargs) -> Receipt:
        def work() -> tuple[Receipt, Erasure]:
            with transaction.atomic():
                return service(*args, **kwargs)

        receipt, erasure = transaction_retried(work)
        return receipt if erasure.of_agent else replace(receipt, still_quoted=still_quoted(erasure))

    return run


def reason_check(reason: str) -> str:
    """Validate the reason of an erasure, which is required. Raises Invalid."""
    return text_check("reason", reason, MAX_REASON_CHARACTERS, required=True)


def erasers_run(erasure: Erasure) -> Counter[str]:
    """Run all erasers; returns numbers of rows by table."""
    rows: Counter[str] = Counter()
    for path in erasers:
        rows.update(import_string(path)(erasure))
    return rows


OWNERS_TO_DELETE = (FactChange, Fact, Event, JudgeCall, IdentityVersion, Agent)
"""What the owner deletes with a whole agent: what only grows, and what that refers to."""
BY_THE_DATABASE = ("id", "at", "agent", "before", "after")
"""Columns of a receipt that the owner fills itself."""


def receipt_describe(
    *, by: Principal, action: str, target: models.Model, agent: Agent, reason: str, label: str
) -> dict[str, object]:
    """Who erases, why and what kind of thing, in the audit trail's terms."""
    draft = audit_draft(by=by, action=action, target=target, agent=agent, message=reason, label=label)
    columns = [column for column in draft._meta.concrete_fields if column.name not in BY_THE_DATABASE]
    return {column.attname: getattr(draft, column.attname) for column in columns}


def owner_erase(
    call: str, arguments: Sequence[Any], *, entry: Mapping[str, object], rows: Mapping[str, int]
) -> dict[str, int]:
    """Call a function of the tables' owner, which deletes rows, blanks what the audit trail says of them, and writes
    the receipt of `entry` and `rows`, its last argument; returns the rows by table, `rows` among them."""
    (done,) = sql_row(f"SELECT {call}", [*arguments, json.dumps({**entry, "rows": rows})])
    return json.loads(done) if isinstance(done, str) else done


SETTLED = timedelta(minutes=5)
"""An analysis that began before an erasure may end after it, so tables are analyzed again this long after it."""

_DUE = """
WITH last AS (
    SELECT max(receipt.at) AS at FROM unnest(%s::text[]) AS one
    CROSS JOIN LATERAL (SELECT at FROM identity_auditevent WHERE action = one ORDER BY id DESC LIMIT 1) receipt),
later AS (SELECT at, at + make_interval(secs => %s) AS settled FROM last),
due AS (SELECT CASE WHEN now() >= settled THEN settled ELSE at END AS since FROM later)
SELECT s.relname FROM pg_stat_user_tables s CROSS JOIN due
WHERE s.schemaname = current_schema()
  AND coalesce(greatest(s.last_analyze, s.last_autoanalyze), '-infinity') < due.since
  AND EXISTS (SELECT 1 FROM pg_stats p WHERE p.schemaname = s.schemaname AND p.tablename = s.relname)
ORDER BY s.relname
"""


def reanalyze_tables() -> int:
    """Analyze the tables again whose planner statistics are older than the last erasure; returns their number."""
    tables = sql_rows(_DUE, [list(ERASURES), SETTLED.total_seconds()])
    for table in tables:
        sql_change("SELECT nous_sample_renew(%s)", table)
    return len(tables)


BLANK = {
    "source_id": "",
    "content_hash": "",
    "item_id": "",
    "earlier_item_ids": [],
    "file": "",
    "outcome": ImportedMemory.Outcome.ERASED,
}


def imports_erase(erasure: Erasure) -> Mapping[str, int]:
    """Blank the provenance of facts and documents that are erased, and of the events of a project or user that is.

    That of one whose source said something else since is blanked too: an older export would bring it back.
    """
    gone = Q(pk__in=())
    for item_type, ids in erasure.items.items():
        gone |= Q(item_type=item_type) & (Q(item_id__in=ids) | Q(earlier_item_ids__overlap=ids))
    events = Event.objects.filter(agent=erasure.agent, pk__in=erasure.event_ids)
    if erasure.keys:
        events = Event.objects.filter(agent=erasure.agent, **erasure.keys)
        gone |= Q(item_type=ItemType.EVENT, item_id__in=events.values_list(Cast("pk", CharField())))
    ImportedMemory.objects.bulk_create(
        (
            ImportedMemory(
                agent=erasure.agent,
                persona=persona,
                system=ImportedMemory.AGENT,
                key=ImportedMemory.digest(str(key)),
                item_type=ItemType.EVENT,
                outcome=ImportedMemory.Outcome.ERASED,
            )
            for persona, key in events.exclude(key=None).values_list("persona", "key")
        ),
        ignore_conflicts=True,
    )
    return {"importedmemory": ImportedMemory.objects.filter(gone, agent=erasure.agent).update(**BLANK)}


def jobs_erase(erasure: Erasure) -> Mapping[str, int]:
    """Delete the jobs about an erased fact and about its reviews and those of an erased event, and the inbox rows of
    those reviews.

    The reviews themselves and their audit records are erased with it, since comments and verdicts may contain the text
    in other words. The jobs of an erased agent are deleted with the agent. Returns counts by table.
    """
    if not erasure.fact_ids and not erasure.event_ids:
        return {}
    keys = list(erasure.fact_ids)
    about = Q(old__in=keys) | Q(new__in=keys) | Q(facts__overlap=keys) | Q(pk__in=events_leave_reviews(erasure))
    reviews = MemoryReview.objects.filter(about, agent=erasure.agent)
    review_keys = [str(key) for key in reviews.values_list("pk", flat=True)]
    jobs = Job.objects.filter(subject_id__in=[*map(str, keys), *review_keys]).delete()[0]
    item_rows_erase([UUID(key) for key in review_keys])
    return {"job": jobs}


def events_leave_reviews(erasure: Erasure) -> list[UUID]:
    """Take erased events out of reviews that are about other memories too; returns those that are about them alone."""
    named = [[ItemType.EVENT.value, str(key)] for key in erasure.event_ids]
    about = reduce(or_, (Q(details__items__contains=[item]) for item in named), Q(pk__in=()))
    alone = []
    for review in MemoryReview.objects.filter(about, agent=erasure.agent):
        if others := [item for item in review.details["items"] if item not in named]:
            review.put(details={**review.details, "items": others})
        else:
            alone.append(review.pk)
    return alone


def proposals_unlink(erasure: Erasure) -> Mapping[str, int]:
    """Take the names of erased facts and events out of what proposals were learned from, whatever became of those."""
    proposals = (
        ChangeProposal.objects.filter(agent=erasure.agent).exclude(learned_from=[]).only("agent", "learned_from")
    )
    gone = {f"{kind} {key}" for kind, keys in erasure.items.items() for key in keys}
    if erasure.keys:
        named = [name[6:] for row in proposals for name in row.learned_from if name.startswith("event ")]
        events = Event.objects.filter(agent=erasure.agent, pk__in=named, **erasure.keys)
        gone |= {f"event {key}" for key in events.values_list("pk", flat=True)}
    naming = [row for row in proposals if not gone.isdisjoint(row.learned_from)]
    for row in naming:
        row.put(learned_from=[name for name in row.learned_from if name not in gone])
    return {"changeproposal": len(naming)}


def sources_erase(erasure: Erasure) -> Mapping[str, int]:
    """Forget the sources of erased facts and documents, since their addresses may tell what they said."""
    of_facts = Fact.objects.filter(agent=erasure.agent, pk__in=erasure.fact_ids, source_ref__isnull=False)
    of_documents = Document.objects.filter(agent=erasure.agent, pk__in=erasure.document_ids, source_ref__isnull=False)
    locators = {memory.source_locator for rows in (of_facts, of_documents) for memory in rows}
    return {"knownsource": KnownSource.objects.filter(agent=erasure.agent, locator__in=locators).delete()[0]}

"""Import memory exported by another tool: facts, events and proposals, through the services that all interfaces use.

Each thing that is stored leaves its provenance in the same transaction, so that a run that was stopped, at whatever
point, is run again and goes on, and a repeated one stores nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import Any

from django.db import transaction

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from identity.services.proposals import identity_propose
from memory.models import Fact, ImportedMemory, ItemType
from memory.services.events import events_record
from memory.services.facts import LearnResult, Precheck, fact_learn, fact_supersede
from memory.services.facts.comparable_facts import Vector
from memory.services.facts.reconcile import vectors_of
from memory.services.memory_write import learning_lock
from memory.transfer.import_dry_run import (
    MAX_ID_CHARACTERS,
    ImportRequest,
    KeyedEntry,
    Survey,
    entries_read,
    file_name,
    imported_hashes,
    is_new,
    keyed_batches,
    placing,
    provenance_draft,
    provenance_of,
    provenance_put,
    request_check,
    source_text,
)
from memory.transfer.readers.entry import EVENT, FACT, IDENTITY, REFUSED, SKIPPED, Entry
from nousweb.lib import Conflict, Invalid, NotAllowed

BATCH = 100
"""Facts of one transaction. Whoever else learns for the same memory waits for it."""


def facts_import(*, agent: Agent, batch: Sequence[KeyedEntry], request: ImportRequest, by: Principal) -> list[str]:
    """Learn a batch of facts in one transaction; the outcomes of those that were not imported before.

    Their embeddings are made at once, before the transaction. Raises with the place in the file.
    """
    vectors = vectors_of([keyed.entry.fields["content"] for keyed in batch])
    return _facts_learn(agent=agent, batch=batch, vectors=vectors, request=request, by=by)


@agent_transaction(of="agent")
def _facts_learn(
    *,
    agent: Agent,
    batch: Sequence[KeyedEntry],
    vectors: Sequence[Vector | None],
    request: ImportRequest,
    by: Principal,
) -> list[str]:
    learning_lock(agent, request.persona)
    # Another import may have come first.
    known = imported_hashes(agent, request, batch)
    rows = [
        _fact_learn(agent, keyed, vector, request, by, changed=keyed.key in known)
        for keyed, vector in zip(batch, vectors, strict=True)
        if is_new(keyed, known.get(keyed.key))
    ]
    provenance_put(rows)
    return [str(row.outcome) for row in rows]


def _fact_learn(
    agent: Agent, one: KeyedEntry, vector: Vector | None, request: ImportRequest, by: Principal, *, changed: bool
) -> ImportedMemory:
    """Learn a fact; its provenance, not stored yet."""
    fields = {**one.entry.fields, "source": source_text(request, one)}
    with placing([one.entry]):
        result = fact_learn(agent=agent, by=by, persona=request.persona, precheck=Precheck(vector), **fields)
    row = provenance_draft(agent, request, one, ItemType.FACT, str(result.fact.pk), outcome_of(result))
    if changed:
        earlier = provenance_of(agent, request, [one]).get()
        ids = dict.fromkeys([*earlier.earlier_item_ids, earlier.item_id])
        row.earlier_item_ids = [item_id for item_id in ids if item_id not in ("", row.item_id)]
        if _earlier_replace(agent, request, one, earlier.item_id, result.fact, by):
            row.outcome = Outcome.SUPERSEDED
    return row


def _earlier_replace(
    agent: Agent, request: ImportRequest, one: KeyedEntry, old_id: str, new: Fact, by: Principal
) -> bool:
    """Let a fact supersede the one that was imported from the same source before, unless people verified that one or it
    has a pending review."""
    # Only what the import itself made: what was known before, others told too.
    of_import = Fact.objects.filter(agent=agent, persona=request.persona, source=source_text(request, one), active=True)
    old = of_import.filter(pk=old_id).first()
    if old is None or not new.active or old.pk == new.pk:
        return False
    try:
        with transaction.atomic():
            fact_supersede(old=old, new=new, by=by, reason="Its source says this now.")
    except (Invalid, Conflict):
        return False
    return True


def outcome_of(result: LearnResult) -> str:
    """The outcome of a fact for its provenance; a quarantined fact is pending review."""
    return Outcome.QUEUED.value if result.waits else result.action


BATCHES = {EVENT: 500, FACT: BATCH, IDENTITY: 1}
"""Entries of one transaction."""
LOOKED_UP = 500
"""Entries that are looked up at once among those that came before."""
WATCHED = 500
"""Progress of the check is reported after so many entries."""
MAX_NAME_CHARACTERS = 200

Outcome = ImportedMemory.Outcome


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of the check, and then of storing. `share`: 0 to 1. `stored`, `known`: counts of entries so far; `known`
    ones were imported before. `position`: number of entries from the first on that are done."""

    share: float
    checking: bool
    stored: int = 0
    known: int = 0
    position: int = 0


Watch = Callable[[Progress], None]


@dataclass(slots=True)
class ImportReport:
    """The result of an import. `survey`: of its file. `outcomes`: numbers of new entries by kind and outcome. `known`:
    numbers of entries that were imported before. `changed`: numbers of those that have changed at their source since.
    """

    survey: Survey
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)

    @property
    def stored(self) -> int:
        return self.outcomes.total()


def memories_preview(
    *, agent: Agent, request: ImportRequest, by: Principal, watch: Watch = lambda progress: None
) -> ImportReport:
    """Preview an import without storing anything: the survey, and the entries that were imported before.

    Raises Invalid for an invalid option or a file that cannot be used, and OSError.
    """
    request = request_check(request)
    report = ImportReport(Survey(request.format))
    for batch in keyed_batches(_surveyed(agent, request, report.survey, by, watch), LOOKED_UP):
        held = imported_hashes(agent, request, batch)
        for one in batch:
            if one.key in held:
                _count_known(report, one, held[one.key])
    return report


def memories_import(
    *, agent: Agent, request: ImportRequest, by: Principal, watch: Watch = lambda progress: None
) -> ImportReport:
    """Import a file, as `request` says.

    1. The file is read through and checked as each service would, and nothing is stored when any of it is refused,
       unless the request leaves that out.
    2. Events are recorded in batches, as is their log's way. Facts are learned in their order, of 500 the oldest first:
       what is known is confirmed, what contradicts waits for people. None of them is verified by people. The models are
       asked for vectors only; a judge answers what is open later.
    3. What would be identity is proposed, and waits for a person.

    An entry whose source changed since is learned again if it is a fact and is left as it is otherwise. Raises Invalid
    with the places that are refused, Conflict, NotAllowed, NotFound or OSError; what was stored before stays.
    """
    request = request_check(request)
    report = ImportReport(memories_preview(agent=agent, request=request, by=by, watch=watch).survey)
    survey_check(report.survey, request)
    entries_import(agent=agent, request=request, by=by, report=report, watch=watch)
    import_record(agent=agent, request=request, by=by, report=report)
    return report


def survey_check(survey: Survey, request: ImportRequest) -> None:
    """Raise Invalid with the places of refused entries, unless the request skips them."""
    if not survey.refused or request.skip_refused:
        return
    places = "\n".join(f"  {line}" for line in survey.refusals)
    more = f"\n  and {survey.refused - len(survey.refusals):,} more" if survey.refused > len(survey.refusals) else ""
    raise Invalid(
        f"{survey.refused:,} entries cannot be imported, so nothing was stored:\n{places}{more}", field="file"
    )


def entries_import(
    *,
    agent: Agent,
    request: ImportRequest,
    by: Principal,
    report: ImportReport,
    begin: int = 0,
    uncounted: datetime | None = None,
    watch: Watch = lambda progress: None,
) -> None:
    """Store the entries of a file that was checked, from the one with the number `begin` on, and add to the report.

    Of those that are looked up first, the ones imported since `uncounted` are this import's own: it was cut short
    after it had stored them. They count as stored.
    `watch` is called after each transaction, and stops it by raising. Raises what `memories_import` raises.
    """
    if by.kind != "system":
        raise NotAllowed("Only the system itself can import: the content of a file is no person's statement.")
    total, author = report.survey.total, _author(request, by)
    position = begin

    def show() -> None:
        done, known = report.stored, report.known.total()
        watch(Progress((done + known) / max(total, 1), checking=False, stored=done, known=known, position=position))

    entries = (entry for entry, _ in entries_read(request, agent=agent, by=by) if entry.kind not in (SKIPPED, REFUSED))
    batches = keyed_batches(islice(entries, begin, None), LOOKED_UP)
    for found in batches:
        held = imported_hashes(agent, request, found)
        own = provenance_of(agent, request, found).values_list("key", "outcome")
        stored, uncounted = dict(own.filter(imported_at__gt=uncounted)) if uncounted else {}, None
        for kind, group in groupby(found, key=lambda one: one.entry.kind):
            new: list[KeyedEntry] = []
            for one in group:
                if is_new(one, held.get(one.key)):
                    new.append(one)
                elif one.key in stored:
                    report.outcomes[kind, stored[one.key]] += 1
                else:
                    _count_known(report, one, held[one.key])
            for batch in _ordered(kind, new):
                outcomes = STORES[kind](agent=agent, batch=batch, request=request, by=author)
                report.outcomes.update((kind, outcome) for outcome in outcomes)
                report.known[kind] += len(batch) - len(outcomes)
                show()
        position += len(found)
        show()


def _ordered(kind: str, new: list[KeyedEntry]) -> list[list[KeyedEntry]]:
    """Entries of one kind by transactions."""
    if kind == FACT:
        new = sorted(new, key=_since)
    return [new[start : start + BATCHES[kind]] for start in range(0, len(new), BATCHES[kind])]


def import_record(*, agent: Agent, request: ImportRequest, by: Principal, report: ImportReport) -> None:
    """Write to the audit trail what an import that is done stored, if anything."""
    if not report.stored:
        return
    audit_record(
        by=_author(request, by),
        action="memory.import",
        target=agent,
        agent=agent,
        persona=request.persona,
        after={
            "format": request.format,
            "file": file_name(request),
            "stored": {f"{kind} {outcome}": count for (kind, outcome), count in sorted(report.outcomes.items())},
            "known": report.known.total(),
            "skipped": report.survey.skipped.total(),
            "refused": report.survey.refused,
        },
    )


def _author(request: ImportRequest, by: Principal) -> Principal:
    return replace(by, name=f"{by.name}, import of {file_name(request)}"[:MAX_NAME_CHARACTERS])


def _surveyed(agent: Agent, request: ImportRequest, survey: Survey, by: Principal, watch: Watch) -> Iterator[Entry]:
    for number, (entry, share) in enumerate(entries_read(request, agent=agent, by=by)):
        survey.add(entry)
        if number % WATCHED == 0:
            watch(Progress(share, checking=True))
        if entry.kind not in (SKIPPED, REFUSED):
            yield entry


def _since(one: KeyedEntry) -> tuple[bool, datetime]:
    """By when a fact began: what came later in the world is learned later, so that it can take an old one's place."""
    moment = one.entry.fields.get("valid_from")
    return moment is not None, moment or datetime.min.replace(tzinfo=UTC)


def _count_known(report: ImportReport, one: KeyedEntry, content_hash: str) -> None:
    report.known[one.entry.kind] += 1
    if content_hash and content_hash != one.content_hash:
        report.changed[one.entry.kind] += 1


@agent_transaction(of="agent")
def _events_record(*, agent: Agent, batch: Sequence[KeyedEntry], request: ImportRequest, by: Principal) -> list[str]:
    events = [_event(one, request) for one in batch]
    with placing([one.entry for one in batch]):
        recorded = events_record(agent=agent, events=events, by=by, persona=request.persona)
    rows = [
        provenance_draft(agent, request, one, ItemType.EVENT, str(answer.event.pk), Outcome.STORED)
        for one, answer in zip(batch, recorded, strict=True)
        if not answer.repeated
    ]
    ImportedMemory.objects.bulk_create(rows, ignore_conflicts=True)
    return [row.outcome for row in rows]


@agent_transaction(of="agent")
def _identity_propose(*, agent: Agent, batch: Sequence[KeyedEntry], request: ImportRequest, by: Principal) -> list[str]:
    [one] = batch
    with placing([one.entry]):
        result = identity_propose(agent=agent, by=by, wait=True, **one.entry.fields)
    key = str(result.proposal.pk) if result.proposal else ""
    provenance_put([provenance_draft(agent, request, one, "changeproposal", key, result.action)])
    return [result.action]


def _event(one: KeyedEntry, request: ImportRequest) -> dict[str, Any]:
    """What is recorded: the event with where it is from, and a key by which the log knows it again."""
    entry = one.entry
    origin = {"system": request.format, "id": entry.source_id[:MAX_ID_CHARACTERS]}
    metadata = {**entry.fields.get("metadata", {}), "imported": origin}
    return entry.fields | {"metadata": metadata, "key": f"import:{request.format}:{one.key[:40]}"}


STORES: dict[str, Callable[..., list[str]]] = {
    EVENT: _events_record,
    FACT: facts_import,
    IDENTITY: _identity_propose,
}
"""Stores a batch of one kind; the outcomes of what was not imported before. Raises with the place in the file."""

"""Importing what another tool exported: facts, events and proposals, through the services that all doors go through.

Each thing that is stored leaves its provenance in the same transaction, so that a run that was stopped, at whatever
point, is run again and goes on, and a repeated one stores nothing.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from django.db import models, transaction

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from identity.services.proposals import identity_propose
from memory.embedding import EmbeddingFailed, embedder_named
from memory.models import Fact, ImportedMemory, ItemType
from memory.services.events import events_record
from memory.services.facts import Precheck, fact_learn, fact_supersede
from memory.services.facts.comparison_candidates import Vector
from memory.services.facts.locks import learning_lock
from memory.services.indexing import active_model
from memory.transfer.import_survey import WATCHED, ImportRequest, Survey, entries_read, file_survey, request_check
from memory.transfer.json_values import place_shown
from memory.transfer.readers.entry import EVENT, FACT, IDENTITY, REFUSED, SKIPPED, Entry, content_id
from nousweb.lib.errors import Conflict, DomainError, Invalid, NotAllowed
from nousweb.lib.text import is_blank

BATCHES = {EVENT: 500, FACT: 32, IDENTITY: 1}
"""Entries of one transaction. Whoever else learns for the same memory waits for one of facts."""
LOOKED_UP = 500
"""Entries that are looked up at once among those that came before."""
MAX_ID_CHARACTERS = 300
MAX_FILE_CHARACTERS = 255
MAX_SOURCE_CHARACTERS = 200
MAX_NAME_CHARACTERS = 200

Outcome = ImportedMemory.Outcome


@dataclass(frozen=True, slots=True)
class Progress:
    """The share that is done (0 to 1), of the check first and then of storing, and the counts so far."""

    share: float
    checking: bool
    stored: int = 0
    known: int = 0


@dataclass(slots=True)
class ImportReport:
    """What an import came to: the survey of its file, what became of new entries by kind and outcome, those that were
    imported before, and those that changed in their source although nothing stored ever changes."""

    survey: Survey
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)

    @property
    def stored(self) -> int:
        return self.outcomes.total()


@dataclass(frozen=True, slots=True)
class _Keyed:
    """An entry with the key and the hash of its content by which it is known again."""

    entry: Entry
    key: str
    content_hash: str


def memories_preview(
    *, agent: Agent, request: ImportRequest, by: Principal, watch: Callable[[Progress], None] = lambda progress: None
) -> ImportReport:
    """What an import would find, without storing anything: the survey, and what of it was imported before.

    Raises Invalid for a choice, or a file that cannot be used at all, and OSError.
    """
    request = request_check(request)
    report = ImportReport(Survey(request.format))
    for batch in _batches(_surveyed(request, report.survey, by, watch), LOOKED_UP):
        held = _held(agent, request, batch)
        for one in batch:
            content_hash = held.get(one.key)
            if content_hash is None:
                continue
            report.known[one.entry.kind] += 1
            if content_hash and content_hash != one.content_hash:
                report.changed[one.entry.kind] += 1
    return report


def memories_import(
    *, agent: Agent, request: ImportRequest, by: Principal, watch: Callable[[Progress], None] = lambda progress: None
) -> ImportReport:
    """Import a file, as `request` says.

    1. The file is read through and checked as each service would, and nothing is stored when any of it is refused,
       unless the request leaves that out.
    2. Events are recorded in batches, as is their log's way. Facts are learned one by one, of 500 the oldest first:
       what is known is confirmed, what contradicts waits for people. None of them is people's word. The models are
       asked for vectors only; a judge answers what is open later.
    3. What would be identity is proposed, and waits for a person.

    An entry whose source changed since is learned again if it is a fact and is left as it is otherwise. Raises Invalid
    with the places that are refused, Conflict, NotAllowed, NotFound or OSError; what was stored before stays.
    """
    if by.kind != "system":
        raise NotAllowed("Only the product itself imports: what came with a file is nobody's word.")
    request = request_check(request)
    survey = file_survey(request, by=by, watch=lambda share: watch(Progress(share, checking=True)))
    if survey.refused and not request.skip_refused:
        places = "\n".join(f"  {line}" for line in survey.refusals)
        more = (
            f"\n  and {survey.refused - len(survey.refusals):,} more" if survey.refused > len(survey.refusals) else ""
        )
        raise Invalid(
            f"{survey.refused:,} entries cannot be imported, so nothing was stored:\n{places}{more}", field="file"
        )
    report = ImportReport(survey)
    author = replace(by, name=f"{by.name}, import of {_file_name(request)}"[:MAX_NAME_CHARACTERS])

    def show() -> None:
        done, known = report.stored, report.known.total()
        watch(Progress((done + known) / max(survey.total, 1), checking=False, stored=done, known=known))

    entries = (entry for entry, _ in entries_read(request, by=by) if entry.kind not in (SKIPPED, REFUSED))
    for found in _batches(entries, LOOKED_UP):
        held = _held(agent, request, found)
        for kind, group in groupby(found, key=lambda one: one.entry.kind):
            new: list[_Keyed] = []
            for one in group:
                if _is_new(one, held.get(one.key)):
                    new.append(one)
                else:
                    _count_known(report, one, held[one.key])
            if kind == FACT:
                new.sort(key=_since)
            for start in range(0, len(new), BATCHES[kind]):
                batch = new[start : start + BATCHES[kind]]
                _store(agent=agent, batch=batch, request=request, by=author, report=report)
                show()
        show()
    if report.stored:
        audit_record(
            by=author,
            action="memory.import",
            target=agent,
            agent=agent,
            persona=request.persona,
            after={
                "format": request.format,
                "file": _file_name(request),
                "stored": {f"{kind} {outcome}": count for (kind, outcome), count in sorted(report.outcomes.items())},
                "known": report.known.total(),
                "skipped": survey.skipped.total(),
                "refused": survey.refused,
            },
        )
    return report


def _surveyed(
    request: ImportRequest, survey: Survey, by: Principal, watch: Callable[[Progress], None]
) -> Iterator[Entry]:
    for number, (entry, share) in enumerate(entries_read(request, by=by)):
        survey.add(entry)
        if number % WATCHED == 0:
            watch(Progress(share, checking=True))
        if entry.kind not in (SKIPPED, REFUSED):
            yield entry


def _batches(entries: Iterator[Entry], size: int) -> Iterator[list[_Keyed]]:
    """Entries with their keys, so many at a time, each key once in a batch."""
    batch: dict[str, _Keyed] = {}
    for entry in entries:
        key = hashlib.sha256(f"{entry.kind}\0{entry.source_id}".encode()).hexdigest()
        content_hash = content_id(entry.fields["content"], entry.fields.get("section"))
        if key in batch or len(batch) >= size:
            yield list(batch.values())
            batch = {}
        batch[key] = _Keyed(entry, key, content_hash)
    if batch:
        yield list(batch.values())


def _held(agent: Agent, request: ImportRequest, batch: Sequence[_Keyed]) -> dict[str, str]:
    """The digests of those that were imported before, by key; "" of what was erased since."""
    return dict(_provenance_of(agent, request, batch).values_list("key", "content_hash"))


def _since(one: _Keyed) -> tuple[bool, datetime]:
    """By when a fact began: what came later in the world is learned later, so that it can take an old one's place."""
    moment = one.entry.fields.get("valid_from")
    return moment is not None, moment or datetime.min.replace(tzinfo=UTC)


def _is_new(one: _Keyed, content_hash: str | None) -> bool:
    """Whether it has to be stored: what is not known, and facts that say something else than they did."""
    return content_hash is None or (one.entry.kind == FACT and content_hash not in ("", one.content_hash))


def _count_known(report: ImportReport, one: _Keyed, content_hash: str) -> None:
    report.known[one.entry.kind] += 1
    if content_hash and content_hash != one.content_hash:
        report.changed[one.entry.kind] += 1


def _store(*, agent: Agent, batch: list[_Keyed], request: ImportRequest, by: Principal, report: ImportReport) -> None:
    """Store a batch of one kind. Raises what its service raises, with the place in the file."""
    kind = batch[0].entry.kind
    if kind == FACT:
        found = _facts_learn(agent=agent, batch=batch, vectors=_vectors(batch), request=request, by=by)
    elif kind == EVENT:
        found = _events_record(agent=agent, batch=batch, request=request, by=by)
    else:
        found = _identity_propose(agent=agent, one=batch[0], request=request, by=by)
    report.outcomes.update((kind, outcome) for outcome in found)
    report.known[kind] += len(batch) - len(found)


@agent_transaction(of="agent")
def _facts_learn(
    *, agent: Agent, batch: list[_Keyed], vectors: Sequence[Vector | None], request: ImportRequest, by: Principal
) -> list[str]:
    learning_lock(agent, request.persona)
    # Another import may have come first.
    held = _held(agent, request, batch)
    outcomes = []
    for one, vector in zip(batch, vectors, strict=True):
        if not _is_new(one, held.get(one.key)):
            continue
        fields = {**one.entry.fields, "source": _source(request, one)}
        try:
            result = fact_learn(agent=agent, by=by, persona=request.persona, precheck=Precheck(vector), **fields)
        except (Invalid, Conflict) as error:
            raise _placed(error, one) from error
        row = _provenance(agent, request, one, ItemType.FACT, str(result.fact.pk), result.action)
        if one.key in held:
            earlier = _provenance_of(agent, request, [one]).get()
            ids = dict.fromkeys([*earlier.earlier_item_ids, earlier.item_id])
            row.earlier_item_ids = [item_id for item_id in ids if item_id not in ("", row.item_id)]
            if _earlier_replace(agent, request, one, earlier.item_id, result.fact, by):
                row.outcome = Outcome.SUPERSEDED
        _provenance_put(row)
        outcomes.append(str(row.outcome))
    return outcomes


def _earlier_replace(agent: Agent, request: ImportRequest, one: _Keyed, old_id: str, new: Fact, by: Principal) -> bool:
    """Let a fact take the place of what its source said before. What is people's word, or asked about, stays."""
    # Only what the import itself made: what was known before, others told too.
    of_import = Fact.objects.filter(agent=agent, persona=request.persona, source=_source(request, one), active=True)
    old = of_import.filter(pk=old_id).first()
    if old is None or not new.active or old.pk == new.pk:
        return False
    try:
        with transaction.atomic():
            fact_supersede(old=old, new=new, by=by, reason="Its source says this now.")
    except (Invalid, Conflict):
        return False
    return True


@agent_transaction(of="agent")
def _events_record(*, agent: Agent, batch: list[_Keyed], request: ImportRequest, by: Principal) -> list[str]:
    events = [_event(one, request) for one in batch]
    try:
        recorded = events_record(agent=agent, events=events, by=by, persona=request.persona)
    except (Invalid, Conflict) as error:
        raise _placed(error, _named(error.detail, batch)) from error
    rows = [
        _provenance(agent, request, one, ItemType.EVENT, str(answer.event.pk), Outcome.STORED)
        for one, answer in zip(batch, recorded, strict=True)
        if not answer.repeated
    ]
    ImportedMemory.objects.bulk_create(rows, ignore_conflicts=True)
    return [row.outcome for row in rows]


@agent_transaction(of="agent")
def _identity_propose(*, agent: Agent, one: _Keyed, request: ImportRequest, by: Principal) -> list[str]:
    try:
        result = identity_propose(agent=agent, by=by, wait=True, **one.entry.fields)
    except (Invalid, Conflict) as error:
        raise _placed(error, one) from error
    key = str(result.proposal.pk) if result.proposal else ""
    _provenance_put(_provenance(agent, request, one, "changeproposal", key, result.action))
    return [result.action]


def _source(request: ImportRequest, one: _Keyed) -> str:
    """What a fact says of where it is from."""
    given: str = one.entry.fields.get("source", "")
    return given or f"{request.format} {one.entry.source_id}"[:MAX_SOURCE_CHARACTERS]


def _event(one: _Keyed, request: ImportRequest) -> dict[str, Any]:
    """What is recorded: the event with where it is from, and a key by which the log knows it again."""
    entry = one.entry
    origin = {"system": request.format, "id": entry.source_id[:MAX_ID_CHARACTERS]}
    metadata = {**entry.fields.get("metadata", {}), "imported": origin}
    return entry.fields | {"metadata": metadata, "key": f"import:{request.format}:{one.key[:40]}"}


def _vectors(batch: Sequence[_Keyed]) -> list[Vector | None]:
    """The embeddings of facts, all at once; None of each when the model cannot be reached."""
    texts = [one.entry.fields["content"] for one in batch]
    try:
        model = active_model()
        found = embedder_named(model.name).embed_documents(texts)
    except EmbeddingFailed:
        return [None] * len(batch)
    return [Vector(tuple(float(number) for number in numbers), model.name) for numbers in found]


def _provenance_put(row: ImportedMemory) -> None:
    ImportedMemory.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["agent", "persona", "system", "key"],
        update_fields=[
            "source_id", "content_hash", "item_type", "item_id", "earlier_item_ids", "outcome", "file", "imported_at",
        ],
    )  # fmt: skip


def _provenance_of(agent: Agent, request: ImportRequest, batch: Sequence[_Keyed]) -> models.QuerySet[ImportedMemory]:
    return ImportedMemory.objects.filter(
        agent=agent, persona=request.persona, system=request.format, key__in=[one.key for one in batch]
    )


def _provenance(
    agent: Agent, request: ImportRequest, one: _Keyed, item_type: str, item_id: str, outcome: str
) -> ImportedMemory:
    shown = one.entry.source_id[:MAX_ID_CHARACTERS]
    return ImportedMemory(
        agent=agent,
        persona=request.persona,
        system=request.format,
        key=one.key,
        source_id="" if is_blank(shown) else shown,
        content_hash=one.content_hash,
        item_type=item_type,
        item_id=item_id,
        outcome=outcome,
        file=_file_name(request),
    )


def _file_name(request: ImportRequest) -> str:
    return request.path.name[-MAX_FILE_CHARACTERS:]


def _named(detail: str, batch: Sequence[_Keyed]) -> _Keyed:
    """The entry that a refusal names as `events[i]`; the first one where it names none."""
    number = detail.partition("events[")[2].partition("]")[0]
    place = int(number) if number.isdecimal() else 0
    return batch[place] if place < len(batch) else batch[0]


def _placed(error: DomainError, one: _Keyed) -> DomainError:
    """The refusal with the entry's place in the file."""
    detail = error.detail
    if detail.startswith("events["):
        detail = detail.partition("]")[2].lstrip(".")
    return type(error)(f"{place_shown(one.entry.place)}: {detail}", **error.extra)

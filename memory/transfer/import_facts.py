"""Import facts in bulk: learned like an agent's own, with their provenance in the same transaction."""

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Self

from django.db import transaction

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from memory.embedding import EmbeddingFailed, embedder_named
from memory.models import Fact, ImportedMemory, ItemType
from memory.services.facts import LearnResult, Precheck, fact_learn, fact_supersede
from memory.services.facts.candidate_index import MAX_INDEXED_FACTS, CandidateIndex
from memory.services.facts.comparison_candidates import Vector
from memory.services.facts.learn_many import FactInput, facts_learn
from memory.services.facts.locks import learning_lock
from memory.services.search_index.row_embedding import active_model
from memory.transfer.import_dry_run import ImportRequest
from memory.transfer.import_provenance import (
    KeyedEntry,
    imported_hashes,
    is_new,
    named_entry,
    placed_error,
    provenance_draft,
    provenance_of,
    provenance_put,
    source_text,
)
from nousweb.lib.errors import Conflict, Invalid

BATCH = 100
"""Facts of one transaction. Whoever else learns for the same memory waits for it."""
WORTH_HOLDING = 50
"""The facts of a memory are read into an index where at least one is imported for so many."""
KEPT_SECONDS = 120.0
"""How long the index of one slice waits for the next one."""

Outcome = ImportedMemory.Outcome
Vectors = Sequence[Vector | None]


@dataclass
class FactImport:
    """The facts of one import, of which there are about `expected`, into one memory."""

    agent: Agent
    request: ImportRequest
    by: Principal
    expected: int
    _index: CandidateIndex | None = field(default=None, init=False)
    _holds: bool | None = field(default=None, init=False)
    _model: str = field(default="", init=False)
    _ahead: dict[tuple[str, str, str], tuple[Future[list[Vector | None]], int]] = field(
        default_factory=dict, init=False
    )
    _thread: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="import-embedding"), init=False
    )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()
        self._thread.shutdown()

    def embed_ahead(self, entries: Iterable[KeyedEntry]) -> None:
        """Begin to make the vectors of facts that are stored later, while those before them are."""
        facts = list(entries)
        try:
            self._model = active_model().name
        except EmbeddingFailed:
            return
        for begin in range(0, len(facts), BATCH):
            batch = facts[begin : begin + BATCH]
            made = self._thread.submit(_vectors, self._model, batch)
            self._ahead |= {(self._model, one.key, one.content_hash): (made, place) for place, one in enumerate(batch)}

    def embedded(self, batch: Sequence[KeyedEntry]) -> Vectors:
        """The vectors of a batch, made ahead or now; None of each when the model cannot be reached."""
        made = [self._ahead.pop((self._model, one.key, one.content_hash), None) for one in batch]
        if missing := [one for one, found in zip(batch, made, strict=True) if found is None]:
            self.embed_ahead(missing)
            again = [self._ahead.pop((self._model, one.key, one.content_hash), None) for one in missing]
            made = [found or again.pop(0) for found in made]
        return [found[0].result()[found[1]] if found else None for found in made]

    def _clear(self) -> None:
        for made, _ in self._ahead.values():
            made.cancel()
        self._ahead.clear()

    def store(self, batch: list[KeyedEntry]) -> list[str]:
        """Learn a batch; the outcomes of what was not imported before. Raises with the place in the file."""
        vectors = self.embedded(batch)
        models = {vector.model for vector in vectors if vector is not None}
        index = self._index_of(models.pop()) if len(models) == 1 else None
        return import_facts_learn(
            agent=self.agent, batch=batch, vectors=vectors, request=self.request, by=self.by, index=index
        )

    def _index_of(self, model: str) -> CandidateIndex | None:
        if self._holds is None:
            facts = Fact.objects.active().filter(agent=self.agent, persona=self.request.persona).count()
            self._holds = facts <= self.expected * WORTH_HOLDING and facts + self.expected <= MAX_INDEXED_FACTS
        if not self._holds:
            return None
        if self._index is None or self._index.model != model:
            self._index = _kept.take(self.agent, self.request.persona, model)
        return self._index

    def keep(self) -> None:
        """Leave the index to a later slice of the import, which reads what has changed since, for a while."""
        if self._index is not None:
            _kept.leave(self._index)
            self._index = None


class _KeptIndex:
    """The index of the last slice, for the next one in this process; given up when none comes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._index: CandidateIndex | None = None
        self._timer: threading.Timer | None = None

    def take(self, agent: Agent, persona: str, model: str) -> CandidateIndex:
        with self._lock:
            found, self._index = self._index, None
            if self._timer is not None:
                self._timer.cancel()
        if found is not None and (found.agent.pk, found.persona, found.model) == (agent.pk, persona, model):
            found.agent = agent
            return found
        return CandidateIndex(agent, persona, model)

    def leave(self, index: CandidateIndex) -> None:
        with self._lock:
            self._index = index
            if self._timer is not None:
                self._timer.cancel()
            self._timer = threading.Timer(KEPT_SECONDS, self._give_up, [index])
            self._timer.daemon = True
            self._timer.start()

    def _give_up(self, index: CandidateIndex) -> None:
        with self._lock:
            if self._index is index:
                self._index = None


_kept = _KeptIndex()


def _vectors(model: str, batch: Sequence[KeyedEntry]) -> list[Vector | None]:
    """The embeddings of facts, all at once; None of each when the model cannot be reached."""
    try:
        found = embedder_named(model).embed_documents([one.entry.fields["content"] for one in batch])
    except EmbeddingFailed:
        return [None] * len(batch)
    return [Vector(tuple(float(number) for number in numbers), model) for numbers in found]


@agent_transaction(of="agent")
def import_facts_learn(
    *,
    agent: Agent,
    batch: list[KeyedEntry],
    vectors: Vectors,
    request: ImportRequest,
    by: Principal,
    index: CandidateIndex | None = None,
) -> list[str]:
    learning_lock(agent, request.persona)
    # Another import may have come first.
    held = imported_hashes(agent, request, batch)
    new = [(one, vector) for one, vector in zip(batch, vectors, strict=True) if is_new(one, held.get(one.key))]
    rows: list[ImportedMemory] = []
    # What its source changed since takes the place of what it was, before what comes after it is compared.
    for changed, group in groupby(new, key=lambda pair: pair[0].key in held):
        pairs = list(group)
        if changed or index is None or any(vector is None for _, vector in pairs):
            rows.extend(_fact_learn(agent, one, vector, request, by, changed) for one, vector in pairs)
            continue
        inputs = [FactInput(_fact_fields(request, one), vector) for one, vector in pairs if vector is not None]
        try:
            results = facts_learn(agent=agent, inputs=inputs, by=by, index=index)
        except (Invalid, Conflict) as error:
            raise placed_error(error, named_entry(error.detail, [one for one, _ in pairs])) from error
        rows.extend(
            provenance_draft(agent, request, one, ItemType.FACT, str(result.fact.pk), outcome_of(result))
            for (one, _), result in zip(pairs, results, strict=True)
        )
    provenance_put(rows)
    return [str(row.outcome) for row in rows]


def _fact_fields(request: ImportRequest, one: KeyedEntry) -> dict[str, Any]:
    return {**one.entry.fields, "source": source_text(request, one)}


def _fact_learn(
    agent: Agent, one: KeyedEntry, vector: Vector | None, request: ImportRequest, by: Principal, changed: bool
) -> ImportedMemory:
    """Learn a fact by itself; its provenance, not stored yet."""
    fields = _fact_fields(request, one)
    try:
        result = fact_learn(agent=agent, by=by, persona=request.persona, precheck=Precheck(vector), **fields)
    except (Invalid, Conflict) as error:
        raise placed_error(error, one) from error
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
    return Outcome.QUEUED.value if result.action == "held" else result.action

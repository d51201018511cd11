"""Import facts: learned like an agent's own, with their provenance in the same transaction."""

from collections.abc import Sequence

from django.db import transaction

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from memory.embedding import EmbeddingFailed, embedder_named
from memory.models import Fact, ImportedMemory, ItemType
from memory.services.facts import LearnResult, Precheck, fact_learn, fact_supersede
from memory.services.facts.comparable_facts import Vector
from memory.services.memory_write import learning_lock
from memory.services.search_index.row_embedding import active_model
from memory.transfer.import_dry_run import ImportRequest
from memory.transfer.import_provenance import (
    KeyedEntry,
    imported_hashes,
    is_new,
    placed_error,
    provenance_draft,
    provenance_of,
    provenance_put,
    source_text,
)
from nousweb.lib import Conflict, Invalid

BATCH = 100
"""Facts of one transaction. Whoever else learns for the same memory waits for it."""

Outcome = ImportedMemory.Outcome


def facts_import(*, agent: Agent, batch: Sequence[KeyedEntry], request: ImportRequest, by: Principal) -> list[str]:
    """Learn a batch of facts in one transaction; the outcomes of those that were not imported before.

    Their embeddings are made at once, before the transaction. Raises with the place in the file.
    """
    return _facts_learn(agent=agent, batch=batch, vectors=_vectors(batch), request=request, by=by)


def _vectors(batch: Sequence[KeyedEntry]) -> list[Vector | None]:
    """The embeddings of facts; None of each if the model cannot be reached."""
    try:
        model = active_model().name
        found = embedder_named(model).embed_documents([keyed.entry.fields["content"] for keyed in batch])
    except EmbeddingFailed:
        return [None] * len(batch)
    return [Vector(tuple(float(number) for number in numbers), model) for numbers in found]


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
    return Outcome.QUEUED.value if result.waits else result.action

"""Store new facts: rows, history, search index with vectors, audit trail and change feed."""

from collections.abc import Sequence

from django.db import connection

from identity.principal import Principal
from identity.services.audit import audit_record_many
from memory.jobs.queue import job_queue
from memory.models import Fact, FactChange, ItemType
from memory.models.project_scope import carried_keys
from memory.services.facts.comparison_candidates import Vector, search_table
from memory.services.facts.history import fact_change_draft
from memory.services.search_index.writer import index_put
from memory.services.subjects.registry import alias_enter
from memory.subjects.spelling import key_of
from memory.types import entry_of

_VECTORS_PUT = """
UPDATE {table} AS item SET embedding = put.vector::halfvec, model = put.model, status = 'ready', error = '',
    due_at = NULL
FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]) AS put (item_id, text, vector, model)
WHERE item.agent_id = %s AND item.item_type = %s AND item.item_id = put.item_id AND item.text = put.text
AND item.status = 'pending' AND EXISTS (SELECT 1 FROM memory_embeddingmodel WHERE state = 'active' AND name = put.model)
"""


def alias_assign(fact: Fact, by: Principal) -> None:
    """Set `subject_alias` of the fact; a spelling that is not registered yet is entered. Call it under the learning
    lock."""
    # The alias was looked up under the learning lock, so it is current.
    if fact.subject_alias is None or fact.subject_alias.key != key_of(fact.subject):
        fact.subject_alias = alias_enter(
            agent=fact.agent, persona=fact.persona, spelling=fact.subject, by=by, category=fact.category
        )


def facts_store(facts: Sequence[tuple[Fact, Vector | None]], *, by: Principal, unjudged: bool = False) -> None:
    """Store facts of one memory in order, each with the embedding of its content if that is known. Call it under the
    learning lock, in the transaction that compared them. Facts without an embedding, or `unjudged`, are checked later.
    """
    if not facts:
        return
    rows = [fact for fact, _ in facts]
    Fact.objects.bulk_create(rows)
    FactChange.objects.bulk_create(fact_change_draft(fact, FactChange.Action.STORED, by) for fact in rows)
    index_put([entry_of(fact) for fact in rows], notify=any(vector is None for _, vector in facts))
    _vectors_put([(fact, vector) for fact, vector in facts if vector is not None])
    for fact, vector in facts:
        if vector is None or unjudged:
            job_queue("fact_check", agent=fact.agent, persona=fact.persona, subject=fact)
    audit_record_many(
        {
            "by": by,
            "action": "fact.store",
            "target": fact,
            "agent": fact.agent,
            "after": {
                "content": fact.content,
                "subject": fact.subject,
                "category": fact.category,
                **carried_keys(fact),
            },
        }
        for fact in rows
    )


def _vectors_put(facts: Sequence[tuple[Fact, Vector]]) -> None:
    """Store known vectors in the search index, so that the next fact finds these facts by meaning."""
    if not facts:
        return
    first = facts[0][0]
    with connection.cursor() as cursor:
        cursor.execute(
            _VECTORS_PUT.format(table=search_table(first.agent, first.persona)),
            [
                [str(fact.pk) for fact, _ in facts],
                [fact.content for fact, _ in facts],
                [vector.literal for _, vector in facts],
                [vector.model for _, vector in facts],
                first.agent_id,
                ItemType.FACT,
            ],
        )

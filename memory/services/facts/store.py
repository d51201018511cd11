"""Store a new fact: row, history, search index with vectors, audit trail and change feed."""

from typing import Any

from identity.principal import Principal
from identity.services.audit import audit_record
from memory.jobs import job_queue
from memory.models import ENDS, KEYS, Fact, FactChange, Scope, carried_keys
from memory.persona import memory_of
from memory.services.facts.changes import fact_change_record
from memory.services.facts.comparable_facts import Vector, search_table
from memory.services.memory_write import expiry_checked, fields_checked, keys_checked
from memory.services.search_index.writer import index_put
from memory.services.sources import source_seen
from memory.services.subjects.registry import alias_enter
from memory.services.trust import event_named
from memory.subjects.spelling import key_of
from memory.types import entry_of
from nousweb.lib import Invalid
from nousweb.lib.transactions import sql_change

_VECTOR_PUT = """
UPDATE {table} SET embedding = %(vector)s::halfvec, model = %(model)s, status = 'ready', error = '', due_at = NULL
WHERE agent_id = %(agent)s AND item_type = 'fact' AND item_id = %(item_id)s AND text = %(text)s AND status = 'pending'
AND EXISTS (SELECT 1 FROM memory_embeddingmodel WHERE state = 'active' AND name = %(model)s)
"""


def alias_assign(fact: Fact, by: Principal) -> None:
    """Set `subject_alias` of the fact; a spelling that is not registered yet is entered. Call it under the learning
    lock."""
    # The alias was looked up under the learning lock, so it is current.
    if fact.subject_alias is None or fact.subject_alias.key != key_of(fact.subject):
        fact.subject_alias = alias_enter(
            agent=fact.agent, persona=fact.persona, spelling=fact.subject, by=by, category=fact.category
        )


def source_event_link(fact: Fact, by: Principal) -> None:
    """Link a new fact to the event that its source names, if `by` may read that. Call it with the agent locked."""
    if (named := event_named(fact.source)) is not None:
        fact.source_event = memory_of(fact.agent, by).events.filter(pk=named).first() or fact.source_event


def fact_store(fact: Fact, vector: Vector | None, *, by: Principal, unjudged: bool = False) -> None:
    """Store a fact with the embedding of its content, if that is known. Call it under the learning lock, in the
    transaction that compared it. A fact without an embedding, or `unjudged`, is checked later."""
    source_seen(fact)
    source_event_link(fact, by)
    fact.save(force_insert=True)
    fact_change_record(fact, FactChange.Action.STORED, by)
    index_put([entry_of(fact)], notify=vector is None)
    if vector is not None:
        # So the next fact finds this one by meaning.
        sql_change(
            _VECTOR_PUT.format(table=search_table(fact.persona)),
            {
                "agent": fact.agent_id,
                "item_id": str(fact.pk),
                "text": fact.content,
                "vector": vector.literal,
                "model": vector.model,
            },
        )
    if vector is None or unjudged:
        job_queue("fact_check", agent=fact.agent, persona=fact.persona, subject=fact)
    fact_store_audit(fact, by)


def fact_store_audit(fact: Fact, by: Principal) -> None:
    """Write a newly stored fact to the audit trail."""
    after = {"content": fact.content, "subject": fact.subject, "category": fact.category, **carried_keys(fact)}
    audit_record(by=by, action="fact.store", target=fact, agent=fact.agent, after=after)


FACT_FIELDS = (
    "subject", "attribute", "value", "category", "kind", "scope", *KEYS, "tags", "confidence", "importance",
    "source", "source_ref",
)  # fmt: skip
"""The fields that a writer may state beside the content, without its times."""
TIME_FIELDS = ("valid_from", "valid_until", "expires_at")


def fact_fields_check(
    *,
    scope: str = Scope.GLOBAL,
    project: str = "",
    task: str = "",
    user: str = "",
    ttl: int | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """The fields of a new fact as they are stored. Raises Invalid with the name of the field."""
    fields["expires_at"] = expiry_checked(fields.get("expires_at"), ttl)
    checked = keys_checked(scope, project, task, user) | fields_checked(Fact, fields)
    begins = checked.get("valid_from")
    for name in ENDS:
        if begins and (ends := checked.get(name)) and ends <= begins:
            raise Invalid(f"{name} must be later than valid_from.", field=name)
    return checked

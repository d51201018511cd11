"""Store a new fact: row, history, search index with vectors, audit trail and change feed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from identity.principal import Principal
from identity.services.audit import audit_record
from memory.jobs import job_queue
from memory.models import Fact, FactChange, Scope, carried_keys, key_check, tier_of
from memory.policy import DEFAULT_CATEGORY, MAX_ATTRIBUTE_CHARACTERS, MAX_CONTENT_CHARACTERS, MAX_VALUE_CHARACTERS
from memory.policy.attributes import attribute_words
from memory.services.facts.changes import fact_change_record
from memory.services.facts.comparable_facts import Vector, search_table
from memory.services.search_index.writer import index_put
from memory.services.subjects.registry import alias_enter
from memory.subjects.spelling import key_of
from memory.types import entry_of
from nousweb.lib.errors import Invalid
from nousweb.lib.transactions import sql_change
from nousweb.lib.validation import (
    choice_check,
    moment_check,
    tags_check,
    text_check,
    unit_check,
    visible_text_check,
    word_check,
)

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


def fact_store(fact: Fact, vector: Vector | None, *, by: Principal, unjudged: bool = False) -> None:
    """Store a fact with the embedding of its content, if that is known. Call it under the learning lock, in the
    transaction that compared it. A fact without an embedding, or `unjudged`, is checked later."""
    fact.save(force_insert=True)
    fact_change_record(fact, FactChange.Action.STORED, by)
    index_put([entry_of(fact)], notify=vector is None)
    if vector is not None:
        _vector_put(fact, vector)
    if vector is None or unjudged:
        job_queue("fact_check", agent=fact.agent, persona=fact.persona, subject=fact)
    fact_store_audit(fact, by)


def fact_store_audit(fact: Fact, by: Principal) -> None:
    """Write a newly stored fact to the audit trail."""
    after = {"content": fact.content, "subject": fact.subject, "category": fact.category, **carried_keys(fact)}
    audit_record(by=by, action="fact.store", target=fact, agent=fact.agent, after=after)


def _vector_put(fact: Fact, vector: Vector) -> None:
    """Store a known vector in the search index, so that the next fact finds this one by meaning."""
    sql_change(
        _VECTOR_PUT.format(table=search_table(fact.agent, fact.persona)),
        {
            "agent": fact.agent_id,
            "item_id": str(fact.pk),
            "text": fact.content,
            "vector": vector.literal,
            "model": vector.model,
        },
    )


FACT_FIELDS = (
    "subject", "attribute", "value", "category", "kind", "scope", "project", "task", "tags", "confidence", "importance",
    "source",
)  # fmt: skip
"""The fields that a writer may state beside the content, without those of its valid time."""
TIME_FIELDS = ("valid_from", "valid_until")


def fact_fields_check(
    *,
    content: str,
    subject: str = "",
    attribute: str = "",
    value: str = "",
    category: str = DEFAULT_CATEGORY,
    kind: str = "",
    scope: str = Scope.GLOBAL,
    project: str = "",
    task: str = "",
    tags: Sequence[str] = (),
    confidence: float = 1.0,
    importance: float = 0.5,
    source: str = "",
    valid_from: datetime | None = None,
    valid_until: datetime | None = None,
) -> dict[str, Any]:
    """Validate and normalise the fields of a fact. Raises Invalid with the name of the field."""
    project, task = key_check("project", project), key_check("task", task)
    fields: dict[str, Any] = {
        "content": visible_text_check("content", content, MAX_CONTENT_CHARACTERS, required=True),
        "subject": visible_text_check("subject", subject, 200),
        "attribute": attribute_check(attribute),
        "value": visible_text_check("value", value, MAX_VALUE_CHARACTERS),
        "category": word_check("category", category),
        "kind": word_check("kind", kind) if kind else "",
        "scope": tier_of(choice_check("scope", scope, Scope.values), project, task),
        "project": project,
        "task": task,
        "tags": tags_check(tags),
        "confidence": unit_check("confidence", confidence),
        "importance": unit_check("importance", importance),
        "source": text_check("source", source, 200),
        "valid_from": moment_check("valid_from", valid_from),
        "valid_until": moment_check("valid_until", valid_until),
    }
    if valid_from and valid_until and valid_until <= valid_from:
        raise Invalid("valid_until must be later than valid_from.", field="valid_until")
    return fields


def attribute_check(attribute: str) -> str:
    """The name of an attribute in one form: lower case, one space between words, without an article."""
    return " ".join(attribute_words(visible_text_check("attribute", attribute, MAX_ATTRIBUTE_CHARACTERS)))

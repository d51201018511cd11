"""Edit a fact's category, confidence, importance and tags."""

from collections.abc import Mapping, Sequence
from typing import Any

from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import Fact, FactChange, keys_changed
from memory.persona import change_check
from memory.policy import CATEGORY_PERMISSIONS, MAX_REMARK_CHARACTERS
from memory.services.facts.endorsement import endorse
from memory.services.facts.history import fact_change_record
from memory.services.memory_write import fields_change, row_lock
from memory.services.search_index.writer import index_put
from memory.types import entry_of
from nousweb.lib.validation import tags_check, text_check, unit_check, word_check

Action = FactChange.Action


@agent_transaction(of="fact")
def fact_edit(
    *,
    fact: Fact,
    by: Principal,
    tags: Sequence[str] | None = None,
    importance: float | None = None,
    category: str | None = None,
    scope: str | None = None,
    project: str | None = None,
    task: str | None = None,
    confidence: float | None = None,
    reason: str = "",
    evidence: Mapping[str, Any] | None = None,
) -> Fact:
    """Change a fact's category, metadata and confidence, never its content; None keeps a value.

    A fact that is moved to another project or task is not compared with the facts there.
    """
    change_check(fact, by, "memory.change_fact")
    for name in (fact.category, category or fact.category):
        if name in CATEGORY_PERMISSIONS:
            by.require(CATEGORY_PERMISSIONS[name], fact.agent)
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    fact = row_lock(fact)
    before, after = fields_change(
        fact,
        {
            "tags": None if tags is None else tags_check(tags),
            "importance": None if importance is None else unit_check("importance", importance),
            "confidence": None if confidence is None else unit_check("confidence", confidence),
            "category": None if category is None else word_check("category", category),
            **keys_changed(fact, scope, project, task),
        },
    )
    if after:
        held = before | endorse(fact, by)
        fact.save(update_fields=["endorsed"])
        fact_change_record(fact, Action.EDITED, by, reason=reason, before=held, evidence=evidence)
        index_put([entry_of(fact)])
        audit_record(
            by=by, action="fact.edit", target=fact, agent=fact.agent, before=before, after=after, message=reason
        )
    return fact

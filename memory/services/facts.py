"""Learning facts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from identity.models import Agent
from identity.principal import Principal
from identity.services.audit import audit_record
from memory.checks import choice_check, moment_check, tags_check, text_check, unit_check, word_check
from memory.models import Fact, FactChange, Scope
from memory.policy import CATEGORY_PERMISSIONS, DEFAULT_CATEGORY, MAX_CONTENT_CHARACTERS
from memory.search.entries import entry_of
from memory.search.index import index_put
from nousweb.lib.errors import Invalid


@dataclass(frozen=True, slots=True)
class LearnResult:
    """What learning came to: "stored" for a new row."""

    action: str
    fact: Fact


@transaction.atomic
def fact_learn(
    *,
    agent: Agent,
    content: str,
    by: Principal,
    subject: str = "",
    category: str = DEFAULT_CATEGORY,
    kind: str = "",
    scope: str = Scope.GLOBAL,
    tags: Sequence[str] = (),
    confidence: float = 1.0,
    importance: float = 0.5,
    source: str = "",
    valid_from: datetime | None = None,
    valid_until: datetime | None = None,
) -> LearnResult:
    """Store a fact in the memory of the persona that `by` acts as.

    `confidence` and `importance` lie in [0, 1]. Raises Invalid, naming the field, or NotAllowed.
    """
    by.require("memory.add_fact", agent)
    if category in CATEGORY_PERMISSIONS:
        by.require(CATEGORY_PERMISSIONS[category], agent)
    fact = Fact(
        agent=agent,
        persona=by.persona,
        content=text_check("content", content, MAX_CONTENT_CHARACTERS, required=True),
        subject=text_check("subject", subject, 200),
        category=word_check("category", category),
        kind=word_check("kind", kind) if kind else "",
        scope=choice_check("scope", scope, Scope.values),
        tags=tags_check(tags),
        confidence=unit_check("confidence", confidence),
        importance=unit_check("importance", importance),
        source=text_check("source", source, 200),
        valid_from=moment_check("valid_from", valid_from),
        valid_until=moment_check("valid_until", valid_until),
    )
    if valid_from and valid_until and valid_until <= valid_from:
        raise Invalid("valid_until must be later than valid_from.", field="valid_until")
    fact.save(force_insert=True)
    FactChange.objects.create(
        fact=fact, action=FactChange.Action.STORED, author_kind=by.kind, author_id=by.id, author_name=by.name
    )
    index_put([entry_of(fact)])
    audit_record(
        by=by,
        action="fact.store",
        target=fact,
        agent=agent,
        after={"content": fact.content, "subject": fact.subject, "category": fact.category},
    )
    return LearnResult("stored", fact)

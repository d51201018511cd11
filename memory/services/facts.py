"""Learning facts."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import transaction

from identity.models import Agent
from identity.principal import Principal
from identity.services.audit import audit_record
from memory.models import Fact, FactChange, Scope
from memory.policy import CATEGORY_PERMISSIONS, DEFAULT_CATEGORY, MAX_CONTENT_CHARACTERS, MAX_TAGS
from memory.search.entries import entry_of
from memory.search.index import index_put
from nousweb.lib.errors import Invalid
from nousweb.lib.text import unstorable_reason

_WORD = re.compile(r"^[a-z][a-z0-9_-]{0,49}$")


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
        content=_text_check("content", content, MAX_CONTENT_CHARACTERS, required=True),
        subject=_text_check("subject", subject, 200),
        category=_word_check("category", category),
        kind=_word_check("kind", kind) if kind else "",
        scope=_choice_check("scope", scope, Scope.values),
        tags=_tags_check(tags),
        confidence=_unit_check("confidence", confidence),
        importance=_unit_check("importance", importance),
        source=_text_check("source", source, 200),
        valid_from=_moment_check("valid_from", valid_from),
        valid_until=_moment_check("valid_until", valid_until),
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


def _text_check(field: str, value: str, limit: int, *, required: bool = False) -> str:
    if why := unstorable_reason(value):
        raise Invalid(why, field=field)
    value = value.strip()
    if required and not value:
        raise Invalid(f"{field} must not be empty.", field=field)
    if len(value) > limit:
        raise Invalid(f"{field} holds at most {limit:,} characters; this has {len(value):,}.", field=field)
    return value


def _word_check(field: str, value: str) -> str:
    if not _WORD.match(value):
        raise Invalid(
            f"{field} is a lower-case word of 1 to 50 letters, digits, - or _, not {value[:60]!r}.",
            field=field,
        )
    return value


def _choice_check(field: str, value: str, choices: Sequence[str]) -> str:
    if value not in choices:
        raise Invalid(f"{field} is one of {', '.join(choices)}, not {value[:60]!r}.", field=field)
    return value


def _unit_check(field: str, value: float) -> float:
    # Written so that NaN fails too.
    if not 0.0 <= value <= 1.0:
        raise Invalid(f"{field} lies between 0 and 1.", field=field)
    return value


def _moment_check(field: str, value: datetime | None) -> datetime | None:
    # The database would store, and no driver read back, a moment whose UTC lies outside the years 1 to 9999.
    try:
        return value.astimezone(UTC) if value else None
    except OverflowError as error:
        raise Invalid(f"{field} lies outside the years 1 to 9999.", field=field) from error


def _tags_check(tags: Sequence[str]) -> list[str]:
    if len(tags) > MAX_TAGS:
        raise Invalid(f"At most {MAX_TAGS} tags.", field="tags")
    return sorted({_text_check("tags", tag, 50, required=True) for tag in tags})

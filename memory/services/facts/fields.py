"""Validate and normalise the fields of a fact."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memory.models import Scope, key_check, tier_of
from memory.policy import DEFAULT_CATEGORY, MAX_ATTRIBUTE_CHARACTERS, MAX_CONTENT_CHARACTERS, MAX_VALUE_CHARACTERS
from memory.policy.attributes import attribute_words
from nousweb.lib.errors import Invalid
from nousweb.lib.validation import (
    choice_check,
    moment_check,
    tags_check,
    text_check,
    unit_check,
    visible_text_check,
    word_check,
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

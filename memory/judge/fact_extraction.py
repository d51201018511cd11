"""The facts that a judge may extract from an episode: how many, and of which categories."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from memory.judge.reply import JudgeReply, Share, Text
from memory.policy.categories import CATEGORY_PERMISSIONS, DEFAULT_CATEGORY, KNOWN_CATEGORIES
from memory.policy.size_limits import MAX_ATTRIBUTE_CHARACTERS, MAX_CONTENT_CHARACTERS

MAX_EXTRACTED_FACTS = 5
"""Source: seed 009.1, fact extraction."""

EXTRACTABLE_CATEGORIES = tuple(name for name in KNOWN_CATEGORIES if name not in CATEGORY_PERMISSIONS)
"""A model cannot assign a category that has a permission of its own."""


def _at_most_five(value: Any) -> Any:
    return value[:MAX_EXTRACTED_FACTS] if isinstance(value, list) else value


def _known_category(value: Any) -> Any:
    # A model invents a category now and then; the fact is still worth keeping.
    return value if value in EXTRACTABLE_CATEGORIES else DEFAULT_CATEGORY


class ExtractedFact(JudgeReply):
    subject: Annotated[Text, Field(max_length=200)]
    attribute: Annotated[Text, Field(max_length=MAX_ATTRIBUTE_CHARACTERS)] = ""
    value: Annotated[Text, Field(max_length=200)] = ""
    content: Annotated[Text, Field(min_length=1, max_length=MAX_CONTENT_CHARACTERS)]
    category: Annotated[str, BeforeValidator(_known_category)]
    confidence: Share


class ExtractedFacts(JudgeReply):
    """At most five; what a model adds beyond them is dropped."""

    facts: Annotated[list[ExtractedFact], BeforeValidator(_at_most_five)]

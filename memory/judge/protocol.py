"""The validated replies of a judge, and its errors.

It is independent of the model. A judge is called outside of transactions, and each call is recorded as a JudgeCall.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from memory.models import Relation
from memory.policy import (
    CATEGORY_PERMISSIONS,
    DEFAULT_CATEGORY,
    KNOWN_CATEGORIES,
    MAX_ATTRIBUTE_CHARACTERS,
    MAX_CONTENT_CHARACTERS,
)
from nousweb.lib import unstorable_reason


def _storable(text: str) -> str:
    if reason := unstorable_reason(text):
        raise ValueError(reason)
    return text


Text = Annotated[str, StringConstraints(strip_whitespace=True), AfterValidator(_storable)]
Share = Annotated[float, Field(ge=0, le=1)]


class JudgeReply(BaseModel):
    """Base of all replies. Additional fields are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True)


MAX_EXTRACTED_FACTS = 5
"""Source: seed 009.1, fact extraction."""

EXTRACTABLE_CATEGORIES = tuple(name for name in KNOWN_CATEGORIES if name not in CATEGORY_PERMISSIONS)
"""A model cannot assign a category that has a permission of its own."""


class ExtractedFact(JudgeReply):
    subject: Annotated[Text, Field(max_length=200)]
    attribute: Annotated[Text, Field(max_length=MAX_ATTRIBUTE_CHARACTERS)] = ""
    value: Annotated[Text, Field(max_length=200)] = ""
    content: Annotated[Text, Field(min_length=1, max_length=MAX_CONTENT_CHARACTERS)]
    # A model invents a category now and then; the fact is still worth keeping.
    category: Annotated[
        str, BeforeValidator(lambda value: value if value in EXTRACTABLE_CATEGORIES else DEFAULT_CATEGORY)
    ]
    confidence: Share


class ExtractedFacts(JudgeReply):
    """At most five; what a model adds beyond them is dropped."""

    facts: Annotated[
        list[ExtractedFact],
        BeforeValidator(lambda value: value[:MAX_EXTRACTED_FACTS] if isinstance(value, list) else value),
    ]


MAX_PAIRS = 12
"""Of facts in one call."""
ASK_WITHIN_SECONDS = 15.0
"""After this time in one job, the judge is not called again: a call may take 100 s, and a task is stopped at 120 s."""


MAX_CALL_SECONDS = 100.0
"""No attempt begins that could end later: tasks of the worker are stopped after 120 seconds."""


class JudgeFailed(Exception):
    """The judge gave no usable reply; the message is one sentence without secrets or quoted memories.

    `retryable`: whether the same call may succeed later.
    """

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class JudgeUnavailable(JudgeFailed):
    """The judge cannot be called now: it is down, busy, misconfigured, or the tokens of the day are spent.

    `retry_at`: the earliest time for another call, None if unknown.
    """

    def __init__(self, message: str, *, retry_at: datetime | None = None) -> None:
        super().__init__(message, retryable=True)
        self.retry_at = retry_at


class RelationVerdict(JudgeReply):
    relation: Relation
    confidence: Share
    reason: Annotated[Text, Field(min_length=1, max_length=1000)]


class PairVerdict(RelationVerdict):
    """The verdict on one of several pairs, by its number from 1."""

    pair: Annotated[int, Field(ge=1, le=MAX_PAIRS)]


def _usable(value: Any) -> Any:
    """The valid verdicts, of pairs that have only one."""
    if not isinstance(value, list):
        return value
    found: dict[int, PairVerdict] = {}
    twice = set()
    for item in value[: 2 * MAX_PAIRS]:
        with suppress(ValidationError):
            verdict = PairVerdict.model_validate(item)
            if found.setdefault(verdict.pair, verdict) is not verdict:
                twice.add(verdict.pair)
    return [verdict for pair, verdict in found.items() if pair not in twice]


class RelationVerdicts(JudgeReply):
    """Verdicts on several pairs. What is invalid, or says two things of one pair, is left out: it spoils no other."""

    verdicts: Annotated[list[PairVerdict], BeforeValidator(_usable), Field(min_length=1)]


class EpisodeSummary(JudgeReply):
    """`title` of 5 to 10 words, `summary` of 100 to 150 words or fewer for a short episode. Never an outcome."""

    title: Annotated[Text, Field(min_length=1, max_length=200)]
    summary: Annotated[Text, Field(min_length=1, max_length=4000)]


class MergedFact(JudgeReply):
    content: Annotated[Text, Field(min_length=1, max_length=MAX_CONTENT_CHARACTERS)]


T = TypeVar("T", bound=JudgeReply)


@dataclass(frozen=True, slots=True)
class JudgeResult(Generic[T]):
    """A validated reply and its origin. `call_id`: key of the JudgeCall. `tokens`: sum of input and output tokens."""

    value: T
    call_id: int
    model: str
    prompt_version: str
    tokens: int

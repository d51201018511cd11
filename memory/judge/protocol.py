"""What a judge can be asked, how its answers look once they are checked, and how it fails.

Nothing here knows a model. A judge is asked outside of every transaction and leaves a JudgeCall for each question.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, Protocol, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from identity.models import Agent
from memory.comparison.snapshot import FactSnapshot
from memory.models.relation import Relation
from memory.policy import CATEGORY_PERMISSIONS, DEFAULT_CATEGORY, KNOWN_CATEGORIES, MAX_CONTENT_CHARACTERS
from nousweb.lib.validation import unstorable_reason

MAX_EXTRACTED_FACTS = 5
"""Source: seed 009.1, fact extraction."""

EXTRACTABLE_CATEGORIES = tuple(name for name in KNOWN_CATEGORIES if name not in CATEGORY_PERMISSIONS)
"""A category that needs a right of its own is never given by a model."""


class JudgeFailed(Exception):
    """The judge gave no usable answer; the message is one sentence without secrets or quoted memories.

    `retryable`: whether the same question may be answered when it is asked again.
    """

    def __init__(self, said: str, *, retryable: bool) -> None:
        super().__init__(said)
        self.retryable = retryable


class JudgeUnavailable(JudgeFailed):
    """The judge cannot be asked now: it is down, busy, misconfigured, or the day's tokens are spent.

    `retry_at`: when to ask again at the earliest, where that is known.
    """

    def __init__(self, said: str, *, retry_at: datetime | None = None) -> None:
        super().__init__(said, retryable=True)
        self.retry_at = retry_at


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _storable(text: str) -> str:
    if reason := unstorable_reason(text):
        raise ValueError(reason)
    return text


def _at_most_five(value: Any) -> Any:
    return value[:MAX_EXTRACTED_FACTS] if isinstance(value, list) else value


def _known_category(value: Any) -> Any:
    # A model invents a category now and then; the fact is still worth keeping.
    return value if value in EXTRACTABLE_CATEGORIES else DEFAULT_CATEGORY


Text = Annotated[str, BeforeValidator(_stripped), AfterValidator(_storable)]
Share = Annotated[float, Field(ge=0, le=1)]


class Answer(BaseModel):
    """Base of every answer: what the model made up beside the asked fields is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RelationVerdict(Answer):
    relation: Relation
    confidence: Share
    reason: Annotated[Text, Field(min_length=1, max_length=1000)]


class EpisodeSummary(Answer):
    """`title` of 5 to 10 words, `summary` of 100 to 150 words or fewer for a short episode. Never an outcome."""

    title: Annotated[Text, Field(min_length=1, max_length=200)]
    summary: Annotated[Text, Field(min_length=1, max_length=4000)]


class ExtractedFact(Answer):
    subject: Annotated[Text, Field(max_length=200)]
    content: Annotated[Text, Field(min_length=1, max_length=MAX_CONTENT_CHARACTERS)]
    category: Annotated[str, BeforeValidator(_known_category)]
    confidence: Share


class ExtractedFacts(Answer):
    """At most five; what a model adds beyond them is dropped."""

    facts: Annotated[list[ExtractedFact], BeforeValidator(_at_most_five)]


class MergedFact(Answer):
    content: Annotated[Text, Field(min_length=1, max_length=MAX_CONTENT_CHARACTERS)]


T = TypeVar("T", bound=Answer)


@dataclass(frozen=True, slots=True)
class Judged(Generic[T]):
    """A checked answer and where it comes from. `call_id` is the key of its JudgeCall, `tokens` those in and out."""

    value: T
    call_id: int
    model: str
    prompt_version: str
    tokens: int


class Judge(Protocol):
    """Safe to call from many threads. Every method raises JudgeFailed (or JudgeUnavailable), or RuntimeError when
    called inside a transaction."""

    @property
    def name(self) -> str:
        """`<kind>:<model>`."""
        ...

    def relation(self, *, agent: Agent, persona: str, old: FactSnapshot, new: FactSnapshot) -> Judged[RelationVerdict]:
        """What `new`, which was learned later, is to `old`."""
        ...

    def summarise(self, *, agent: Agent, persona: str, transcript: str) -> Judged[EpisodeSummary]:
        """Title and summary of an episode."""
        ...

    def extract_facts(self, *, agent: Agent, persona: str, summary: str, transcript: str) -> Judged[ExtractedFacts]:
        """The durable facts of an episode, at most five, the most important first."""
        ...

    def merge(self, *, agent: Agent, persona: str, facts: Sequence[FactSnapshot]) -> Judged[MergedFact]:
        """One text that says what all of `facts` say, and nothing more."""
        ...

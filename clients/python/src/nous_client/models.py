"""The results of the API. Fields that a newer server adds stay; see `model_extra`."""

from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from nous_client.errors import Blocked


class Model(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class Section(Model):
    """A section of a prompt and the memories in it."""

    key: str
    label: str
    tier: int
    tokens: int
    truncated: bool
    items: list[dict[str, Any]]


class Block(Model):
    """A piece of a prompt, with the break before it; `stability` is stable, session or volatile."""

    id: str
    text: str
    sha256: str
    stability: str
    changed_by: list[str]


class Context(Model):
    """A prompt to think with; `id` is for reporting the answer, None of a dry run."""

    id: UUID | None
    system_prompt: str
    blocks: list[Block]
    tokens: int
    budget: int
    sections: list[Section]
    truncated: list[dict[str, Any]]
    censor_verdict: str
    censor_reason: str
    censors: list[dict[str, Any]]

    def raise_if_blocked(self) -> None:
        """Raises Blocked where a censor forbids to go on with this input."""
        if self.censor_verdict == "block":
            raise Blocked(self.censor_reason, self.censors)


class Use(Model):
    """Whether the answer referred to a memory of the prompt."""

    type: str
    id: str
    referenced: bool
    overlap: float


class Report(Model):
    """The server's findings about a reported answer."""

    items: list[Use]
    censor_verdict: str
    censor_reason: str
    censors: list[dict[str, Any]]


class Outcome(Model):
    id: UUID
    outcome: str
    note: str


class Fact(Model):
    """A fact; `active` is False once it was replaced or retired."""

    id: UUID
    content: str
    subject: str
    attribute: str = ""
    value: str = ""
    category: str
    kind: str
    scope: str
    project: str
    task: str
    user: str = ""
    tags: list[str]
    confidence: float
    importance: float
    source: str
    active: bool
    valid_from: datetime | None
    valid_until: datetime | None
    expires_at: datetime | None = None
    source_ref: dict[str, Any] | None = None
    source_changed_at: datetime | None = None
    recorded_at: datetime
    superseded_by: UUID | None


class LearnedFact(Model):
    """The result of learning a fact: `action` is stored, confirmed, superseded or queued (for people, under
    `review`)."""

    action: str
    fact: Fact
    review: UUID | None
    superseded: list[UUID]


class Document(Model):
    """One version of the document under a key; `active` is False once it was superseded or retired."""

    id: UUID
    namespace: list[str]
    key: str
    value: dict[str, Any]
    version: int
    index: list[str] | None
    tags: list[str]
    scope: str
    project: str
    task: str
    user: str = ""
    importance: float
    active: bool
    endorsed: bool
    author: str
    superseded_by: UUID | None
    first_created_at: datetime
    created_at: datetime
    retired_at: datetime | None
    expires_at: datetime | None = None
    source_ref: dict[str, Any] | None = None
    source_changed_at: datetime | None = None
    ttl: int | None = None


class Source(Model):
    """The latest reading of a source; `marked` memories got the mark that their source changed, or lost it."""

    locator: str
    sha256: str
    seen_at: datetime
    changed_at: datetime | None
    marked: int


class PutDocument(Model):
    """The result of storing a value: `action` is created, updated or unchanged."""

    action: str
    document: Document


class FoundDocument(Model):
    """A document that a search found; `score` from 0 to 1, None where nothing was asked."""

    document: Document
    score: float | None


class Event(Model):
    """An event as it was recorded; `repeated` when its key was in the log already and nothing was stored."""

    id: int
    key: str | None
    kind: str
    loop_id: str
    ts: datetime
    repeated: bool


class RecentConversation(Model):
    """An episode or a loop of the last days."""

    type: str
    id: str
    title: str
    started_at: datetime
    ended_at: datetime | None


class Hit(Model):
    """A memory that a search found; `score` from 0 to 1."""

    type: str
    id: str
    content: str
    score: float
    subject: str
    category: str
    kind: str
    tags: list[str]
    happened_at: datetime


class Detail(Model):
    """A whole memory; `relation` is its relation to the expanded one, "" for that one."""

    type: str
    id: str
    relation: str
    content: str
    active: bool
    happened_at: datetime
    metadata: dict[str, Any]


class Expansion(Model):
    """A memory with its surroundings."""

    item: Detail
    related: list[Detail]
    more: bool


class Episode(Model):
    id: UUID
    title: str
    summary: str
    outcome: str
    lessons: list[str]
    active: bool
    started_at: datetime
    ended_at: datetime | None


class IdentityChange(Model):
    """The result of a change of identity; `proposal` waits for a person."""

    action: str
    repeated: bool
    proposal: dict[str, Any] | None
    version: dict[str, Any] | None


class Identity(Model):
    agent: str
    prompt: str
    tokens: int
    sections: dict[str, Any]
    etag: str


class CensorCheck(Model):
    """The check of a text: `verdict` is allow, warn or block."""

    verdict: str
    reason: str
    matches: list[dict[str, Any]]

    def raise_if_blocked(self) -> None:
        """Raises Blocked where a censor forbids the text."""
        if self.verdict == "block":
            raise Blocked(self.reason, self.matches)


class WorkingMemory(Model):
    session_id: str
    task: str
    frame: str
    items: list[dict[str, Any]]
    open_threads: list[dict[str, Any]]


class Change(Model):
    """Something that happened, from the change feed."""

    id: UUID
    kind: str
    persona: str
    at: datetime
    object_type: str
    object_id: str
    details: dict[str, Any]
    blocks: list[str]


T = TypeVar("T")


class Page(BaseModel, Generic[T]):
    """A page of a list; `next` is None on the last one."""

    items: list[T]
    next: str | None = None

"""Schemas of the API of facts."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, Field, model_validator

from memory.models.valid_time import Validity
from memory.policy import DEFAULT_CATEGORY, MAX_ATTRIBUTE_CHARACTERS
from memory.schemas.memories import MemoryIn, MemoryOut, MemoryPatch
from memory.schemas.types import Remark, RequiredContent
from nousweb.lib.constrained_types import OneOf, OptionalWord, UnitInterval, Word, text
from nousweb.lib.schemas import Input, fields_of


class FactIn(MemoryIn):
    content: RequiredContent = Field(description="The fact, as one sentence")
    subject: Annotated[str, text(200)] = Field("", description="Person or thing that the fact is about")
    attribute: Annotated[str, text(MAX_ATTRIBUTE_CHARACTERS)] = Field(
        "",
        description="What the sentence says of the subject, as the name of a property such as job title or database "
        "version; lower case. A newer value of a property with one value at a time replaces the older one",
    )
    value: Annotated[str, text(200)] = Field(
        "",
        description="The value of the attribute now, as short as it can be (nurse, 14.2). Leave both empty for plans, "
        "for what has ended or is denied, and for a sentence that states no single value",
    )
    category: Word = Field(
        DEFAULT_CATEGORY,
        description="person, preference and rule are always in the prompt; other categories are searched",
    )
    kind: OptionalWord = ""
    confidence: UnitInterval = 1.0
    source: Annotated[str, text(200)] = ""
    valid_from: AwareDatetime | None = Field(None, description="Start of its valid time")
    valid_until: AwareDatetime | None = Field(None, description="End of its valid time")


class FactOut(MemoryOut):
    content: str
    subject: str
    attribute: str
    value: str
    category: str
    kind: str
    confidence: UnitInterval
    source: str
    active: bool = Field(description="false if it is retired")
    confirmation_count: int
    last_confirmed_at: datetime | None
    superseded_by: UUID | None = Field(None, alias="superseded_by_id")
    valid_from: datetime | None
    valid_until: datetime | None
    validity: Annotated[str, OneOf(*Validity.values)] = Field(
        description="Whether it is valid now; no prompt or search includes facts that are expired or not yet valid"
    )
    recorded_at: datetime
    retired_at: datetime | None
    invalidated_at: datetime | None = Field(description="When it was invalidated (it was never true)")
    source_event: int | None = Field(None, alias="source_event_id")
    source_episode: UUID | None = Field(None, alias="source_episode_id")
    contradiction_of: UUID | None = Field(None, alias="contradiction_of_id")


class LearnOut(Schema):
    action: Literal["stored", "confirmed", "superseded", "queued", "decided", "held"] = Field(
        description="stored: new. confirmed: already known; `fact` is the known fact. superseded: it replaced an old "
        "fact. queued: a review is pending about its relation to an old fact. If `fact` is an invalidated fact (is it "
        "true after all?) or the same sentence about another subject (is it true of both?), nothing is stored. "
        "decided: nothing is stored, because people invalidated `fact` and the new one names no source that is new to "
        "them, or because people decided that `fact` is not true of this subject. held: quarantined, because it reads "
        "like an instruction to the agent; no prompt or search includes it before a person allows it."
    )
    fact: FactOut
    review: UUID | None = Field(None, description="Its pending review, if there is one")
    superseded: list[UUID] = Field([], description="Facts that it superseded")

    @staticmethod
    def resolve_superseded(result: Any) -> list[UUID]:
        return [fact.pk for fact in result.superseded]


class FactReasonIn(Input):
    reason: Remark = Field("", description="Reason; kept in the history")


class FactRestoreIn(FactReasonIn):
    endorse: bool = Field(False, description="Also count the fact as verified by people")


class SupersedeIn(FactReasonIn):
    by: FactIn | None = Field(
        None,
        description="The new fact; subject, attribute, category, kind, scope, tags, confidence and importance that "
        "are not given are copied from the old one",
    )
    fact_id: UUID | None = Field(None, description="Alternative: an existing fact")
    at: AwareDatetime | None = Field(None, description="Start of the new fact's valid time")

    @model_validator(mode="after")
    def _one_replacement(self) -> "SupersedeIn":
        if (self.by is None) == (self.fact_id is None):
            raise ValueError("Give either by or fact_id.")
        return self


class SupersedeOut(Schema):
    action: Literal["superseded", "queued"] = Field(
        description="queued: nothing is replaced and a review is pending, because the old fact is verified by people, "
        "or because `new` is the same sentence about another subject"
    )
    old: FactOut
    new: FactOut
    review: UUID | None = Field(None, description="Its pending review")


@fields_of(FactIn, "category", patch=True)
class FactPatch(MemoryPatch):
    """Fields that are left out stay as they are."""

    reason: Remark = ""


class FactChangeOut(Schema):
    at: datetime
    action: str
    author_kind: str
    author_name: str
    other: UUID | None = Field(None, alias="other_id", description="Other fact of the change")
    score: float | None
    reason: str
    before: dict[str, Any] = Field(description="Previous values of the changed fields")

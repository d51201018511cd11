"""The API of facts."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.db.models import Window
from django.db.models.functions import RowNumber
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import AwareDatetime, Field, model_validator

from memory.api.common import (
    AnyScope,
    AnyTrust,
    ExpiryIn,
    ExpirySetIn,
    MemoryIn,
    MemoryOut,
    MemoryPatch,
    Remark,
    RequiredContent,
    SourcedIn,
    agent_arguments,
    caller,
    list_page,
    memory_arguments,
    memory_row,
    row_of,
)
from memory.models import Fact, FactChange, Validity
from memory.policy import DEFAULT_CATEGORY, MAX_ATTRIBUTE_CHARACTERS
from memory.selectors.filters import FactFilter
from memory.services.facts import (
    fact_confirm,
    fact_edit,
    fact_expiry_set,
    fact_invalidate,
    fact_learn,
    fact_replace,
    fact_restore,
)
from nousweb.lib import moment_check
from nousweb.lib.constrained_types import (
    AgentSlug,
    AnyProject,
    AnyTask,
    AnyUser,
    OneOf,
    OptionalWord,
    PageCursor,
    PageLimit,
    UnitInterval,
    Word,
    text,
)
from nousweb.lib.schemas import CHANGE_REFUSALS, REFUSALS, Derived, Input, Moment, page_of


class FactIn(MemoryIn, ExpiryIn, SourcedIn):
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
    source: Annotated[str, text(200)] = Field("", description="Where it was learned; `event 12` links that event")
    valid_from: AwareDatetime | None = Field(None, description="Start of its valid time")
    valid_until: AwareDatetime | None = Field(None, description="End of its valid time")


class FactOut(
    MemoryOut,
    of=Fact,
    fields="content subject attribute value category kind confidence source confirmation_count last_confirmed_at"
    " superseded_by contradiction_of source_event source_episode valid_from valid_until expires_at source_ref"
    " source_changed_at validity recorded_at"
    " retired_at invalidated_at",
):
    expires_at: datetime | None = Field(description="From then on it is left out everywhere, and erased later")
    source_ref: dict[str, Any] | None = Field(description="url or path, sha256 and seen_at of what it was read from")
    source_changed_at: datetime | None = Field(description="Since when its source is known to be another one")
    validity: Annotated[str, OneOf(*Validity.values)] = Field(
        description="Whether it is valid now; no prompt or search includes facts that are expired or not yet valid"
    )
    invalidated_at: datetime | None = Field(description="When it was invalidated (it was never true)")
    active: bool = Field(description="false if it is retired")


class LearnOut(Schema):
    action: Literal["stored", "confirmed", "superseded", "queued", "decided", "quarantined", "pending"] = Field(
        description="stored: new. confirmed: already known; `fact` is the known fact. superseded: it replaced an old "
        "fact. queued: a review is pending about its relation to an old fact. If `fact` is an invalidated fact (is it "
        "true after all?) or the same sentence about another subject (is it true of both?), nothing is stored. "
        "decided: nothing is stored, because people invalidated `fact` and the new one names no source that is new to "
        "them, or because people decided that `fact` is not true of this subject. quarantined: it reads like an "
        "instruction to the agent; no prompt or search includes it before a person allows it. pending: the same, where "
        "the agent's consent policy asks people about every such fact."
    )
    fact: FactOut
    review: UUID | None = Field(None, description="Its pending review, if there is one")
    superseded: list[UUID] = Field([], description="Facts that it superseded")
    undecided: list[UUID] = Field(
        [],
        description="Known facts that it may repeat or contradict, about which nobody is asked, since the agent's "
        "attention budget is used up. They stay beside it",
    )

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
        "are not given are copied from the old one, and so is its end if it expires",
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


class FactPatch(MemoryPatch, of=FactIn, fields="category", patch=True):
    """Fields that are left out stay as they are."""

    reason: Remark = ""


class FactChangeOut(Derived, of=FactChange, fields="at action author_kind author_name other score reason before"):
    action: str
    author_kind: str
    other: UUID | None = Field(None, alias="other_id", description="Other fact of the change")
    before: dict[str, Any] = Field(description="Previous values of the changed fields")


router = Router()


@router.post("/facts", response={201: LearnOut, **REFUSALS}, summary="Learn a fact")
def facts_post(request: HttpRequest, payload: FactIn, agent: AgentSlug = "") -> Any:
    """Store a new fact, confirm a known one, or supersede an old one that has certainly changed.

    A possible duplicate or contradiction is stored with a review for people or the judge.
    """
    return Status(201, fact_learn(**agent_arguments(request, agent, "memory.add_fact"), **payload.dict()))


@router.get("/facts", response={200: page_of(FactOut), **REFUSALS}, summary="List facts")
def facts_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    q: str = Query("", max_length=200, description="Words in the content or the subject"),
    category: str = "",
    subject: str = Query(
        "", max_length=200, description="Any spelling of the subject; facts with other spellings are found too"
    ),
    tag: str = "",
    project: AnyProject = "",
    task: AnyTask = "",
    user: AnyUser = "",
    trust: AnyTrust = "",
    scope: AnyScope = "",
    state: Literal["active", "expired", "not_yet_valid", "retired", "all"] = Query(
        "active", description="active: not retired, and valid now"
    ),
    as_of: Moment | None = Query(
        None, description="Recorded at that time and, according to today's records, valid then"
    ),
    recorded_as_of: Moment | None = Query(None, description="Recorded as true at that time, right or wrong"),
    valid_at: Moment | None = Query(None, description="Valid at that time, according to today's records"),
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """Facts of the token's persona, latest first. With a moment, `state` is ignored."""
    _, _, memory = caller(request, agent, "memory.view_fact")
    looks_back = bool(as_of or recorded_as_of or valid_at)
    facts = FactFilter.narrow(
        memory.facts,
        q=q,
        subject=subject,
        tag=tag,
        project=project,
        task=task,
        user=user,
        trust=trust,
        scope=scope,
        state="all" if looks_back else state,
    )
    # The console's filter of categories knows a name for several of them, which may be one of an agent's own.
    if category:
        facts = facts.filter(category=category)
    if moment := moment_check("as_of", as_of):
        facts = facts.as_of(moment)
    if moment := moment_check("recorded_as_of", recorded_as_of):
        facts = facts.recorded_as_of(moment)
    if moment := moment_check("valid_at", valid_at):
        facts = facts.valid_at(moment)
    return list_page(facts, moment="recorded_at", limit=limit, cursor=cursor)


@router.get("/facts/{fact_id}", response={200: FactOut, **REFUSALS}, summary="One fact")
def fact_get(request: HttpRequest, fact_id: UUID, agent: AgentSlug = "") -> Any:
    """One fact with both its times, active or retired. Answers 404 for one of another agent or persona."""
    return memory_row(request, agent, "view", Fact, fact_id)[0]


@router.get(
    "/facts/{fact_id}/history",
    response={200: page_of(FactChangeOut, "FactHistory"), **REFUSALS},
    summary="What happened to a fact",
)
def fact_history(
    request: HttpRequest,
    fact_id: UUID,
    agent: AgentSlug = "",
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """Every change of a fact with who made it and why, latest first."""
    fact, _ = memory_row(request, agent, "view", Fact, fact_id)
    # Numbered by themselves: their ids tell how much everybody else has changed.
    changes = fact.changes.annotate(number=Window(RowNumber(), order_by=["at", "id"]))
    return list_page(changes, moment="at", limit=limit, cursor=cursor, key="number")


@router.post("/facts/{fact_id}/confirm", response={200: FactOut, **CHANGE_REFUSALS}, summary="Confirm a fact")
def fact_confirm_post(
    request: HttpRequest, fact_id: UUID, payload: FactReasonIn | None = None, agent: AgentSlug = ""
) -> Any:
    """Count another confirmation of the fact."""
    return fact_confirm(
        **memory_arguments(request, agent, "add", Fact, fact_id), reason=payload.reason if payload else ""
    )


@router.post(
    "/facts/{fact_id}/supersede",
    response={200: SupersedeOut, 202: SupersedeOut, **CHANGE_REFUSALS},
    summary="Replace a fact",
)
def fact_supersede_post(request: HttpRequest, fact_id: UUID, payload: SupersedeIn, agent: AgentSlug = "") -> Any:
    """Replace this fact with another one: this one was true until then, and stays in the history.

    Only people can replace a fact that people wrote, confirmed or kept. For a token, 202 means that a review is
    pending, and 409 that there is a review already, or that people have decided.
    """
    _, by, memory = caller(request, agent, "memory.add_fact")
    old = row_of(memory.facts, fact_id, "fact")
    new = None if payload.fact_id is None else row_of(memory.facts, payload.fact_id, "fact")
    fields = None if payload.by is None else payload.by.dict(exclude_unset=True)
    replacement = fact_replace(old=old, new=new, fields=fields, by=by, reason=payload.reason, at=payload.at)
    return Status(202 if replacement.action == "queued" else 200, replacement)


@router.post(
    "/facts/{fact_id}/invalidate", response={200: FactOut, **CHANGE_REFUSALS}, summary="Mark a fact as wrong (people)"
)
def fact_invalidate_post(
    request: HttpRequest, fact_id: UUID, payload: FactReasonIn | None = None, agent: AgentSlug = ""
) -> Any:
    """Invalidate a fact that was never true: unlike a superseded one, it is removed from the valid past too."""
    return fact_invalidate(
        **memory_arguments(request, agent, "change", Fact, fact_id), reason=payload.reason if payload else ""
    )


@router.post(
    "/facts/{fact_id}/restore", response={200: FactOut, **CHANGE_REFUSALS}, summary="Restore a retired fact (people)"
)
def fact_restore_post(
    request: HttpRequest, fact_id: UUID, payload: FactRestoreIn | None = None, agent: AgentSlug = ""
) -> Any:
    """Make a retired fact active again as it was, as a new change of its history."""
    return fact_restore(
        **memory_arguments(request, agent, "change", Fact, fact_id), **(payload.dict() if payload else {})
    )


@router.patch("/facts/{fact_id}", response={200: FactOut, **CHANGE_REFUSALS}, summary="Recategorise a fact (people)")
def fact_patch(request: HttpRequest, fact_id: UUID, payload: FactPatch, agent: AgentSlug = "") -> Any:
    """Change tags, importance, category, scope or keys; the text of a fact is never edited."""
    return fact_edit(**memory_arguments(request, agent, "change", Fact, fact_id), **payload.dict(exclude_unset=True))


@router.post(
    "/facts/{fact_id}/expiry", response={200: FactOut, **CHANGE_REFUSALS}, summary="Change when a fact expires"
)
def fact_expiry_post(request: HttpRequest, fact_id: UUID, payload: ExpirySetIn, agent: AgentSlug = "") -> Any:
    """Let a fact expire at another time, or never. A token may do so with facts that it may replace."""
    return fact_expiry_set(**memory_arguments(request, agent, "add", Fact, fact_id), **payload.dict())

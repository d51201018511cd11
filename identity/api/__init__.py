"""The API of identity: sections, their versions, and proposals to change them."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Schema, Status
from pydantic import Field

from identity.models import ChangeProposal, IdentityVersion, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.policy.sections import MAX_REASON_CHARACTERS, MAX_SECTION_CHARACTERS, Section, section_check
from identity.principal import Principal
from identity.selectors import agent_called, agent_for, caller_of, identity_state, version_get
from identity.services.agents import agent_reinitiate
from identity.services.proposals import identity_propose
from nousweb.lib import Invalid, NotFound, existing
from nousweb.lib.constrained_types import AgentSlug, OneOf, PageLimit, text
from nousweb.lib.lookalikes import warnings_of
from nousweb.lib.schemas import REFUSALS, Derived, Input, Problem
from nousweb.lib.textdiff import diff_texts
from nousweb.lib.token_estimate import estimate_tokens

Reason = Annotated[str, text(MAX_REASON_CHARACTERS)]
SectionName = Annotated[str, OneOf(*Section.values)]
MemoryName = Annotated[str, Field(pattern=r"^(event [1-9][0-9]{0,17}|fact [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$")]


class IdentitySectionOut(Derived, of=IdentityVersion, fields="section version content"):
    tokens: int
    updated_at: datetime
    updated_by: str
    etag: str


class IdentityOut(Schema):
    agent: str
    initiation_state: str
    sections: dict[str, IdentitySectionOut] = Field(description="Current sections by name, in prompt order")
    prompt: str = Field(description="The sections rendered as a prompt")
    tokens: int = Field(description="Estimated tokens of the prompt")
    etag: str


class VersionOut(
    Derived,
    of=IdentityVersion,
    fields="section version content is_current created_at author_kind author_name reason",
):
    previous_version: int | None
    restores_version: int | None

    @staticmethod
    def resolve_previous_version(version: IdentityVersion) -> int | None:
        return version.previous.version if version.previous else None

    @staticmethod
    def resolve_restores_version(version: IdentityVersion) -> int | None:
        return version.restores.version if version.restores else None


class HistoryOut(Schema):
    items: list[VersionOut]
    next: int | None = Field(description="Pass as `before` for the next page; null on the last")


class DiffLine(Schema):
    kind: Literal["equal", "added", "removed", "changed"]
    old: str | None
    new: str | None


class DiffOut(Schema):
    section: SectionName
    from_version: int = Field(alias="from")
    to_version: int = Field(alias="to")
    added: int
    removed: int
    lines: list[DiffLine]


class ChangeIn(Input):
    content: str = Field(
        description="Complete new text of the section", json_schema_extra={"maxLength": MAX_SECTION_CHARACTERS}
    )
    reason: Reason = Field("", description="Reason; shown to the reviewer")
    learned_from: list[MemoryName] = Field(
        [], max_length=20, description="What it was learned from, each `event ID` or `fact ID`; shown to the reviewer"
    )
    base_version: Annotated[int, Field(ge=0, le=2_000_000_000, strict=True)] | None = Field(
        None, description="Version on which the edit is based, 0 for none; may be sent as If-Match instead"
    )
    mode: Literal["auto", "propose"] = Field(
        "auto",
        description="“propose” needs a person's decision even if the guardrails would apply the change",
    )


class TextWarningOut(Schema):
    code: Literal["look_alike", "mixed_direction", "hidden_character"]
    line: int = Field(description="Counted from 1")
    column: int = Field(description="Counted from 1")
    word: str = Field(description="The word with look-alike characters; empty for other codes")
    message: str


class ProposalOut(
    Derived,
    of=ChangeProposal,
    fields="id agent section status risk guardrail base_version content reason learned_from author_kind"
    " author_name reviewer_name comment edited created_at decided_at expires_at version",
):
    agent: str = Field(alias="agent.slug")
    guardrail: str = Field(description="Why it is pending or was applied, in words")
    version: int | None = Field(description="Version that it became after it was applied")
    warnings: list[TextWarningOut] = Field(description="Characters that a reader may misread")

    @staticmethod
    def resolve_warnings(proposal: ChangeProposal) -> list[Any]:
        return list(warnings_of(proposal.content))

    @staticmethod
    def resolve_version(proposal: ChangeProposal) -> int | None:
        return proposal.version.version if proposal.version else None


class ChangeOut(Schema):
    action: Literal["applied", "proposed", "unchanged"]
    proposal: ProposalOut | None
    version: VersionOut | None
    repeated: bool = Field(False, description="The same text is already pending: `proposal` is that proposal")


class YourText(Schema):
    content: str


class TextAt(YourText):
    version: int


class StaleBaseOut(Problem):
    section: SectionName
    base: TextAt
    current: TextAt
    yours: YourText


class ReinitiateIn(Input):
    reason: Reason = ""
    facts_from: str = Field(
        "", max_length=50, description="Slug of an agent whose facts about its user are used instead of its own"
    )


class ReinitiateOut(Schema):
    agent: str
    initiation_state: str
    written: dict[str, int] = Field(description="Sections that got a new version, with its number")
    proposed: dict[str, UUID] = Field(
        description="Sections whose new text is pending, with the proposal: all with four eyes, else those that read"
        " like an instruction to the agent"
    )


router = Router(tags=["identity"])

SectionPath = Annotated[str, Field(json_schema_extra={"enum": Section.values})]
VersionNumber = Annotated[int, Field(ge=1, le=2_000_000_000)]

_ETAG_PAIR = re.compile(r"(?P<section>[a-z]+)=(?P<version>\d{1,9})")
_ETAG = re.compile(rf'(W/)?"({_ETAG_PAIR.pattern}(,[a-z]+=\d{{1,9}})*)?"')


@router.get("/identity", response={200: IdentityOut, 304: None, **REFUSALS}, summary="The current identity")
def identity_get(request: HttpRequest, response: HttpResponse, agent: AgentSlug = "") -> Any:
    """Current sections with their versions, and the prompt they make. Answers 304 to a matching If-None-Match."""
    found, _ = agent_called(request, agent, "identity.view_identityversion")
    state = identity_state(found)
    response["ETag"] = state.etag
    if _known(request, state.etag):
        return Status(304, None)
    return {
        "agent": state.agent.slug,
        "initiation_state": state.agent.initiation_state,
        "sections": {version.section: _section_out(version) for version in state.versions},
        "prompt": state.prompt,
        "tokens": state.tokens,
        "etag": state.etag,
    }


@router.get(
    "/identity/{section}", response={200: IdentitySectionOut, 304: None, **REFUSALS}, summary="One current section"
)
def section_get(request: HttpRequest, response: HttpResponse, section: SectionPath, agent: AgentSlug = "") -> Any:
    """The current version of a section. Answers 304 to a matching If-None-Match."""
    found, _ = agent_called(request, agent, "identity.view_identityversion")
    version = existing(
        IdentityVersion.objects.current().filter(agent=found, section=section_check(section)).first(),
        f"{section} has no text yet.",
    )
    response["ETag"] = version.etag
    return Status(304, None) if _known(request, version.etag) else _section_out(version)


@router.get("/identity/{section}/history", response={200: HistoryOut, **REFUSALS}, summary="All versions")
def section_history(
    request: HttpRequest,
    section: SectionPath,
    agent: AgentSlug = "",
    limit: PageLimit = 50,
    before: VersionNumber | None = Query(None, description="Only versions below this number"),
) -> Any:
    """Versions of a section, latest first."""
    found, _ = agent_called(request, agent, "identity.view_identityversion")
    versions = IdentityVersion.objects.filter(agent=found, section=section_check(section))
    if before is not None:
        versions = versions.filter(version__lt=before)
    page = list(versions.select_related("previous", "restores").order_by("-version")[: limit + 1])
    items = page[:limit]
    return {"items": items, "next": items[-1].version if len(page) > limit else None}


@router.get(
    "/identity/{section}/diff",
    response={200: DiffOut, **REFUSALS},
    summary="Compare two versions",
    by_alias=True,
)
def section_diff(
    request: HttpRequest,
    section: SectionPath,
    agent: AgentSlug = "",
    from_version: VersionNumber = Query(..., alias="from"),
    to_version: VersionNumber = Query(..., alias="to"),
) -> Any:
    """What changed between two versions of a section, by line."""
    found, _ = agent_called(request, agent, "identity.view_identityversion")
    section_check(section)
    old = version_get(found, section, from_version)
    new = version_get(found, section, to_version)
    diff = diff_texts(old.content, new.content, context=MAX_SECTION_CHARACTERS)
    lines = [
        {
            "kind": row.kind,
            "old": "".join(span.text for span in row.old_spans) if row.old_no else None,
            "new": "".join(span.text for span in row.new_spans) if row.new_no else None,
        }
        for row in diff.rows
    ]
    return {
        "section": section,
        "from": old.version,
        "to": new.version,
        "added": diff.added,
        "removed": diff.removed,
        "lines": lines,
    }


@router.put(
    "/identity/{section}",
    response={200: ChangeOut, 202: ChangeOut, 409: StaleBaseOut | Problem, 429: None, **REFUSALS},
    summary="Change a section, or propose to",
)
def section_put(
    request: HttpRequest, response: HttpResponse, section: SectionPath, payload: ChangeIn, agent: AgentSlug = ""
) -> Any:
    """200 if the guardrails apply the change immediately, 202 if it needs a person's decision.

    The same text is not proposed twice: if it is pending already, 200 returns that proposal with `repeated`. A token
    gets 409 for text that people rejected lately and while too many of its proposals are pending, 429 after too many
    in a day.

    The base is `base_version` or an ETag in If-Match; if the section has changed since then, 409 returns
    the base, current and proposed texts. Without either, the change is based on the current version.
    """
    found, by = agent_called(request, agent)
    section_check(section)
    result = identity_propose(
        agent=found,
        section=section,
        content=payload.content,
        reason=payload.reason,
        learned_from=payload.learned_from,
        base_version=_base_version(request, section, payload.base_version),
        by=by,
        wait=payload.mode == "propose",
    )
    if result.version:
        response["ETag"] = result.version.etag
    body = {
        "action": result.action,
        "proposal": result.proposal,
        "version": result.version,
        "repeated": result.repeated,
    }
    return Status(202 if result.action == "proposed" and not result.repeated else 200, body)


@router.get("/proposals/{proposal_id}", response={200: ProposalOut, **REFUSALS}, summary="One change proposal")
def proposal_get(request: HttpRequest, proposal_id: UUID) -> Any:
    """Status of a proposal, and the reviewer's comment."""
    by = caller_of(request)
    proposal = ChangeProposal.objects.select_related("agent", "version").filter(pk=proposal_id).first()
    hidden = proposal is not None and not _shows(by, proposal)
    if proposal is None or hidden:
        raise NotFound("There is no such proposal.")
    by.require("identity.view_changeproposal", proposal.agent)
    return proposal


def _shows(by: Principal, proposal: ChangeProposal) -> bool:
    """Whether this caller may know of a proposal: a token of its own agent, and of the subconscious's only its own
    token and people with the right to it."""
    sealed = proposal.persona == Persona.SUBCONSCIOUS
    if by.token is not None:
        return by.token.agent_id == proposal.agent_id and (by.persona == Persona.SUBCONSCIOUS or not sealed)
    return not sealed or by.may(VIEW_SUBCONSCIOUS)


@router.post("/reinitiate", response={200: ReinitiateOut, **REFUSALS}, summary="Seed the identity again (people)")
def reinitiate(request: HttpRequest, payload: ReinitiateIn | None = None, agent: AgentSlug = "") -> Any:
    """Write character and preferences again from today's prompt and facts; people only. With four eyes, as proposals.

    The facts are those of the categories person, preference and rule: the agent's own, or those of `facts_from`.
    """
    found, by = agent_called(request, agent, "identity.reinitiate_agent")
    given = payload or ReinitiateIn(facts_from="")
    source = agent_for(by, given.facts_from) if given.facts_from else None
    written, proposed = agent_reinitiate(agent=found, by=by, reason=given.reason, facts_from=source)
    found.refresh_from_db()
    return {
        "agent": found.slug,
        "initiation_state": found.initiation_state,
        "written": {version.section: version.version for version in written},
        "proposed": {proposal.section: proposal.pk for proposal in proposed},
    }


def _section_out(version: IdentityVersion) -> dict[str, Any]:
    return {
        "section": version.section,
        "version": version.version,
        "content": version.content,
        "tokens": estimate_tokens(version.content),
        "updated_at": version.created_at,
        "updated_by": version.author_name,
        "etag": version.etag,
    }


def _known(request: HttpRequest, etag: str) -> bool:
    """Whether the caller holds the answer with `etag` already."""
    # Not Django's parse_etags: it cuts at every comma, and ours hold commas.
    held = request.headers.get("If-None-Match", "")
    return held.strip() == "*" or etag in re.findall(r'"[^"]*"', held)


def _base_version(request: HttpRequest, section: SectionPath, given: int | None) -> int | None:
    """The version that an edit is based on, from the body or from an ETag of the section or the whole."""
    header = request.headers.get("If-Match", "").strip()
    if not header or header == "*":
        return given
    # The ETag of an agent without identity names no section: its versions are all 0.
    pairs = {match["section"]: int(match["version"]) for match in _ETAG_PAIR.finditer(header)}
    if not _ETAG.fullmatch(header) or not pairs.keys() <= set(Section.values):
        raise Invalid("If-Match holds no ETag of an identity.", field="If-Match")
    named = pairs.get(section, 0)
    if given is not None and given != named:
        raise Invalid("base_version and If-Match name different versions.", field="base_version")
    return named

"""Reads of identity that API and console share; `filters` narrows lists."""

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Prefetch, Q, QuerySet, Window
from django.db.models.functions import Length, RowNumber
from django.http import HttpRequest

from identity.models import Agent, AgentKind, AuditEvent, ChangeProposal, IdentityVersion
from identity.policy.sections import SECTION_POLICY, Section, assemble_prompt
from identity.principal import Principal
from nousweb.lib import Invalid, NotFound, existing
from nousweb.lib.token_estimate import estimate_tokens


def agent_get(slug: str, by: Principal) -> Agent:
    """The agent called `slug`. Raises NotFound, also for one that `by` may not know of."""
    return existing(Agent.objects.visible_to(by).filter(slug=slug).first(), f"There is no agent {slug[:60]!r}.")


def agent_for(principal: Principal, slug: str) -> Agent:
    """The agent that an API call is about: a token's own, or the one that a person names with `agent`."""
    if principal.token is not None:
        if slug and slug != principal.token.agent.slug:
            raise NotFound("No such agent.")
        return principal.token.agent
    if not slug:
        raise Invalid("Name the agent: ?agent=…", field="agent")
    return agent_get(slug, principal)


def caller_of(request: HttpRequest) -> Principal:
    """Who calls the API."""
    return request.auth  # type: ignore[attr-defined]


def agent_called(request: HttpRequest, slug: str, permission: str = "") -> tuple[Agent, Principal]:
    """The agent that an API call is about, and who calls; a `permission` for this agent is checked."""
    by = caller_of(request)
    agent = agent_for(by, slug)
    if permission:
        by.require(permission, agent)
    return agent, by


def agent_as_of(agent: Agent, moment: datetime) -> Agent:
    """A copy of an agent with the kind and the configuration that it had at `moment`, as the audit trail tells."""
    kind, config = agent.kind, dict(agent.config)
    trail = AuditEvent.objects.of_object("agent", agent.pk).filter(
        action__in=("agent.update", "agent.configure"), at__gt=moment
    )
    for action, before in trail.order_by("-id").values_list("action", "before"):
        if not isinstance(before, dict):
            continue
        if action == "agent.configure":
            # An empty value is recorded as None.
            config = {name: value for name, value in (config | before).items() if value is not None}
        elif before.get("kind") in AgentKind.values:
            kind = before["kind"]
    then = copy(agent)
    then.kind, then.config = kind, config
    return then


@dataclass(frozen=True, slots=True)
class IdentityState:
    """An agent's identity as it stands: its current versions in prompt order, and the prompt they make."""

    agent: Agent
    versions: tuple[IdentityVersion, ...]
    prompt: str
    tokens: int

    @property
    def etag(self) -> str:
        """Validator of the whole: every section with its version, as an edit's base can be read from it."""
        return '"' + ",".join(f"{version.section}={version.version}" for version in self.versions) + '"'


def identity_state(agent: Agent, versions: Iterable[IdentityVersion] | None = None) -> IdentityState:
    """The current identity of `agent`, or the one made of `versions`."""
    if versions is None:
        versions = IdentityVersion.objects.current().filter(agent=agent).in_prompt_order()
    found = tuple(versions)
    prompt = assemble_prompt({version.section: version.content for version in found})
    return IdentityState(agent, found, prompt, estimate_tokens(prompt))


def version_get(agent: Agent, section: str, number: int) -> IdentityVersion:
    """One version of a section. Raises NotFound."""
    return existing(
        IdentityVersion.objects.filter(agent=agent, section=section, version=number).first(),
        f"{section} has no version {number}.",
    )


PHONE_LINE = 52
"""Characters that a line of text has on a phone."""


WAITING_SHOWN = 3
"""Maximum number of pending proposals that a section lists; the review queue has all of them."""


def section_states(state: IdentityState, by: Principal, *, waits: bool = True) -> list[dict[str, Any]]:
    """Every section in prompt order, the empty ones too: its policy, its current version if any, the colour that it has
    in every chart, and the first waiting proposals that `by` may see (`waits`), with the numbers of all. `is_long`: its
    text fills more than six lines of a phone."""
    versions = {version.section: version for version in state.versions}
    contents = {section: version.content for section, version in versions.items()}
    waiting: dict[str, list[ChangeProposal]] = {}
    counts: dict[str, tuple[int, int]] = {}
    if waits and by.may("identity.view_changeproposal"):
        proposals = ChangeProposal.objects.visible_to(by).waiting().filter(agent=state.agent).defer("content")
        ranked = proposals.annotate(
            place=Window(RowNumber(), partition_by="section", order_by=["created_at", "id"]),
            in_section=Window(Count("id"), partition_by="section"),
            pending=Window(Count("id", filter=Q(status=ChangeProposal.Status.PENDING)), partition_by="section"),
        ).filter(place__lte=WAITING_SHOWN)
        for proposal in ranked.order_by("created_at", "id"):
            waiting.setdefault(proposal.section, []).append(proposal)
            counts[proposal.section] = proposal.in_section, proposal.pending
    return [
        {
            "section": section,
            "policy": SECTION_POLICY[section],
            "version": versions.get(section),
            "tokens": section_tokens(section, contents[section]) if section in contents else 0,
            "has_text": bool(contents.get(section)),
            "is_long": sum(max(1, -(-len(line) // PHONE_LINE)) for line in contents.get(section, "").split("\n")) > 6,
            "css_class": f"seg-{number}",
            "waiting": waiting.get(section, ()),
            "waiting_count": counts.get(section, (0, 0))[0],
            "pending_count": counts.get(section, (0, 0))[1],
        }
        for number, section in enumerate(Section, 1)
    ]


def section_tokens(section: str, content: str) -> int:
    """Estimated tokens that a section takes in the prompt, its heading included."""
    return estimate_tokens(assemble_prompt({section: content}))


def sized_tokens(section: str, characters: int) -> int:
    """The result of `section_tokens` for a text of so many characters, up to the marks that rendering adds to it."""
    return section_tokens(section, "x" * characters)


def version_size(version: IdentityVersion) -> dict[str, int | None]:
    """The `tokens` of a version out of `section_history`, and their change (`trend`)."""
    size, before = version.size, version.size_before  # type: ignore[attr-defined]
    tokens = sized_tokens(version.section, size)
    return {"tokens": tokens, "trend": None if before is None else tokens - sized_tokens(version.section, before)}


def approvals() -> QuerySet[ChangeProposal]:
    """The proposals of versions, as the names of those who approved them need them."""
    return ChangeProposal.objects.only("version_id", "reviewer_name", "status", "edited")


def section_history(agent: Agent, section: str) -> QuerySet[IdentityVersion]:
    """Versions of a section, latest first, without their texts but with `size` and `size_before` in characters.

    Each comes with the version it restores and the proposals that led to it.
    """
    return (
        IdentityVersion.objects.filter(agent=agent, section=section)
        .select_related("restores")
        .defer("content", "restores__content")
        .annotate(size=Length("content"), size_before=Length("previous__content"))
        .prefetch_related(Prefetch("proposals", approvals()))
        .order_by("-version")
    )


def agents_overview(by: Principal, search: str = "") -> QuerySet[Agent]:
    """Agents whose name or slug holds `search`, each with `waiting` and its current versions in `current_versions`."""
    agents = (
        Agent.objects.visible_to(by)
        .with_waiting(by)
        .prefetch_related(Prefetch("identity_versions", IdentityVersion.objects.current(), to_attr="current_versions"))
    )
    if search:
        agents = agents.filter(Q(name__icontains=search) | Q(slug__icontains=search))
    # Grouping to count drops the model's own order.
    return agents.order_by("slug")

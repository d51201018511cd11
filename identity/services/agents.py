"""Create and change agents, and seed their initial identity, from the environment and from facts about their people.

Source: seed 008, A3. Other apps supply the facts (identity/registrations.py).
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.module_loading import import_string

from identity.models import SLUG_PATTERN, Agent, AgentKind, ChangeProposal, IdentityVersion, validate_slug
from identity.policy.sections import MAX_SECTION_CHARACTERS, Section
from identity.principal import Principal
from identity.registrations import new_agent_config, profile_sources
from identity.services.audit import audit_record
from identity.services.guardrails import content_check, remark_check, screening_reason
from identity.services.proposals import identity_propose
from identity.services.versions import agent_lock, requires_proposal, version_activate, version_current
from nousweb.lib import Conflict, Invalid, choice_check, clock, name_check
from nousweb.lib.prompt_escaping import fence_line

PROFILE_HEADINGS = (("person", "User"), ("preference", "Preferences"), ("rule", "Rules"))
SEEDING = Principal.of_system("seeding")
"""Proposes the texts that nobody wrote or saw as they are."""
BOUNDARIES_TEXT = "See Active Censors section for current safety rules."


@transaction.atomic
def identity_seed(
    *, agent: Agent, by: Principal, prompt: str | None = None, facts_from: Agent | None = None, new: bool = False
) -> list[IdentityVersion]:
    """Write the first sections of an agent without identity; returns them, or nothing if it has any.

    `prompt` is the character's text, NOUS_IDENTITY_PROMPT by default. The preferences come from the facts about people
    of the agent itself, or of the agent `facts_from`. Without either the agent stays new. With four eyes the sections
    are only proposed, and the agent stays new until another person approves. A text that reads like an instruction to
    the agent is only proposed too, unless it is the prompt and `by` is a person. `new`: this transaction has just
    created the agent, so nobody else can reach it and it has no facts, and the database is not queried for them.
    """
    if not new:
        agent = agent_lock(agent)
        if IdentityVersion.objects.filter(agent=agent).exists():
            return []
    text = settings.IDENTITY_PROMPT if prompt is None else prompt
    return _write_seed(agent, by, text, "Seeded.", facts_source_check(facts_from, by), new=new)[0]


@dataclass(frozen=True, slots=True)
class SeedChange:
    """One section that seeding would write: its text now, if any, and the text that it would get."""

    section: str
    current: IdentityVersion | None
    content: str


Seeded = tuple[list[IdentityVersion], list[ChangeProposal]]
"""The result of seeding: the written versions, and the proposals for a person to approve: all sections with four eyes,
else those that the screening finds."""


def facts_source_check(source: Agent | None, by: Principal) -> Agent | None:
    """The agent whose facts seed another one. Raises NotAllowed if `by` may not read them."""
    if source is not None:
        by.require("memory.view_fact", source)
    return source


def seed_plan(
    agent: Agent, prompt: str | None = None, facts_from: Agent | None = None, *, new: bool = False
) -> list[SeedChange]:
    """The changes that seeding `agent` would make: from `prompt` (NOUS_IDENTITY_PROMPT by default) and from today's
    facts, its own or those of the agent `facts_from`. A `new` agent has neither facts nor sections."""
    character = content_check(settings.IDENTITY_PROMPT if prompt is None else prompt)
    source = facts_from or (None if new else agent)
    wanted = {Section.CHARACTER: character, Section.PREFERENCES: _profile_text(source) if source else ""}
    if any(wanted.values()):
        wanted[Section.BOUNDARIES] = BOUNDARIES_TEXT
    current_ones = () if new else IdentityVersion.objects.current().filter(agent=agent)
    held = {version.section: version for version in current_ones}
    changes = []
    for section, text in wanted.items():
        current = held.get(section)
        keep_boundaries = section == Section.BOUNDARIES and current is not None
        if text and not keep_boundaries and (current is None or current.content != text):
            changes.append(SeedChange(section, current, text))
    return changes


def identity_screen(*, agent: Agent, by: Principal) -> list[ChangeProposal]:
    """Propose the current sections of an imported agent that the screening finds, and empty these until a person
    decides. The caller holds the agent in its transaction."""
    proposed = []
    for current in IdentityVersion.objects.current().filter(agent=agent):
        if screening_reason(by, current.content):
            version_activate(
                agent=agent,
                section=current.section,
                content="",
                reason="Quarantined: the imported text is proposed.",
                by=by,
                current=current,
                action="identity.update",
            )
            change = SeedChange(current.section, version_current(agent, current.section), current.content)
            proposed += _propose_seed(agent, SEEDING, [change], "Imported.")
    return proposed


def seed_digest(plan: Sequence[SeedChange]) -> str:
    """A digest of this plan, by which a person confirms exactly the changes that they saw."""
    parts = [(change.section, change.current.version if change.current else 0, change.content) for change in plan]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@transaction.atomic
def agent_reinitiate(
    *, agent: Agent, by: Principal, reason: str = "", seen: str = "", facts_from: Agent | None = None
) -> Seeded:
    """Seed an agent's identity again from today's prompt and facts, as new versions where the text differs.

    The facts are its own, or those of the agent `facts_from`, which `by` must be allowed to read.
    With four eyes each of the texts becomes a proposal, which another person must approve.
    `seen` is the digest of the plan that was agreed to; raises Conflict when it would no longer be this one. Without
    it, a text from facts that reads like an instruction to the agent is only proposed.
    """
    by.require("identity.reinitiate_agent", agent)
    reason = remark_check(reason, field="reason")
    facts_from = facts_source_check(facts_from, by)
    agent = agent_lock(agent)
    if seen and seen != seed_digest(seed_plan(agent, facts_from=facts_from)):
        raise Conflict("The identity or the facts behind it have changed since the changes were shown.")
    why = reason or "Seeded again."
    written, proposed = _write_seed(agent, by, settings.IDENTITY_PROMPT, why, facts_from, seen=bool(seen))
    before = agent.initiated_at
    if written or not proposed:
        agent.initiated_at = clock.now()
        agent.save(update_fields=["initiated_at"])
    audit_record(
        by=by,
        action="agent.reinitiate",
        target=agent,
        agent=agent,
        before={"initiated_at": before.isoformat() if before else None},
        after={
            "initiated_at": agent.initiated_at.isoformat() if agent.initiated_at else None,
            "sections": {version.section: version.version for version in written},
            "proposed": {proposal.section: str(proposal.pk) for proposal in proposed},
            **({"facts_from": facts_from.slug} if facts_from else {}),
        },
        message=reason,
    )
    return written, proposed


def _write_seed(
    agent: Agent,
    by: Principal,
    prompt: str,
    reason: str,
    facts_from: Agent | None,
    *,
    new: bool = False,
    seen: bool = False,
) -> Seeded:
    plan = seed_plan(agent, prompt, facts_from, new=new)
    if requires_proposal(by):
        return [], _propose_seed(agent, by, plan, reason)
    proposed, written = [], []
    for change in plan:
        persons_own = by.is_person and (seen or change.section != Section.PREFERENCES)
        if not persons_own and screening_reason(SEEDING, change.content):
            proposed += _propose_seed(agent, SEEDING, [change], reason)
            continue
        written.append(
            version_activate(
                agent=agent,
                section=change.section,
                content=change.content,
                reason=reason,
                by=by,
                current=change.current,
                action="identity.seed",
            )
        )
    return written, proposed


def _propose_seed(agent: Agent, by: Principal, plan: Sequence[SeedChange], reason: str) -> list[ChangeProposal]:
    proposed = []
    for change in plan:
        base = change.current.version if change.current else 0
        same = ChangeProposal.objects.pending().filter(
            agent=agent, section=change.section, base_version=base, content=change.content
        )
        if not same.exists():
            result = identity_propose(
                agent=agent, section=change.section, content=change.content, reason=reason, base_version=base, by=by
            )
            proposed += [result.proposal] if result.proposal else []
    return proposed


def _profile_text(agent: Agent) -> str:
    known: dict[str, list[str]] = {category: [] for category, _ in PROFILE_HEADINGS}
    for path in profile_sources:
        for category, texts in import_string(path)(agent).items():
            known[category].extend(texts)
    text = ""
    for category, heading in PROFILE_HEADINGS:
        opening = f"\n\n### {heading}" if text else f"### {heading}"
        for known_text in known[category]:
            addition = f"{opening}\n- {fence_line(known_text)}"
            # A section has to stay short enough to be edited; omitted facts remain facts.
            if len(text) + len(addition) <= MAX_SECTION_CHARACTERS:
                text, opening = text + addition, ""
    return text


@transaction.atomic
def agent_create(
    *,
    slug: str,
    name: str = "",
    kind: str = AgentKind.SQUIRE,
    by: Principal,
    prompt: str | None = None,
    facts_from: Agent | None = None,
) -> Agent:
    """Create an agent and seed its identity from a prompt, and from the facts about people of the agent `facts_from`.

    Raises Invalid for a bad slug, name or kind, Conflict if it exists, and NotAllowed for facts that `by` may not read.
    """
    by.require("identity.add_agent")
    facts_source_check(facts_from, by)
    # Not by calling the validator: its $ lets a line break pass.
    if not re.fullmatch(SLUG_PATTERN, slug):
        raise Invalid(str(validate_slug.message), field="slug")
    name = name_check(name or slug)
    choice_check("kind", kind, AgentKind.values)
    try:
        with transaction.atomic():
            agent = Agent.objects.create(slug=slug, name=name, kind=kind, config=dict(new_agent_config))
    except IntegrityError as error:
        raise Conflict(f"There is already an agent {slug!r}.", field="slug") from error
    audit_record(
        by=by,
        action="agent.create",
        target=agent,
        agent=agent,
        after={
            "slug": slug,
            "name": name,
            "kind": kind,
            **({"facts_from": facts_from.slug} if facts_from else {}),
        },
    )
    identity_seed(agent=agent, by=by, prompt=prompt, facts_from=facts_from, new=True)
    return agent


@transaction.atomic
def agent_update(*, agent: Agent, name: str, kind: str, by: Principal) -> Agent:
    """Change an agent's name and kind; its slug is for ever, since other systems hold it."""
    by.require("identity.change_agent", agent)
    name = name_check(name)
    choice_check("kind", kind, AgentKind.values)
    agent = agent_lock(agent)
    before = {"name": agent.name, "kind": agent.kind}
    after = {"name": name, "kind": kind}
    if before != after:
        agent.name, agent.kind = name, kind
        agent.save(update_fields=["name", "kind"])
        audit_record(by=by, action="agent.update", target=agent, agent=agent, before=before, after=after)
    return agent


@transaction.atomic
def agent_configure(*, agent: Agent, name: str, value: Any, by: Principal) -> Agent:
    """Set one entry of an agent's configuration; None removes it. Other entries stay as they are."""
    return agent_configure_all(agent=agent, entries={name: value}, by=by)


@transaction.atomic
def agent_configure_all(*, agent: Agent, entries: Mapping[str, Any], reason: str = "", by: Principal) -> Agent:
    """Set these entries of an agent's configuration under one record; None removes one, others stay as they are.

    Raises Invalid for a reason that is too long or cannot be stored.
    """
    by.require("identity.change_agent", agent)
    reason = remark_check(reason, field="reason")
    agent = agent_lock(agent)
    after = {name: value for name, value in entries.items() if agent.config.get(name) != value}
    if after:
        before = {name: agent.config.get(name) for name in after}
        agent.config = {name: value for name, value in {**agent.config, **after}.items() if value is not None}
        agent.save(update_fields=["config"])
        audit_record(
            by=by, action="agent.configure", target=agent, agent=agent, before=before, after=after, message=reason
        )
    return agent

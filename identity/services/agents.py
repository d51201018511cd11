"""Create and change agents."""

import re
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction

from identity.models import SLUG_PATTERN, Agent, AgentKind, validate_slug
from identity.policy.sections import MAX_REASON_CHARACTERS
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.initial_identity import facts_source_check, identity_seed
from identity.services.versions import agent_lock
from nousweb.lib.characters import invisible_characters
from nousweb.lib.errors import Conflict, Invalid
from nousweb.lib.validation import unstorable_reason


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
    name = _name_check(name or slug)
    _kind_check(kind)
    try:
        with transaction.atomic():
            agent = Agent.objects.create(slug=slug, name=name, kind=kind)
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
    name = _name_check(name)
    _kind_check(kind)
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
    if len(reason) > MAX_REASON_CHARACTERS or unstorable_reason(reason):
        raise Invalid(f"A reason must have at most {MAX_REASON_CHARACTERS:,} storable characters.", field="reason")
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


def _name_check(name: str) -> str:
    name = " ".join(name.split())
    if not name or len(name) > 100 or unstorable_reason(name):
        raise Invalid("A name must have 1 to 100 storable characters.", field="name")
    if hidden := invisible_characters(name, 1):
        raise Invalid(f"A name must not contain {hidden[0].code} {hidden[0].name}, which is invisible.", field="name")
    return name


def _kind_check(kind: str) -> None:
    if kind not in AgentKind.values:
        raise Invalid(f"There is no kind {kind!r}; the kinds are {', '.join(AgentKind.values)}.", field="kind")

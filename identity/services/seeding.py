"""The first identity of an agent, from the environment and from what is known about its people.

Source: seed 008, A3. Other apps supply the known facts through `profile_sources`, so that identity
depends on none of them.
"""

from collections.abc import Callable, Mapping, Sequence

from django.conf import settings
from django.db import transaction

from identity.models import Agent, IdentityVersion
from identity.policy import Section
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.versions import agent_lock, version_activate, version_current
from nousweb.lib import clock

ProfileSource = Callable[[Agent], Mapping[str, Sequence[str]]]
profile_sources: list[ProfileSource] = []
"""Each returns texts by category: "person", "preference" and "rule"."""

PROFILE_HEADINGS = (("person", "User"), ("preference", "Preferences"), ("rule", "Rules"))
BOUNDARIES_TEXT = "See Active Censors section for current safety rules."


@transaction.atomic
def identity_seed(*, agent: Agent, by: Principal, prompt: str | None = None) -> list[IdentityVersion]:
    """Give an agent without identity its first sections; returns them, or nothing when it has any.

    `prompt` is the character's text, NOUS_IDENTITY_PROMPT by default; without one there is nothing to be
    initiated with, and the agent stays new.
    """
    agent = agent_lock(agent)
    if IdentityVersion.objects.filter(agent=agent).exists():
        return []
    return _write_seed(agent, by, settings.IDENTITY_PROMPT if prompt is None else prompt, "Seeded.")


@transaction.atomic
def agent_reinitiate(*, agent: Agent, by: Principal, reason: str = "") -> list[IdentityVersion]:
    """Seed an agent's identity anew from today's prompt and facts, as new versions where the text differs."""
    by.require("identity.reinitiate_agent", agent)
    agent = agent_lock(agent)
    written = _write_seed(agent, by, settings.IDENTITY_PROMPT, reason or "Initiated anew.")
    before = agent.initiated_at
    agent.initiated_at = clock.now()
    agent.save(update_fields=["initiated_at"])
    audit_record(
        by=by,
        action="agent.reinitiate",
        target=agent,
        agent=agent,
        before={"initiated_at": before.isoformat() if before else None},
        after={
            "initiated_at": agent.initiated_at.isoformat(),
            "sections": {version.section: version.version for version in written},
        },
        message=reason,
    )
    return written


def _write_seed(agent: Agent, by: Principal, prompt: str, reason: str) -> list[IdentityVersion]:
    profile = _profile_text(agent)
    wanted = {Section.CHARACTER: prompt.strip(), Section.PREFERENCES: profile}
    if any(wanted.values()):
        wanted[Section.BOUNDARIES] = BOUNDARIES_TEXT
    written = []
    for section, text in wanted.items():
        current = version_current(agent, section)
        keep_boundaries = section == Section.BOUNDARIES and current is not None
        if text and not keep_boundaries and (current is None or current.content != text):
            written.append(
                version_activate(
                    agent=agent,
                    section=section,
                    content=text,
                    reason=reason,
                    by=by,
                    current=current,
                    action="identity.seed",
                )
            )
    return written


def _profile_text(agent: Agent) -> str:
    known: dict[str, list[str]] = {category: [] for category, _ in PROFILE_HEADINGS}
    for source in profile_sources:
        for category, texts in source(agent).items():
            known[category].extend(texts)
    return "\n\n".join(
        f"### {heading}\n" + "\n".join(f"- {text}" for text in known[category])
        for category, heading in PROFILE_HEADINGS
        if known[category]
    )

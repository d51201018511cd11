"""Decides whether a wish to change an identity is applied at once or waits for a person."""

from dataclasses import dataclass

from django.conf import settings

from identity.models import Agent, ChangeProposal, IdentityVersion, Persona
from identity.policy.proposal_limits import AGENT_UPDATE_WINDOW, AGENT_UPDATES_PER_WINDOW, REJECTION_STANDS
from identity.policy.sections import (
    MAX_REASON_CHARACTERS,
    MAX_SECTION_CHARACTERS,
    SECTION_POLICY,
    change_risk,
    change_size,
)
from identity.principal import Principal
from identity.services.proposal_checks import lately_refused
from nousweb.lib import clock
from nousweb.lib.errors import Invalid
from nousweb.lib.validation import unapprovable_reason, unstorable_reason


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to apply at once, and the reason in words that people read beside the change."""

    apply: bool
    reason: str


def guardrail_decide(
    *, agent: Agent, section: str, current: IdentityVersion | None, by: Principal, content: str | None = None
) -> Verdict:
    """Judge a change of `section`, now `current`, wished by `by`, under the agent's lock. Source: seed 008, guardrails.

    `content` is the wished text, where it is known: a change so large that its risk rises waits for a person.

    What a person wrote, or looked at and let stand, is theirs: an agent only proposes to replace it, and so it does
    where people have lately refused a change of the section. The subconscious only proposes, whatever the section: what
    it applied would be words of its own in the actor's prompt, and would use up the actor's update.
    """
    if by.is_person:
        if not by.may("identity.review_changeproposal"):
            return Verdict(False, "Proposed by a person without the right to approve.")
        if settings.FOUR_EYES:
            return Verdict(False, "Four eyes: another person must approve.")
        return Verdict(True, "Applied by a person with the right to approve.")
    if settings.FOUR_EYES:
        return Verdict(False, "Four eyes: a person other than the creator of the token must approve.")
    if by.persona == Persona.SUBCONSCIOUS:
        return Verdict(False, "The subconscious can only propose; a person decides.")
    if not SECTION_POLICY[section].agent_may_apply:
        return Verdict(False, f"An agent cannot change its {section} without a person.")
    before = current.content if current else ""
    if content is not None and change_risk(section, before, content) != SECTION_POLICY[section].risk:
        return Verdict(False, f"A change of {change_size(before, content):,} characters needs a person's approval.")
    if current is not None and is_peoples(current):
        return Verdict(False, f"A person wrote the {section}: an agent can only propose to change them.")
    if lately_refused(agent=agent, by=by).filter(section=section).exists():
        return Verdict(
            False,
            f"People rejected or reverted a change of the {section} in the last {REJECTION_STANDS.days} days:"
            " the next one needs their approval.",
        )
    if updates_in_window(agent) >= AGENT_UPDATES_PER_WINDOW:
        return Verdict(False, "The agent has used its one identity update of the last 24 hours.")
    return Verdict(True, f"Agents may change their {section} themselves, once a day.")


def is_peoples(version: IdentityVersion) -> bool:
    """Whether the version is a person's word: written, restored or emptied by one, or approved or kept as it is."""
    if version.author_kind == IdentityVersion.Kind.PERSON:
        return True
    return ChangeProposal.objects.filter(version=version, status=ChangeProposal.Status.APPROVED).exists()


def updates_in_window(agent: Agent) -> int:
    """Number of updates that the agent itself has applied in the last 24 hours, whatever became of them."""
    return ChangeProposal.objects.filter(
        agent=agent, self_applied=True, created_at__gt=clock.now() - AGENT_UPDATE_WINDOW
    ).count()


def text_check(content: str, reason: str, *, by: Principal) -> tuple[str, str]:
    """Return section text and reason in the form they are stored; raise Invalid, naming the field."""
    content = content_check(content)
    if not content and not by.is_person:
        raise Invalid("Only a person may empty a section.", field="content")
    return content, remark_check(reason, field="reason")


def content_check(content: str) -> str:
    """Return a section's text in the form it is stored; raise Invalid when it cannot be."""
    if why := unstorable_reason(content):
        raise Invalid(why, field="content")
    content = content.replace("\r\n", "\n").replace("\r", "\n").strip()
    if len(content) > MAX_SECTION_CHARACTERS:
        raise Invalid(
            f"A section holds at most {MAX_SECTION_CHARACTERS:,} characters; this has {len(content):,}.",
            field="content",
        )
    if why := unapprovable_reason(content):
        raise Invalid(why, field="content")
    return content


def remark_check(remark: str, *, field: str) -> str:
    """Return a reason or a comment in the form it is stored; raise Invalid, naming `field`."""
    if why := unstorable_reason(remark):
        raise Invalid(why, field=field)
    remark = remark.strip()
    if len(remark) > MAX_REASON_CHARACTERS:
        raise Invalid(f"A {field} holds at most {MAX_REASON_CHARACTERS:,} characters.", field=field)
    return remark

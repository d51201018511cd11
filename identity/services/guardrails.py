"""Guardrails: whether a change of an identity is applied at once or needs the approval of a person."""

from dataclasses import dataclass
from textwrap import shorten

from django.conf import settings

from identity.models import Agent, ChangeProposal, IdentityVersion, Persona
from identity.policy.sections import (
    AGENT_UPDATE_WINDOW,
    AGENT_UPDATES_PER_WINDOW,
    MAX_REASON_CHARACTERS,
    MAX_SECTION_CHARACTERS,
    REJECTION_STANDS,
    SECTION_POLICY,
    Section,
    change_risk,
    change_size,
)
from identity.principal import Principal
from identity.services.proposal_checks import lately_refused
from nousweb.lib import clock
from nousweb.lib.errors import Invalid
from nousweb.lib.injection.scan import scan_text
from nousweb.lib.validation import unapprovable_reason, unstorable_reason

MAX_GUARDRAIL_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class GuardrailVerdict:
    """Whether to apply a change at once, and the reason that people read beside it.

    `quarantined`: its text reads like an instruction to the agent, or holds a secret.
    """

    apply: bool
    reason: str
    quarantined: bool = False


def guardrail_decide(
    *,
    agent: Agent,
    section: str,
    current: IdentityVersion | None,
    by: Principal,
    content: str | None = None,
    reason: str = "",
) -> GuardrailVerdict:
    """Decide about a change of `section`, now `current`, by `by`, under the agent's lock. Source: seed 008, guardrails.

    `content` is the new text, if it is known, with the reason given for it: a change so large that its risk rises needs
    a person, and so does a text that the screening finds, unless a person wrote it.

    An agent can only propose to replace a section that a person wrote, approved or kept. The same holds if people
    have lately refused a change of the section. The subconscious can only propose, whatever the section: otherwise it
    would put its own words into the actor's prompt, and use up the actor's daily update.
    """
    if by.is_person:
        if not by.may("identity.review_changeproposal"):
            return GuardrailVerdict(False, "Proposed by a person without the right to approve.")
        if settings.FOUR_EYES:
            return GuardrailVerdict(False, "Four eyes: another person must approve.")
        return GuardrailVerdict(True, "Applied by a person with the right to approve.")
    if found := screening_reason(by, content or "", reason):
        return GuardrailVerdict(False, found, quarantined=True)
    if settings.FOUR_EYES:
        return GuardrailVerdict(False, "Four eyes: a person other than the creator of the token must approve.")
    if by.persona == Persona.SUBCONSCIOUS:
        return GuardrailVerdict(False, "The subconscious can only propose; a person decides.")
    if not SECTION_POLICY[section].agent_may_apply:
        return GuardrailVerdict(False, f"An agent cannot change its {section} without a person.")
    before = current.content if current else ""
    if content is not None and change_risk(section, before, content) != SECTION_POLICY[section].risk:
        size = change_size(before, content)
        return GuardrailVerdict(False, f"A change of {size:,} characters needs a person's approval.")
    if current is not None and is_verified_by_people(current):
        return GuardrailVerdict(False, f"A person wrote the {section}: an agent can only propose to change them.")
    if lately_refused(agent=agent, by=by).filter(section=section).exists():
        return GuardrailVerdict(
            False,
            f"People rejected or reverted a change of the {section} in the last {REJECTION_STANDS.days} days:"
            " the next one needs their approval.",
        )
    if updates_in_window(agent) >= AGENT_UPDATES_PER_WINDOW:
        return GuardrailVerdict(False, "The agent has used its one identity update of the last 24 hours.")
    return GuardrailVerdict(True, f"Agents may change their {section} themselves, once a day.")


def screening_reason(by: Principal, *texts: str) -> str:
    """Why these texts by `by`, who is no person, need a person's decision; "" if the screening finds nothing."""
    trust = "imported" if by.channel == "import" else "agent"
    match = next((found for text in texts if (found := scan_text(text, trust))), None)
    if match is None:
        return ""
    words = " ".join(match.words)
    return shorten(
        f"Quarantined until a person decides, since it reads like an instruction or a secret. {words}",
        MAX_GUARDRAIL_CHARACTERS,
    )


def is_verified_by_people(version: IdentityVersion) -> bool:
    """Whether people decided about the version: wrote, restored or emptied it, or approved or kept it as it is."""
    if version.author_kind == IdentityVersion.Kind.PERSON:
        return True
    return ChangeProposal.objects.filter(version=version, status=ChangeProposal.Status.APPROVED).exists()


def is_undecided(agent: Agent, section: str, version: int) -> bool:
    """Whether no person decided about a version of a section: neither somebody of the console nor, for the character,
    the operator whose environment seeded it."""
    row = IdentityVersion.objects.filter(agent=agent, section=section, version=version).first()
    if row is None or (row.author_kind == IdentityVersion.Kind.SYSTEM and section == Section.CHARACTER):
        return False
    return not is_verified_by_people(row)


def updates_in_window(agent: Agent) -> int:
    """Number of updates that the agent itself has applied in the last 24 hours, including updates undone since."""
    return ChangeProposal.objects.filter(
        agent=agent, self_applied=True, created_at__gt=clock.now() - AGENT_UPDATE_WINDOW
    ).count()


def section_text_check(content: str, reason: str, *, by: Principal) -> tuple[str, str]:
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

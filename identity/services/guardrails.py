"""Guardrails: whether a change of an identity is applied at once, needs the approval of a person, or is refused.

The same text is proposed once, rejected texts not at all, and never too many. That is checked in the transaction of a
proposal, behind `proposing_lock`, so that of two concurrent ones the second sees the first.
"""

import re
import unicodedata
from dataclasses import dataclass
from datetime import timedelta
from textwrap import shorten

from django.conf import settings
from django.db.models import QuerySet

from identity.models import Agent, ChangeProposal, IdentityVersion, Persona
from identity.policy.sections import (
    AGENT_UPDATE_WINDOW,
    AGENT_UPDATES_PER_WINDOW,
    MAX_PENDING_PROPOSALS_PER_TOKEN,
    MAX_PROPOSALS_PER_TOKEN_AND_DAY,
    MAX_REASON_CHARACTERS,
    MAX_SECTION_CHARACTERS,
    PROPOSAL_WINDOW,
    REJECTION_STANDS,
    SECTION_POLICY,
    Section,
    change_risk,
    change_size,
)
from identity.principal import Principal
from nousweb.lib import Conflict, Invalid, TooMany, clock, length_check, storable_check, unapprovable_reason
from nousweb.lib.injection.scan import scan_text
from nousweb.lib.lookalikes import lookalike_fold, powers_marked
from nousweb.lib.transactions import transaction_lock

Status = ChangeProposal.Status
MAX_COMPARED = 500


def proposing_lock(agent: Agent, by: Principal) -> None:
    """Wait for other proposals of the same persona, until the end of their transaction."""
    transaction_lock(f"propose:{agent.pk}:{by.persona}")


def proposal_waiting(
    *, agent: Agent, section: str, content: str, base_version: int, by: Principal
) -> ChangeProposal | None:
    """The pending proposal of exactly this text on the same base by the same: a person, or a persona of the agent."""
    alike = ChangeProposal.objects.pending().filter(
        agent=agent,
        section=section,
        base_version=base_version,
        persona=by.persona,
        author_kind=by.kind,
        content=content,
    )
    if by.is_person:
        # Four eyes look at who proposed.
        alike = alike.filter(author_id=by.id)
    return alike.filter(expires_at__gt=clock.now()).order_by("created_at").first()


def lately_refused(*, agent: Agent, by: Principal) -> QuerySet[ChangeProposal]:
    """The proposals that people lately rejected or reverted, in any section, as far as `by` may see them."""
    refused = ChangeProposal.objects.filter(
        agent=agent,
        status__in=(Status.REJECTED, Status.REVERTED),
        decided_at__gt=clock.now() - REJECTION_STANDS,
    )
    return refused if by.persona == Persona.SUBCONSCIOUS else refused.filter(persona=by.persona)


def rejection_check(*, agent: Agent, content: str, by: Principal) -> None:
    """Raise Conflict where `by` is a token and people turned these words down, or took them back, not long ago.

    In any section: words that they did not want among the boundaries would be in the prompt as a protocol, too.
    """
    if by.kind != "token":
        return
    wished = bare_words(content)
    for each in lately_refused(agent=agent, by=by).order_by("-decided_at")[:MAX_COMPARED]:
        if bare_words(each.content) == wished:
            why = f" “{each.comment}”" if each.comment else ""
            raise Conflict(
                f"{each.reviewer_name} {each.get_status_display().lower()} these words"
                f" ({each.section}) on {each.decided_at:%Y-%m-%d}.{why} Propose something else.",
                proposal=str(each.pk),
            )


def caps_check(*, agent: Agent, by: Principal, waits: bool) -> None:
    """Raise Conflict where a proposal that `waits` is one too many of this token, TooMany where it has made as many in
    the last 24 hours as it may."""
    if by.kind != "token":
        return
    own = ChangeProposal.objects.filter(agent=agent, author_kind=by.kind, author_id=by.id)
    if waits and (waiting := own.pending().count()) >= MAX_PENDING_PROPOSALS_PER_TOKEN:
        raise Conflict(
            f"{waiting} proposals of this token are pending, which is the limit. Propose again after some are decided."
        )
    since = clock.now() - PROPOSAL_WINDOW
    made = own.filter(created_at__gt=since).order_by("-created_at")
    moments = list(made.values_list("created_at", flat=True)[:MAX_PROPOSALS_PER_TOKEN_AND_DAY])
    if len(moments) >= MAX_PROPOSALS_PER_TOKEN_AND_DAY:
        raise TooMany(
            f"A token may make {MAX_PROPOSALS_PER_TOKEN_AND_DAY} proposals in 24 hours.",
            retry_after=max(1, int((moments[-1] - since) / timedelta(seconds=1)) + 1),
        )


# All characters except letters and digits, and the fillers of Hangul, which are invisible letters. A sign, a separator
# or a power belongs to its number: 0.5 is not 05.
_NO_WORD = re.compile("(?:(?![-\u2212+.,^/][0-9])[\\W_\u115f\u1160])+")


def bare_words(content: str) -> str:
    """A text for comparison with rejected ones: its letters and numbers alone, case-folded, with lookalikes as Latin
    letters.

    A text without any of these is compared by its other characters.
    """
    folded = unicodedata.normalize("NFKC", powers_marked(lookalike_fold(content))).casefold()
    plain = " ".join(folded.split())
    return _NO_WORD.sub("", plain) or plain


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
        return GuardrailVerdict(
            False, f"A change of {change_size(before, content):,} characters needs a person's approval."
        )
    if current is not None and is_verified_by_people(current):
        return GuardrailVerdict(False, f"A person wrote the {section}: an agent can only propose to change them.")
    if lately_refused(agent=agent, by=by).filter(section=section).exists():
        return GuardrailVerdict(
            False,
            f"People rejected or reverted a change of the {section} in the last {REJECTION_STANDS.days} days:"
            " the next one needs their approval.",
        )
    # Updates that were undone since count too.
    since = clock.now() - AGENT_UPDATE_WINDOW
    own = ChangeProposal.objects.filter(agent=agent, self_applied=True, created_at__gt=since)
    if own.count() >= AGENT_UPDATES_PER_WINDOW:
        return GuardrailVerdict(False, "The agent has used its one identity update of the last 24 hours.")
    return GuardrailVerdict(True, f"Agents may change their {section} themselves, once a day.")


def screening_reason(by: Principal, *texts: str) -> str:
    """Why these texts by `by`, who is no person, need a person's decision; "" if the screening finds nothing."""
    trust = "imported" if by.channel == "import" else "agent"
    match = next((found for text in texts if (found := scan_text(text, trust))), None)
    if match is None:
        return ""
    return shorten(
        f"Quarantined until a person decides, since it reads like an instruction or a secret. {' '.join(match.words)}",
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


def section_text_check(content: str, reason: str, *, by: Principal) -> tuple[str, str]:
    """Return section text and reason in the form they are stored; raise Invalid, naming the field."""
    content = content_check(content)
    if not content and not by.is_person:
        raise Invalid("Only a person may empty a section.", field="content")
    return content, remark_check(reason, field="reason")


def content_check(content: str) -> str:
    """Return a section's text in the form it is stored; raise Invalid when it cannot be."""
    content = storable_check("content", content).replace("\r\n", "\n").replace("\r", "\n").strip()
    length_check("content", content, MAX_SECTION_CHARACTERS)
    if why := unapprovable_reason(content):
        raise Invalid(why, field="content")
    return content


def remark_check(remark: str, *, field: str) -> str:
    """Return a reason or a comment in the form it is stored; raise Invalid, naming `field`."""
    return length_check(field, storable_check(field, remark).strip(), MAX_REASON_CHARACTERS)

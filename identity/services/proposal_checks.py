"""Checks against repeated proposals: the same text is proposed once, rejected texts not at all, and never too many.

Called in the transaction of a proposal, behind `proposing_lock`, so that of two concurrent ones the second sees the
first.
"""

import re
import unicodedata
from datetime import timedelta

from django.db.models import QuerySet

from identity.models import Agent, ChangeProposal, Persona
from identity.policy.sections import (
    MAX_PENDING_PROPOSALS_PER_TOKEN,
    MAX_PROPOSALS_PER_TOKEN_AND_DAY,
    PROPOSAL_WINDOW,
    REJECTION_STANDS,
)
from identity.principal import Principal
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, TooMany
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


def pending_cap_check(*, agent: Agent, by: Principal) -> None:
    """Raise Conflict where as many proposals of this token wait as may."""
    if by.kind != "token":
        return
    waiting = ChangeProposal.objects.pending().filter(agent=agent, author_kind=by.kind, author_id=by.id).count()
    if waiting >= MAX_PENDING_PROPOSALS_PER_TOKEN:
        raise Conflict(
            f"{waiting} proposals of this token are pending, which is the limit. Propose again after some are decided."
        )


def daily_cap_check(*, agent: Agent, by: Principal) -> None:
    """Raise TooMany where this token has made as many proposals in the last 24 hours as it may."""
    if by.kind != "token":
        return
    since = clock.now() - PROPOSAL_WINDOW
    made = ChangeProposal.objects.filter(
        agent=agent, author_kind=by.kind, author_id=by.id, created_at__gt=since
    ).order_by("-created_at")
    moments = list(made.values_list("created_at", flat=True)[:MAX_PROPOSALS_PER_TOKEN_AND_DAY])
    if len(moments) >= MAX_PROPOSALS_PER_TOKEN_AND_DAY:
        wait = moments[-1] - since
        raise TooMany(
            f"A token may make {MAX_PROPOSALS_PER_TOKEN_AND_DAY} proposals in 24 hours.",
            retry_after=max(1, int(wait / timedelta(seconds=1)) + 1),
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

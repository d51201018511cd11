"""What needs a person on Home: items that wait for a decision, and what failed, each with its remedy."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from django.db.models import Count, Min, Q
from django.urls import reverse

from context.expectations.services import broken_results
from context.models import ExpectationResult
from identity.models import ChangeProposal, Persona, Webhook
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.policy.sections import Risk, Section
from identity.principal import Principal
from memory.models import Job, MemoryReview
from nousweb.console.inbox.filter import RISK_KINDS, InboxFilter
from nousweb.console.inbox.items import items_of, review_title
from nousweb.console.inbox.proposal_items import ProposalItem
from nousweb.lib.permission_holder import for_visible_agents

ITEMS_SHOWN = 6
FAILURES_READ = 100
WEBHOOKS_SHOWN = 3
QUESTION_CHARACTERS = 90


@dataclass(frozen=True, slots=True)
class WaitingItem:
    """An item of the inbox: what would change or is at stake, its kind, agent, risk and badge; it stands for `members`
    that are near-identical, or that contradict each other, which `compare` shows side by side."""

    title: str
    kind: str
    agent: str
    risk: str
    badge: str
    at: datetime
    url: str
    members: int
    compare: str


def waiting_items(by: Principal) -> tuple[list[WaitingItem], int]:
    """The most urgent items of the inbox of `by`, near-identical ones as one, and how many there are in all."""
    part = InboxFilter()
    inbox = part.search(by)
    found = inbox.groups(size=ITEMS_SHOWN + 1)
    entries = found[:ITEMS_SHOWN]
    rows = []
    for entry, item in items_of(entries):
        risk = Risk(entry.risk)
        rows.append(
            WaitingItem(
                title=item.change if isinstance(item, ProposalItem) else review_title(item),
                kind=_kind(item),
                agent=(item.proposal if isinstance(item, ProposalItem) else item).agent.name,
                risk=f"{risk.label} risk",
                badge=RISK_KINDS[risk],
                at=entry.created_at,
                url=part.item_url(entry.type, entry.id),
                members=entry.members,
                compare=reverse("inbox_compare", args=[entry.type, entry.id]) if entry.has_rivals else "",
            )
        )
    total = sum(entry.members for entry in found) if len(found) <= ITEMS_SHOWN else inbox.count()
    return rows, total


def _kind(item: ProposalItem | MemoryReview) -> str:
    if isinstance(item, MemoryReview):
        return item.get_kind_display()
    applied = item.proposal.status == ChangeProposal.Status.APPLIED
    return f"{Section(item.proposal.section).label}{', applied by the agent itself' if applied else ''}"


@dataclass(frozen=True, slots=True)
class Failure:
    """What failed, as a sentence, what to do about it, and where; `brief` is a part of a sentence: "2 jobs failed"."""

    title: str
    remedy: str
    brief: str
    at: datetime | None
    url: str


def expectation_failures(broken: list[ExpectationResult]) -> list[Failure]:
    """Expectations that failed or could not be checked, by agent."""
    counted = Counter((row.agent.slug, row.state) for row in broken)
    failures = []
    for (slug, state), number in counted.items():
        rows = [row for row in broken if (row.agent.slug, row.state) == (slug, state)]
        fails = state == ExpectationResult.State.FAILED
        name, verb = rows[0].agent.name, _verb(number) if fails else "could not be checked"
        if number == 1:
            words = rows[0].expectation.input
            shown = f"{words[:QUESTION_CHARACTERS].rstrip()}…" if len(words) > QUESTION_CHARACTERS else words
            title = f"The expectation of {name} for “{shown}” {verb}"
            url = reverse("agent_expectation", args=[slug, rows[0].expectation_id])
        else:
            title = f"{_number(number)} expectations of {name} {verb}"
            url = f"{reverse('agent_expectations', args=[slug])}?state={state}"
        remedy = (
            "See which change broke it, then undo the change or correct the expectation."
            if fails
            else "Read why on its page, and correct the expectation."
        )
        brief = f"{_number(number)} expectation{'' if number == 1 else 's'} {verb}"
        failures.append(Failure(title, remedy, brief, min(row.since for row in rows), url))
    return failures


def _number(number: int) -> str:
    return f"{number:,}{' or more' if number >= FAILURES_READ else ''}"


def _verb(number: int) -> str:
    return "fails" if number == 1 else "fail"


def broken_expectations(by: Principal) -> list[ExpectationResult]:
    """The current results that are not passed, the latest first. One query."""
    found = broken_results(by).select_related("expectation", "agent").order_by("-since", "-id")
    return list(found[:FAILURES_READ])


def job_failures(by: Principal, personas: tuple[str, ...]) -> list[Failure]:
    """Jobs that failed too often and were given up. One query."""
    dead = for_visible_agents(Job.objects.filter(status=Job.Status.DEAD, persona__in=personas), by)
    found = dead.aggregate(count=Count("pk"), oldest=Min("finished_at"))
    if not (count := found["count"]):
        return []
    what = f"{count:,} job{'' if count == 1 else 's'} failed"
    return [
        Failure(
            f"{what} permanently",
            "Its work is not done. Read the error, remove the cause and try it again."
            if count == 1
            else "Their work is not done. Read the errors, remove the causes and try them again.",
            what,
            found["oldest"],
            f"{reverse('lifecycle')}?status={Job.Status.DEAD}",
        )
    ]


def webhook_failures(by: Principal) -> list[Failure]:
    """Webhooks whose messages fail, or that were disabled for it. One query."""
    failing = Q(state=Webhook.State.DISABLED) | Q(state=Webhook.State.ACTIVE, failures__gt=0)
    found = (
        for_visible_agents(Webhook.objects.filter(failing), by).select_related("agent").order_by("state", "-failures")
    )
    if not by.may(VIEW_SUBCONSCIOUS):
        found = found.exclude(persona=Persona.SUBCONSCIOUS)
    rows = list(found[:FAILURES_READ])
    failures = []
    for row in rows[:WEBHOOKS_SHOWN]:
        tries = f"{row.failures:,} failed attempt{'' if row.failures == 1 else 's'}"
        off = row.state == Webhook.State.DISABLED
        # An address may have a secret in its path.
        title = f"The webhook of {row.agent.name} to {urlsplit(row.url).hostname or 'its address'}"
        failures.append(
            Failure(
                f"{title} {'was disabled' if off else 'does not deliver'} after {tries}",
                "Its receiver learns of no change. Correct the address or the receiver"
                f"{', then activate it' if off else ''}.",
                "1 webhook fails",
                None,
                row.get_absolute_url(),
            )
        )
    if rest := len(rows) - WEBHOOKS_SHOWN if len(rows) > WEBHOOKS_SHOWN else 0:
        more = f"{_number(rest)} more webhook{'' if rest == 1 else 's'} {_verb(rest)}"
        failures.append(Failure(more, "Open the agent's webhooks.", more, None, reverse("agents")))
    return failures

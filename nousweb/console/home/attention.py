"""What needs a person on Home: items that wait for a decision, and what failed, each with its remedy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit
from uuid import UUID

from django.db.models import Count, F, Min, Q, Value
from django.db.models.fields.json import KeyTextTransform
from django.urls import reverse

from context.expectations.services import broken_results
from context.models import ExpectationResult
from identity.models import ChangeProposal, Webhook
from identity.policy.sections import Section
from identity.principal import Principal
from memory.models import Job, MemoryReview
from nousweb.console.home.board_rows import board_query, moment_read
from nousweb.console.inbox.filter import InboxFilter
from nousweb.console.inbox.item_titles import ItemTitle, review_title
from nousweb.console.inbox.proposal_items import APPLIED, ProposalItem, with_texts
from nousweb.console.inbox.query import PROPOSAL, REVIEW, InboxEntry
from nousweb.lib.permission_holder import for_visible_agents
from nousweb.lib.prepared_statements import Rows

ITEMS_SHOWN = 5
FAILURES_READ = 100
WEBHOOKS_SHOWN = 3
QUESTION_CHARACTERS = 90
OF_REVIEW = ("kind", "subject", "proposal", "reasons", "facts", "details", "agent__name", "censor__pattern")


@dataclass(frozen=True, slots=True)
class WaitingItem:
    """An item of the inbox: what would change or is at stake, its kind, agent and risk; it stands for `members`
    that are near-identical, or that contradict each other, which `compare` shows side by side."""

    title: ItemTitle
    kind: str
    agent: str
    risk: str
    at: datetime
    url: str
    members: int
    compare: str
    alike: str
    badges: Sequence[Mapping[str, str]] = ()

    @property
    def when(self) -> tuple[str, datetime]:
        """The moment that the row shows, after no word."""
        return "", self.at


def waiting_items(by: Principal) -> tuple[list[WaitingItem], int]:
    """The first items of the inbox of `by`, in its order, near-identical ones as one, and their number."""
    part = InboxFilter()
    inbox = part.search(by)
    found = inbox.groups(size=ITEMS_SHOWN + 1)
    entries = found[:ITEMS_SHOWN]
    rows = []
    items = _items(entries)
    for entry in entries:
        if (item := items.get(entry.id)) is None:
            continue
        owner = item.proposal if isinstance(item, ProposalItem) else item
        rows.append(
            WaitingItem(
                title=item.change if isinstance(item, ProposalItem) else review_title(item),
                kind=item.get_kind_display()
                if isinstance(item, MemoryReview)
                else Section(item.proposal.section).label,
                agent=owner.agent.name,
                risk=entry.risk,
                at=entry.created_at,
                url=part.item_url(entry.type, entry.id),
                members=entry.members,
                compare=reverse("inbox_compare", args=[entry.type, entry.id]) if entry.has_rivals else "",
                alike=InboxFilter(alike=entry.alike).url() if not entry.has_rivals and entry.members > 1 else "",
                badges=[APPLIED] if isinstance(item, ProposalItem) and item.is_applied else [],
            )
        )
    total = sum(entry.members for entry in found) if len(found) <= ITEMS_SHOWN else inbox.counts()[""]
    return rows, total


def _items(entries: Sequence[InboxEntry]) -> dict[UUID, ProposalItem | MemoryReview]:
    """The items of these entries, with no more of them than their titles need: a statement of all columns takes twice
    as long to write. A query for each type."""
    keys = {kind: [entry.id for entry in entries if entry.type == kind] for kind in (PROPOSAL, REVIEW)}
    proposals = with_texts(ChangeProposal.objects.filter(pk__in=keys[PROPOSAL])).only(
        "section", "status", "content", "edited", "base_version", "agent__name", "version__content"
    )
    reviews = (
        MemoryReview.objects.filter(pk__in=keys[REVIEW])
        .select_related("agent", "old", "new", "censor")
        .only("old__content", "new__content", *OF_REVIEW)
    )
    items: dict[UUID, ProposalItem | MemoryReview] = {row.pk: ProposalItem(row) for row in proposals}
    return items | {row.pk: row for row in reviews}


@dataclass(frozen=True, slots=True)
class Failure:
    """What failed, as a sentence, what to do about it, and where; `brief` is a part of a sentence: "2 jobs failed"."""

    title: str
    remedy: str
    brief: str
    at: datetime | None
    url: str


@dataclass(frozen=True, slots=True)
class BrokenExpectation:
    """An expectation that failed (`fails`), or could not be checked, since a moment."""

    agent: str
    slug: str
    question: str
    fails: bool
    since: datetime
    url: str


BROKEN = board_query(
    lambda sight: (
        broken_results(sight)
        .order_by("-since", "-id")
        .annotate(
            slug=F("agent__slug"), name=F("agent__name"), question=KeyTextTransform("input", "expectation__request")
        )
        .values_list("name", "slug", "question", "state", "since", "expectation_id")[:FAILURES_READ]
    )
)


def broken_expectations(rows: Rows) -> list[BrokenExpectation]:
    """The rows of BROKEN, the latest first."""
    return [
        BrokenExpectation(
            name,
            slug,
            question or "",
            state == ExpectationResult.State.FAILED,
            moment_read(since),
            reverse("agent_expectation", args=[slug, key]),
        )
        for name, slug, question, state, since, key in rows
    ]


def expectation_failures(broken: Sequence[BrokenExpectation]) -> list[Failure]:
    """Expectations that failed or could not be checked, by agent."""
    groups: dict[tuple[str, bool], list[BrokenExpectation]] = {}
    for row in broken:
        groups.setdefault((row.slug, row.fails), []).append(row)
    failures = []
    for (slug, fails), rows in groups.items():
        number = len(rows)
        name, verb = rows[0].agent, _verb(number) if fails else "could not be checked"
        if number == 1:
            title, url = f"The expectation of {name} for “{_shortened(rows[0].question)}” {verb}", rows[0].url
        else:
            title = f"{_number(number)} expectations of {name} {verb}"
            state = ExpectationResult.State.FAILED if fails else ExpectationResult.State.ERROR
            url = f"{reverse('agent_expectations', args=[slug])}?state={state}"
        remedy = (
            "See which change broke it, then undo the change or correct the expectation."
            if fails
            else "Read why on its page, and correct the expectation."
        )
        brief = f"{_number(number)} expectation{'' if number == 1 else 's'} {verb}"
        failures.append(Failure(title, remedy, brief, min(row.since for row in rows), url))
    return failures


def _shortened(words: str) -> str:
    return f"{words[:QUESTION_CHARACTERS].rstrip()}…" if len(words) > QUESTION_CHARACTERS else words


def _number(number: int) -> str:
    return f"{number:,}{' or more' if number >= FAILURES_READ else ''}"


def _verb(number: int) -> str:
    return "fails" if number == 1 else "fail"


DEAD_JOBS = board_query(
    lambda sight: (
        for_visible_agents(Job.objects.filter(status=Job.Status.DEAD, persona__in=sight.personas), sight)
        .order_by()
        .values_list(Value("jobs"))
        .annotate(count=Count("pk"), oldest=Min("finished_at"))
        .values_list("count", "oldest")
    )
)


def job_failures(rows: Rows) -> list[Failure]:
    """Jobs that failed too often and were given up, from the row of DEAD_JOBS."""
    count, oldest = rows[0] if rows else (0, None)
    if not count:
        return []
    what = f"{count:,} job{'' if count == 1 else 's'} failed"
    return [
        Failure(
            f"{what} permanently",
            "Its work is not done. Read the error, remove the cause and try it again."
            if count == 1
            else "Their work is not done. Read the errors, remove the causes and try them again.",
            what,
            moment_read(oldest),
            f"{reverse('lifecycle')}?status={Job.Status.DEAD}",
        )
    ]


FAILING_WEBHOOKS = board_query(
    lambda sight: (
        for_visible_agents(
            Webhook.objects.filter(
                Q(state=Webhook.State.DISABLED) | Q(state=Webhook.State.ACTIVE, failures__gt=0),
                persona__in=sight.personas,
            ),
            sight,
        )
        .order_by("state", "-failures", "id")
        .annotate(slug=F("agent__slug"), name=F("agent__name"))
        .values_list("id", "name", "slug", "url", "state", "failures")[:FAILURES_READ]
    )
)


def webhook_failures(rows: Rows) -> list[Failure]:
    """Webhooks whose messages fail, or that were disabled for it, from the rows of FAILING_WEBHOOKS."""
    failures = []
    for key, name, slug, url, state, number in rows[:WEBHOOKS_SHOWN]:
        tries = f"{number:,} failed attempt{'' if number == 1 else 's'}"
        off = state == Webhook.State.DISABLED
        # An address may have a secret in its path.
        title = f"The webhook of {name} to {urlsplit(url).hostname or 'its address'}"
        failures.append(
            Failure(
                f"{title} {'was disabled' if off else 'does not deliver'} after {tries}",
                "Its receiver learns of no change. Correct the address or the receiver"
                f"{', then activate it' if off else ''}.",
                "1 webhook fails",
                None,
                reverse("agent_webhook", args=[slug, key]),
            )
        )
    if rest := max(len(rows) - WEBHOOKS_SHOWN, 0):
        more = f"{_number(rest)} more webhook{'' if rest == 1 else 's'} {_verb(rest)}"
        failures.append(Failure(more, "Open the agent's webhooks.", more, None, reverse("agents")))
    return failures

"""A person's latest decisions: their pace, and the addresses that undo them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any
from uuid import UUID

from django.db.models import Count, Max, Q, QuerySet
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.urls import reverse

from identity.models import ChangeProposal
from identity.policy.inbox import DECIDE_RIGHTS
from identity.principal import Principal
from memory.models import MemoryReview
from memory.selectors import visible_reviews
from nousweb.console.inbox.filter import InboxFilter
from nousweb.console.inbox.proposal_items import proposal_name
from nousweb.console.inbox.query import PROPOSAL, REVIEW
from nousweb.lib import clock

USUAL_SECONDS = 20.0
"""For each decision, until a person has taken a few."""
LONGEST_GAP = 300.0
"""Maximum seconds between two decisions; a longer gap is a break."""
SHORTEST_GAP = 0.5
"""Seconds; decisions that are closer together were one action about many."""
MIN_GAPS = 3
LATELY = timedelta(days=1)
READ = 30
"""Maximum number of a person's latest decisions that are read."""


def seconds_each(moments: Sequence[datetime]) -> float:
    """The median time between decisions that were taken at `moments`, in whichever order."""
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(sorted(moments)[-READ:])]
    gaps = [gap for gap in gaps if SHORTEST_GAP <= gap <= LONGEST_GAP]
    return median(gaps) if len(gaps) >= MIN_GAPS else USUAL_SECONDS


def minutes_left(waiting: int, moments: Sequence[datetime]) -> int:
    """The minutes, rounded up, that `waiting` decisions take at this person's pace."""
    return math.ceil(waiting * seconds_each(moments) / 60)


OFFERED = 5
"""Decisions that can be undone from a page; those of a bulk action count as one."""
PLURALS = {PROPOSAL: "proposals", REVIEW: "reviews"}
Status = ChangeProposal.Status


MOMENTS_READ = 2_000
"""Maximum number of a person's latest decisions that are read, for their pace and today's count."""


def decisions_lately(by: Principal) -> list[datetime]:
    """The times of this person's decisions within the last day, of all types. One query."""
    since = clock.now() - LATELY
    proposals = ChangeProposal.objects.filter(reviewer_id=by.id, decided_at__gte=since).order_by()
    reviews = MemoryReview.objects.filter(resolver_id=by.id, resolver_kind="person", resolved_at__gte=since).order_by()
    both: Any = proposals.values_list("decided_at").union(reviews.values_list("resolved_at"), all=True)
    return [moment for (moment,) in both[:MOMENTS_READ]]


@dataclass(frozen=True, slots=True)
class LatestDecision:
    """A decision, or those of one bulk action; `url` undoes it, "" where it cannot be undone.

    `at` names the decision: an undo of another one, made since, is refused.
    """

    word: str
    what: str
    at: datetime
    url: str = ""
    many: bool = False


def undo_offer(request: HttpRequest, by: Principal, part: InboxFilter) -> dict[str, Any] | None:
    """For components/undo.html, after a decision or an undo: the latest decisions of `by`. At most three queries.

    The one that the address names (`done`, `batch`) comes first, and has the key; `rest` are the others.
    """
    named = request.GET.get("batch") or request.GET.get("done") or ""
    if not named and "undone" not in request.GET:
        return None
    decided = dict([*_proposals(by, part), *_reviews(by, part)])
    latest = sorted(decided, key=lambda key: decided[key].at, reverse=True)[:OFFERED]
    first = next((decided[key] for key in latest if str(key) == named), None) or _closed(named, by)
    rest = [decided[key] for key in latest if str(key) != named]
    return (asdict(first) if first else {}) | {"rest": rest} if first or rest else None


def _proposals(by: Principal, part: InboxFilter) -> Iterator[tuple[UUID, LatestDecision]]:
    mine = ChangeProposal.objects.visible_to(by).filter(
        reviewer_id=by.id, status__in=(Status.APPROVED, Status.REJECTED), decided_at__gte=clock.now() - LATELY
    )
    for row in _groups(mine, "decided_at", "section", "status", "agent__name", kept=Count("pk", Q(self_applied=True))):
        word = "Kept" if row["kept"] and row["status"] == Status.APPROVED else str(Status(row["status"]).label)
        yield _decided(PROPOSAL, row, word, proposal_name(row["section"], row["agent__name"]), by, part)


def _reviews(by: Principal, part: InboxFilter) -> Iterator[tuple[UUID, LatestDecision]]:
    mine = visible_reviews(by).filter(
        resolver_id=by.id, resolver_kind="person", status="resolved", resolved_at__gte=clock.now() - LATELY
    )
    about = ("subject", "new__content", "censor__pattern", "proposal")
    for row in _groups(mine, "resolved_at", "kind", "resolution", *about):
        named = next((row[name] for name in about if row[name]), "")
        what = ", ".join(filter(None, [MemoryReview.Kind(row["kind"]).label, " ".join(named.split())[:120]]))
        yield _decided(REVIEW, row, f"{MemoryReview.Resolution(row['resolution']).label}:", what, by, part)


def _groups(rows: QuerySet[Any], moment: str, *fields: str, **counts: Count) -> QuerySet[Any]:
    """One row for each bulk action and each single decision, the latest first."""
    about = {name: Max(name) for name in fields}
    grouped = rows.order_by().values(key=Coalesce("batch", "pk"))
    return grouped.annotate(at=Max(moment), number=Count("pk"), batches=Count("batch"), **about, **counts).order_by(
        "-at"
    )[:OFFERED]


def _decided(
    item_type: str, row: dict[str, Any], word: str, what: str, by: Principal, part: InboxFilter
) -> tuple[UUID, LatestDecision]:
    if row["batches"]:
        page = reverse("inbox_undo", args=[row["key"]])
    else:
        page = reverse("item_change", args=[item_type, row["key"], "undo"])
    url = part.address(page) if by.may(DECIDE_RIGHTS[item_type]) else ""
    many = row["number"] > 1
    what = f"{row['number']} {PLURALS[item_type]}" if many else what.rstrip(".… ")
    return row["key"], LatestDecision(word, what, row["at"], url, many)


def _closed(named: str, by: Principal) -> LatestDecision | None:
    """The proposal of this key if it was closed in a way that cannot be undone: withdrawn, or reverted."""
    try:
        key = UUID(named)
    except ValueError:
        return None
    closed = ChangeProposal.objects.visible_to(by).filter(pk=key, status__in=(Status.WITHDRAWN, Status.REVERTED))
    row = closed.select_related("agent").first()
    if row is None or row.decided_at is None:
        return None
    return LatestDecision(row.get_status_display(), proposal_name(row.section, row.agent.name), row.decided_at)

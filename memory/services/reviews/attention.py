"""Spend the attention budget of an agent: which of its new reviews people are asked about, and asking later.

A review of two facts, or of an attribute, that is over the budget is undecided: nobody is asked, both facts stay, and
prompts mark the older one. What people verified is always asked about and costs nothing.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import Fact, MemoryReview
from memory.policy.attention import DAY, FACTS, AttentionBudget
from memory.policy.autonomy import AutomaticDecision, Autonomy
from memory.policy.categories import PROFILE_CATEGORIES
from memory.services.reviews.records import REVIEW, joined_pairs, review_lock
from nousweb.lib import clock
from nousweb.lib.errors import Conflict

OPENED = "memory_review.ask"
Kind = MemoryReview.Kind
Status = MemoryReview.Status
BUDGETED = (Kind.CONTRADICTION, Kind.DUPLICATE, Kind.ATTRIBUTE)
"""The kinds that cost attention. Without an answer to one of them, its facts stay beside each other."""


def is_budgeted(review: MemoryReview) -> bool:
    """Whether people are asked about a new review only within the budget: it is about two facts that nobody verified,
    or about an attribute."""
    verified = any(fact is not None and fact.endorsed for fact in (review.old, review.new))
    return review.kind in BUDGETED and not verified


def undecided_mark(review: MemoryReview, by: Principal) -> None:
    """Let nobody be asked about this review, which `by` opens; the caller saves it."""
    review.status = Status.UNDECIDED
    review.details = review.details | {"undecided": True, "writer": by.name}


def undecided_ask(review: MemoryReview, by: Principal, *, always: bool) -> None:
    """Ask people about this locked, undecided review, if the budget allows it; `always`: whatever the budget."""
    if always:
        _ask(review, later=True)
    else:
        reviews_ask_within_budget([review], later=True)
    if review.status == Status.PENDING:
        opened_record(review, by)


def reviews_ask_within_budget(reviews: Sequence[MemoryReview], *, later: bool = False) -> None:
    """Ask people about as many of these undecided reviews of one agent as its budget allows, the highest stake first.
    `later`: they have been undecided for a time."""
    if not reviews:
        return
    now = clock.now()
    asked = sorted(reviews, key=_stake, reverse=True)[: _left(reviews[0].agent_id)]
    for review in asked:
        review.asked_at = now
        _ask(review, later=later)


@agent_transaction(of="review")
def review_ask(*, review: MemoryReview, by: Principal) -> MemoryReview:
    """Ask people about an undecided review, whatever the budget; for a pair of an attribute, about its attribute.

    Raises Conflict if it is not undecided, NotAllowed.
    """
    by.require(REVIEW, review.agent)
    review = review_lock(review)
    if review.status == Status.UNDECIDED and (question := review.details.get("question")):
        review = review_lock(MemoryReview(pk=question, agent=review.agent))
    if review.status != Status.UNDECIDED:
        raise Conflict("This review is not undecided: people are asked, or it is resolved.")
    undecided_ask(review, by, always=True)
    return review


def opened_record(review: MemoryReview, by: Principal) -> None:
    """Record that people are asked about a review that was not opened for them at first."""
    after: dict[str, Any] = {"kind": review.kind, "about": review.about}
    audit_record(by=by, action=OPENED, target=review, agent=review.agent, after=after)


def _ask(review: MemoryReview, *, later: bool) -> None:
    now = clock.now()
    for each in (review, *(joined_pairs(review) if review.kind == Kind.ATTRIBUTE else ())):
        each.status = Status.PENDING if each is review else Status.JOINED
        each.details = {name: value for name, value in each.details.items() if name != "undecided"}
        if later:
            # Prompts as of a moment before show it as undecided.
            each.details["undecided_until"] = now.isoformat()
        each.expires_at = now + timedelta(days=settings.REVIEW_EXPIRY_DAYS)
        each.save(update_fields=["status", "details", "asked_at", "expires_at"])


def has_budget_left(agent_id: int) -> bool:
    """Whether people may be asked about one more review of this agent now."""
    return _left(agent_id) != 0


def _left(agent_id: int) -> int | None:
    """How many more reviews people may be asked about now; None for any number."""
    config = Agent.objects.values_list("config", flat=True).get(pk=agent_id)
    budget = AttentionBudget.of_config(config)
    if budget.unlimited or Autonomy.of_config(config).asks(AutomaticDecision.UNDECIDED):
        return None
    asked = MemoryReview.objects.filter(agent=agent_id, asked_at__isnull=False)
    left = budget.per_day - asked.filter(asked_at__gt=clock.now() - DAY).count()
    if left <= 0 or not budget.per_hundred_facts:
        return 0
    spent = asked.count()
    # Of a large agent, only as many facts as are needed are counted.
    needed = FACTS * ((spent + left) // budget.per_hundred_facts + 1)
    facts = Fact.objects.filter(agent=agent_id).order_by()[:needed].count()
    return max(0, min(left, budget.asked_at_most(facts) - spent))


def _stake(review: MemoryReview) -> tuple[bool, bool, float]:
    """How much depends on a review: core memory, contradicting values, and how unsure the judge is, if asked."""
    is_core = any(fact is not None and fact.category in PROFILE_CATEGORIES for fact in (review.old, review.new))
    return is_core, review.kind != Kind.DUPLICATE, 1.0 - float(review.verdict.get("confidence") or 0.0)

"""Blind samples: reviewers answer a share of what was decided automatically, as if nobody had decided it.

The review is pending, its page does not show the decision, and prompts keep the decision until a person disagrees. The
answers measure how often each kind of decision errs; a kind that errs too often goes back to asking.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count

from identity.models import Agent, Notification
from identity.policy.inbox import DECIDE_RIGHTS
from identity.principal import Principal
from identity.services.agents import agent_configure_all
from identity.services.inbox_items import InboxItem, people_notify
from memory.comparison.compare_facts import Comparison, reasons_of
from memory.models import Fact, MemoryReview, MemoryReviewQuerySet, plain, scope_contains
from memory.policy.oversight import (
    AGREES,
    AUTONOMY_KEY,
    MIN_BLIND_ANSWERS,
    AutomaticDecision,
    Autonomy,
    is_blind_sample,
    wilson_interval,
)
from memory.services.reviews.open_review import pair_review_key
from memory.services.reviews.states import Kind, Status, has_budget_left, opened_record
from nousweb.lib import clock

BY = Principal.of_system("autonomy")
DECISION_KINDS = {AutomaticDecision.SUPERSEDED: Kind.CONTRADICTION, AutomaticDecision.CONFIRMED: Kind.DUPLICATE}
SHOWN_AS = ("valid_from", "valid_until", "last_confirmed_at", "confirmation_count")
"""The fields of a fact that an automatic decision changes, and that would tell of it."""
MAX_UNDECIDED_READ = 10_000


def fields_before(fact: Fact) -> dict[str, Any]:
    """The fields of a fact before an automatic decision, for `as_if_undecided`."""
    values = {name: getattr(fact, name) for name in SHOWN_AS}
    return {name: plain(value) for name, value in values.items()}


def sample_is_due(new: Fact, by: Principal) -> bool:
    """Whether reviewers are to see the automatic decision about a new fact: it is one of the share, and the attention
    budget is not spent."""
    return not by.is_person and is_blind_sample(new.pk) and has_budget_left(new.agent_id)


def sample_open(
    *,
    old: Fact,
    new: Fact,
    decision: AutomaticDecision,
    comparison: Comparison,
    writer: str,
    undo: Mapping[str, Any],
    before: Mapping[str, Any],
    by: Principal,
) -> None:
    """Open the blind review of an automatic decision, unless the pair was reviewed before. `undo` is the data for
    undoing the decision, `before` the `fields_before` of both facts."""
    now = clock.now()
    blind = {"decision": str(decision), "writer": writer, "undo": dict(undo), "before": dict(before)}
    draft = MemoryReview(
        agent=new.agent,
        persona=new.persona,
        kind=DECISION_KINDS[decision],
        about=pair_review_key(old.pk, new.pk),
        old=old,
        new=new,
        subject=new.subject or old.subject,
        score=round(comparison.cosine, 4),
        reasons=reasons_of(comparison),
        details={"undecided": True, "blind": blind},
        created_at=now,
        asked_at=now,
        expires_at=now + timedelta(days=settings.REVIEW_EXPIRY_DAYS),
    )
    MemoryReview.objects.bulk_create([draft], ignore_conflicts=True)
    if MemoryReview.objects.filter(agent=new.agent_id, pk=draft.pk).exists():
        opened_record(draft, by)


def verdict_sample(
    review: MemoryReview, resolution: str, *, undo: Mapping[str, Any], before: Mapping[str, Any], by: Principal
) -> bool:
    """Let reviewers answer a review that a judge's verdict has just decided, if it is one of the share; returns whether
    it is one. Its page does not show the verdict."""
    decision = next((kind for kind in DECISION_KINDS if AGREES[kind] == resolution), None)
    if decision is None or review.old is None or review.new is None or "question" in review.details:
        return False
    if not scope_contains(review.old, review.new) or not sample_is_due(review.new, by):
        return False
    blind = {"decision": str(decision), "writer": by.name, "undo": dict(undo), "before": dict(before)}
    was_asked = review.status == Status.PENDING
    review.details = review.details | {"undecided": True, "blind": blind}
    review.status, review.kind, review.verdict = Status.PENDING, DECISION_KINDS[decision], {}
    review.asked_at = review.asked_at or clock.now()
    review.save()
    if not was_asked:
        opened_record(review, by)
    return True


def undecided_sample() -> int:
    """Let reviewers see a share of the undecided reviews, where the attention budget allows it; returns how many."""
    now, opened = clock.now(), 0
    rows = MemoryReview.objects.held_back().select_related("agent")
    for review in rows.order_by("created_at")[:MAX_UNDECIDED_READ]:
        if not is_blind_sample(review.new_id or review.pk) or not has_budget_left(review.agent_id):
            continue
        blind = {"decision": str(AutomaticDecision.UNDECIDED), "writer": review.details.get("writer", ""), "undo": {}}
        details = review.details | {"blind": blind}
        expires_at = now + timedelta(days=settings.REVIEW_EXPIRY_DAYS)
        waiting = MemoryReview.objects.filter(agent=review.agent_id, pk=review.pk, status=Status.UNDECIDED)
        if waiting.update(status=Status.PENDING, details=details, asked_at=now, expires_at=expires_at):
            opened_record(review, BY)
            opened += 1
    return opened


def as_if_undecided(review: MemoryReview) -> MemoryReview:
    """The review of a blind sample with its facts as they were before the decision; do not save them."""
    blind = review.details.get("blind")
    if not blind or review.status != Status.PENDING:
        return review
    for side in ("old", "new"):
        fact = getattr(review, side)
        if fact is None or side not in blind.get("before", {}):
            continue
        fact.active, fact.retired_at, fact.superseded_by = True, None, None
        for name, value in blind["before"][side].items():
            setattr(fact, name, datetime.fromisoformat(value) if isinstance(value, str) else value)
    return review


def sample_agrees(review: MemoryReview, resolution: str) -> bool:
    """Whether a resolution agrees with the automatic decision of a blind sample."""
    return resolution == AGREES[review.details["blind"]["decision"]]


@dataclass(frozen=True, slots=True)
class DecisionError:
    """How often people disagreed with a kind of automatic decision, by its writer."""

    agent: str
    decision: str
    writer: str
    answers: int
    errors: int

    @property
    def label(self) -> str:
        return DECISION_LABELS[self.decision]

    @property
    def percent(self) -> float:
        return 100 * self.errors / self.answers

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of the error in percent."""
        lower, upper = wilson_interval(self.errors, self.answers)
        return 100 * lower, 100 * upper


DECISION_LABELS: Mapping[str, str] = {
    AutomaticDecision.SUPERSEDED: "Replaced",
    AutomaticDecision.CONFIRMED: "Confirmed",
    AutomaticDecision.UNDECIDED: "Held back",
}


def decision_errors(reviews: MemoryReviewQuerySet) -> list[DecisionError]:
    """The errors by agent, decision and writer, among these reviews. One query."""
    answered = reviews.filter(details__has_key="blind", status=Status.RESOLVED, resolver_kind="person").order_by()
    keys = ("agent__name", "details__blind__decision", "details__blind__writer", "details__blind__agrees")
    found: dict[tuple[str, str, str], list[int]] = {}
    for *key, agrees, number in answered.values_list(*keys).annotate(number=Count("pk")):
        counts = found.setdefault((key[0], key[1], key[2]), [0, 0])
        counts[0] += number
        counts[1] += 0 if agrees else number
    return [DecisionError(*key, *counts) for key, counts in sorted(found.items())]


def decision_remeasure(review: MemoryReview) -> None:
    """After an answer to a blind sample: let its kind of decision go back to asking if it errs too often.

    Call it in the transaction of the answer, with the agent's row locked.
    """
    agent = Agent.objects.get(pk=review.agent_id)
    autonomy, decision = Autonomy.of_config(agent.config), AutomaticDecision(review.details["blind"]["decision"])
    if autonomy.asks(decision):
        return
    of_kind = MemoryReview.objects.filter(agent=agent, details__blind__decision=str(decision))
    if since := autonomy.measured_since.get(decision):
        of_kind = of_kind.filter(resolved_at__gt=datetime.fromisoformat(since))
    measured: Sequence[DecisionError] = decision_errors(of_kind)
    errors, answers = sum(one.errors for one in measured), sum(one.answers for one in measured)
    if answers < MIN_BLIND_ANSWERS or not autonomy.errs(errors, answers):
        return
    words = (
        f"{DECISION_LABELS[decision]}: people disagreed with {errors} of {answers} automatic decisions,"
        f" so they are asked again."
    )
    asking = tuple(one for one in AutomaticDecision if one in autonomy.asking or one == decision)
    changed = replace(autonomy, asking=asking)
    agent_configure_all(agent=agent, entries={AUTONOMY_KEY: changed.as_json()}, reason=words, by=BY)
    item = InboxItem.of(review)
    people_notify(people=item.people(DECIDE_RIGHTS), kind=Notification.Kind.ERRED, item=item, source=decision)

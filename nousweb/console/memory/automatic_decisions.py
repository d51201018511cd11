"""What was decided about facts without people: which decisions there are, and their rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import F, QuerySet
from django.http import QueryDict

from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.models import Fact, FactChange, MemoryReview
from nousweb.console.common.inbox_query import QUEUE_LIMIT, REVIEW, InboxQuery
from nousweb.console.memory.review_queue import review_title, reviews_of
from nousweb.lib.permission_holder import for_visible_agents

VIEW_CHANGE = "memory.view_factchange"
FACTS_SHOWN = 5
"""Facts that are shown of an attribute."""
UNDECIDED, SUPERSEDED, CONFIRMED = "undecided", "superseded", "confirmed"
DECISIONS = {
    UNDECIDED: "Undecided: both facts stay",
    SUPERSEDED: "Replaced by a newer fact",
    CONFIRMED: "Confirmed in other words",
}
BADGES = {UNDECIDED: "warn", SUPERSEDED: "accent", CONFIRMED: "neutral"}

Key = tuple[str, UUID | int]
"""A decision and the key of its review or change of a fact."""


@dataclass(frozen=True, slots=True)
class DecisionFilter:
    """The filter of the page, in its address."""

    agent: str = ""
    decision: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> "DecisionFilter":
        """The filter of an address; invalid values are ignored."""
        decision = query.get("decision", "")
        agent = query.get("agent", "").replace("\x00", "")[:50]
        return cls(agent, decision if decision in DECISIONS else "")

    def query(self) -> str:
        given = {"agent": self.agent, "decision": self.decision}
        return urlencode({name: value for name, value in given.items() if value})

    def keys(self, by: Principal) -> list[Key]:
        """The decisions in their order: undecided ones by what depends on them, then the others, the latest first."""
        found: list[Key] = []
        if self.decision in ("", UNDECIDED):
            undecided = InboxQuery(by, (REVIEW,), agent=self.agent, undecided=True)
            found += [(UNDECIDED, entry.id) for entry in undecided.entries()]
        changes: list[tuple[datetime, str, int]] = []
        for action in (SUPERSEDED, CONFIRMED):
            if self.decision in ("", action) and by.may(VIEW_CHANGE):
                rows = automatic_changes(by, action)
                rows = rows.filter(agent__in=Agent.objects.filter(slug=self.agent)) if self.agent else rows
                changes += [(at, action, key) for at, key in rows.values_list("at", "pk")[:QUEUE_LIMIT]]
        found += [(action, key) for _, action, key in sorted(changes, reverse=True)]
        return found[:QUEUE_LIMIT]


def automatic_changes(by: Principal, action: str) -> QuerySet[FactChange]:
    """The changes of this kind that no person made and that still stand, as far as `by` may see them."""
    rows = for_visible_agents(FactChange.objects.all(), by).exclude(author_kind="person")
    if not by.may(VIEW_SUBCONSCIOUS):
        rows = rows.filter(fact__persona=Persona.ACTOR)
    if action == SUPERSEDED:
        rows = rows.filter(action=action, fact__active=False, fact__superseded_by=F("other"))
    else:
        rows = rows.filter(action=CONFIRMED, score__isnull=False)
    return rows.order_by("-at", "-pk")


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """One decision: `facts` are its facts, the newest first; `value` names it in a form, "" if it cannot be undone."""

    decision: str
    agent: Agent
    title: str
    url: str
    subject: str
    facts: Sequence[Fact]
    at: datetime
    author: str
    reason: str
    value: str

    @property
    def label(self) -> str:
        return DECISIONS[self.decision].partition(":")[0]

    @property
    def badge(self) -> str:
        return BADGES[self.decision]


def decision_rows(keys: Sequence[Key]) -> list[DecisionRow]:
    """The rows of these decisions, in their order. Three queries, whatever their number."""
    reviews = {review.pk: review for review in reviews_of([key for _, key in keys if isinstance(key, UUID)])}
    numbers = [key for _, key in keys if isinstance(key, int)]
    related = ("agent", "fact__agent", "other__agent")
    changes = FactChange.objects.filter(pk__in=numbers).select_related(*related).in_bulk() if numbers else {}
    of_attributes = [key for review in reviews.values() for key in review.facts[-FACTS_SHOWN:]]
    facts = Fact.objects.in_bulk(of_attributes) if of_attributes else {}
    rows = []
    for decision, key in keys:
        if isinstance(key, UUID) and key in reviews:
            rows.append(_of_review(reviews[key], facts))
        elif isinstance(key, int) and key in changes:
            rows.append(_of_change(decision, changes[key]))
    return rows


def _of_review(review: MemoryReview, facts: dict[UUID, Fact]) -> DecisionRow:
    found = [facts[key] for key in review.facts[-FACTS_SHOWN:] if key in facts]
    found += [fact for fact in (review.old, review.new) if fact is not None]
    return DecisionRow(
        decision=UNDECIDED,
        agent=review.agent,
        title=review_title(review),
        url=review.get_absolute_url(),
        subject=review.subject,
        facts=sorted(found, key=lambda fact: fact.recorded_at, reverse=True),
        at=review.created_at,
        author="",
        reason=str(review.reasons[0]["words"]) if review.reasons and review.new else "",
        value=f"review:{review.pk}",
    )


def _of_change(decision: str, change: FactChange) -> DecisionRow:
    fact, other = change.fact, change.other
    newest = other if decision == SUPERSEDED and other else fact
    suffix = "?persona=subconscious" if fact.persona == Persona.SUBCONSCIOUS else ""
    return DecisionRow(
        decision=decision,
        agent=change.agent,
        title=newest.content,
        url=newest.get_absolute_url() + suffix,
        subject=fact.subject,
        facts=[newest, fact] if newest is not fact else [fact],
        at=change.at,
        author=change.author_name,
        reason=change.reason,
        value=f"change:{change.pk}" if decision == SUPERSEDED else "",
    )

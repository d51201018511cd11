"""What was decided about facts without people, and undoing it, several at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse

from identity.models import Agent, Persona
from identity.policy.inbox import DECIDE_RIGHTS, VIEW_RIGHTS
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.models import FactChange, MemoryReview
from memory.policy.consent import AutomaticDecision, Autonomy
from memory.selectors import visible_reviews
from memory.services.reviews.blind_samples import decision_errors
from memory.services.reviews.states import review_ask
from memory.services.reviews.undo import supersession_undo
from nousweb.console.common import MAX_SELECTED, POST, attempt_each, author_words, page, page_of, tell_each, uuids_of
from nousweb.console.inbox.filter import InboxFilter, InboxRow, inbox_tabs
from nousweb.console.inbox.item_titles import ItemTitle
from nousweb.console.inbox.query import QUEUE_LIMIT, REVIEW, InboxEntry
from nousweb.lib.permission_holder import for_visible_agents

VIEW_CHANGE = "memory.view_factchange"
CHANGE = "factchange"
SUPERSEDED, CONFIRMED = "superseded", "confirmed"
DECISIONS = {
    SUPERSEDED: "Replaced by a newer fact",
    CONFIRMED: "Confirmed in other words",
}
ASKED_AGAIN: Mapping[str, str] = {
    AutomaticDecision.SUPERSEDED: "newer facts",
    AutomaticDecision.CONFIRMED: "facts in other words",
    AutomaticDecision.UNDECIDED: "facts over the attention budget",
}

Key = tuple[str, int]
"""A decision and the key of its change of a fact."""


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
        """The decisions, the latest first."""
        changes: list[tuple[datetime, str, int]] = []
        for action in (SUPERSEDED, CONFIRMED):
            if self.decision in ("", action) and by.may(VIEW_CHANGE):
                rows = automatic_changes(by, action)
                rows = rows.filter(agent__in=Agent.objects.filter(slug=self.agent)) if self.agent else rows
                changes += [(at, action, key) for at, key in rows.values_list("at", "pk")[:QUEUE_LIMIT]]
        return [(action, key) for _, action, key in sorted(changes, reverse=True)][:QUEUE_LIMIT]


class DecisionForm(forms.Form):
    """The choices of the page, which DecisionFilter reads."""

    agent = forms.ChoiceField(required=False)
    decision = forms.ChoiceField(choices=[("", "Any decision"), *DECISIONS.items()], required=False)

    def __init__(self, shown: DecisionFilter, agents: Sequence[Agent]) -> None:
        super().__init__(initial={"agent": shown.agent, "decision": shown.decision})
        choices = [("", "Any agent"), *((agent.slug, agent.name) for agent in agents)]
        self.fields["agent"].choices = choices  # type: ignore[attr-defined]


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


def decision_rows(keys: Sequence[Key], by: Principal) -> list[InboxRow]:
    """The rows of these decisions, in their order. One query, whatever their number."""
    numbers = [key for _, key in keys]
    related = ("agent", "fact__agent", "other__agent")
    changes = FactChange.objects.filter(pk__in=numbers).select_related(*related).in_bulk() if numbers else {}
    rows = []
    for decision, key in keys:
        if key not in changes:
            continue
        row = _of_change(decision, changes[key])
        row.outcome = DECISIONS[decision]
        row.is_open, row.may_decide = False, decision != CONFIRMED and by.may(DECIDE_RIGHTS[REVIEW])
        rows.append(row)
    return rows


def _of_change(decision: str, change: FactChange) -> InboxRow:
    """The row of a decision: its title is the newest fact, and the other one is listed."""
    fact, other = change.fact, change.other
    newest = other if decision == SUPERSEDED and other else fact
    suffix = "?persona=subconscious" if fact.persona == Persona.SUBCONSCIOUS else ""
    key: Any = change.pk
    author = f"by {author_words(change)}"
    return InboxRow(
        entry=InboxEntry(key, CHANGE, 0, 0, "", change.at),
        title=ItemTitle.plain(newest.content),
        agent=change.agent.name,
        url=newest.get_absolute_url() + suffix,
        facts=[fact] if fact.content != newest.content else [],
        meta=list(filter(None, [f"about {fact.subject}" if fact.subject else "", author, change.reason[:120]])),
        times=[("", change.at)],
    )


@page(VIEW_RIGHTS[REVIEW])
def automatic_decisions(request: HttpRequest, by: Principal) -> HttpResponse:
    """The decisions about facts that no person made."""
    shown = DecisionFilter.of(request.GET)
    page = page_of(request, shown.keys(by))
    reviews, agents = visible_reviews(by), list(Agent.objects.visible_to(by).order_by("slug")[:200])
    return render(
        request,
        "inbox/automatic_decisions.html",
        {
            "tabs": inbox_tabs(by, None),
            "shown": shown,
            "query": shown.query(),
            "page": page,
            "rows": decision_rows(list(page), by),
            "form": DecisionForm(shown, agents),
            "may_review": by.may(DECIDE_RIGHTS[REVIEW]),
            "errors": decision_errors(reviews.filter(agent__slug=shown.agent) if shown.agent else reviews),
            "asked_again": [
                (agent, ASKED_AGAIN[decision])
                for agent in agents
                if shown.agent in ("", agent.slug)
                for decision in Autonomy.of_config(agent.config).asking
            ],
        },
    )


@page(DECIDE_RIGHTS[REVIEW], methods=POST)
def automatic_decisions_undo(request: HttpRequest, by: Principal) -> HttpResponse:
    """Ask about the selected reviews that are held back, and restore the selected replaced facts; each that refuses is
    named and stops none of the others."""
    reviews, changes = _selected(by, request.POST.getlist("selected")[:MAX_SELECTED])
    asked, unasked = attempt_each(reviews, lambda review: review_ask(review=review, by=by))
    restored, kept = attempt_each(
        changes, lambda change: supersession_undo(fact=change.fact, by=by), lambda change: f"“{change.fact}”"
    )
    said = [f"{len(asked)} review{' is' if len(asked) == 1 else 's are'} pending now."] if asked else []
    if restored:
        said.append(f"{len(restored)} older fact{' was' if len(restored) == 1 else 's were'} restored.")
    tell_each(request, said, unasked + kept, undoing=True)
    if reviews and not changes:
        return redirect(InboxFilter(view="reviews").url())
    query = DecisionFilter.of(request.GET).query()
    return redirect(reverse("automatic_decisions") + (f"?{query}" if query else ""))


def _selected(by: Principal, values: Sequence[str]) -> tuple[list[MemoryReview], list[FactChange]]:
    """The reviews and supersessions that the values of the form name, as far as `by` may see them."""
    named: dict[str, list[str]] = {REVIEW: [], CHANGE: []}
    for value in values:
        what, _, key = value.partition(":")
        named.get(what, []).append(key)
    numbers = [int(key) for key in named[CHANGE] if key.isascii() and key.isdigit() and len(key) < 19]
    reviews = visible_reviews(by).filter(pk__in=uuids_of(named[REVIEW])).select_related("agent", "new")
    changes = automatic_changes(by, SUPERSEDED).filter(pk__in=numbers).select_related("fact__agent")
    return list(reviews), list(changes) if numbers else []

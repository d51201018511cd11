"""What was decided about facts without people, and undoing it, several at once."""

from collections.abc import Mapping, Sequence

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from identity.models import Agent
from identity.principal import Principal
from memory.models import FactChange, MemoryReview
from memory.policy.autonomy import AutomaticDecision, Autonomy
from memory.selectors import visible_reviews
from memory.services.reviews.attention import review_ask
from memory.services.reviews.blind_samples import decision_errors
from memory.services.reviews.records import REVIEW
from memory.services.reviews.undo import supersession_undo
from nousweb.console.common.bulk_refusals import refusals_summary
from nousweb.console.common.inbox_filter import inbox_tabs
from nousweb.console.common.pagination import page_of
from nousweb.console.common.view_helpers import MAX_SELECTED, principal_of
from nousweb.console.memory.automatic_decisions import (
    DECISIONS,
    SUPERSEDED,
    DecisionFilter,
    automatic_changes,
    decision_rows,
)
from nousweb.console.memory.review_queue import uuids_of
from nousweb.lib.errors import DomainError

VIEW = "memory.view_memoryreview"
ASKED_AGAIN: Mapping[str, str] = {
    AutomaticDecision.SUPERSEDED: "newer facts",
    AutomaticDecision.CONFIRMED: "facts in other words",
    AutomaticDecision.UNDECIDED: "facts over the attention budget",
}


@require_safe
def automatic_decisions(request: HttpRequest) -> HttpResponse:
    """The decisions about facts that no person made."""
    by = principal_of(request)
    by.require(VIEW)
    shown = DecisionFilter.of(request.GET)
    page = page_of(request, shown.keys(by))
    reviews, agents = visible_reviews(by), list(Agent.objects.visible_to(by).order_by("slug")[:200])
    return render(
        request,
        "memory/automatic_decisions.html",
        {
            "tabs": inbox_tabs(by, None),
            "shown": shown,
            "query": shown.query(),
            "page": page,
            "rows": decision_rows(list(page)),
            "agents": agents,
            "decisions": DECISIONS.items(),
            "may_review": by.may(REVIEW),
            "errors": decision_errors(reviews.filter(agent__slug=shown.agent) if shown.agent else reviews),
            "asked_again": [
                (agent, ASKED_AGAIN[decision])
                for agent in agents
                if shown.agent in ("", agent.slug)
                for decision in Autonomy.of_config(agent.config).asking
            ],
        },
    )


@require_POST
def automatic_decisions_undo(request: HttpRequest) -> HttpResponse:
    """Ask about the selected undecided facts, and restore the selected replaced ones; each that refuses is named and
    stops none of the others."""
    by = principal_of(request)
    by.require(REVIEW)
    reviews, changes = _selected(by, request.POST.getlist("selected")[:MAX_SELECTED])
    asked, restored, refused = 0, 0, []
    for review in reviews:
        try:
            review_ask(review=review, by=by)
            asked += 1
        except DomainError as error:
            refused.append((str(review), error.detail))
    for change in changes:
        try:
            supersession_undo(fact=change.fact, by=by)
            restored += 1
        except DomainError as error:
            refused.append((f"“{change.fact}”", error.detail))
    if refused:
        messages.error(request, refusals_summary(refused, undoing=True))
    if asked:
        messages.success(request, f"{asked} review{' is' if asked == 1 else 's are'} pending now.")
    if restored:
        messages.success(request, f"{restored} older fact{' was' if restored == 1 else 's were'} restored.")
    if not (asked or restored or refused):
        messages.warning(request, "Nothing was selected.")
    query = DecisionFilter.of(request.GET).query()
    return redirect(reverse("automatic_decisions") + (f"?{query}" if query else ""))


def _selected(by: Principal, values: Sequence[str]) -> tuple[list[MemoryReview], list[FactChange]]:
    """The reviews and supersessions that the values of the form name, as far as `by` may see them."""
    named: dict[str, list[str]] = {"review": [], "change": []}
    for value in values:
        what, _, key = value.partition(":")
        named.get(what, []).append(key)
    numbers = [int(key) for key in named["change"] if key.isascii() and key.isdigit() and len(key) < 19]
    reviews = visible_reviews(by).filter(pk__in=uuids_of(named["review"])).select_related("agent", "new")
    changes = automatic_changes(by, SUPERSEDED).filter(pk__in=numbers).select_related("fact__agent")
    return list(reviews), list(changes) if numbers else []

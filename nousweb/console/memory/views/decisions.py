"""Decisions of an agent, and their outcomes."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.text import Truncator
from django.views.decorators.http import require_http_methods

from memory.models import Decision
from memory.selectors.filters import DecisionFilter
from memory.services.decisions import decision_review
from nousweb.console.common.list_page import Column, Title
from nousweb.console.common.view_helpers import refused_on
from nousweb.console.memory.forms import DecisionReviewForm
from nousweb.console.memory.memory_list import MemoryList, memory_list
from nousweb.console.memory.page_context import memory_context
from nousweb.console.memory.persona_scope import persona_scope

agent_decisions = memory_list(
    MemoryList(
        title="Decisions",
        noun="decision",
        about="choices with their reasons and outcomes",
        empty="The agent records its decisions with their reasons, so that they can be reviewed later.",
        model=Decision,
        filter=DecisionFilter,
        row=Title(lambda decision: Truncator(decision.description).chars(240)),
        columns=(
            Column("Category", "category"),
            Column("Stakes", look="memory/_stakes_badge.html"),
            Column("Confidence", "confidence", "ratio"),
            Column("Outcome", look="memory/_outcome_badge.html"),
            Column("Review", lambda decision: decision.reviewed_at and decision.reviewed_by, empty="open"),
            Column("Decided", "created_at", "time"),
        ),
    )
)
"""Decisions with their stakes and outcomes, latest first."""


@require_http_methods(["GET", "HEAD", "POST"])
def agent_decision(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """One decision with its reasons and outcome, and the form of its review."""
    scope = persona_scope(request, slug, "memory.view_decision")
    decision: Decision = scope.row(scope.memory.decisions.select_related("agent"), pk, "decision")
    form = None
    if request.method == "POST" or scope.by.may("memory.change_decision"):
        scope.by.require("memory.change_decision", scope.agent)
        initial = {"outcome": decision.outcome, "note": decision.outcome_note}
        form = DecisionReviewForm(request.POST if request.method == "POST" else None, initial=initial)
        if request.method == "POST" and form.is_valid():
            with refused_on(form):
                decision_review(decision=decision, by=scope.by, **form.cleaned_data)
                messages.success(request, "The review was saved.")
                return redirect(reverse("agent_decision", args=[slug, pk]) + scope.suffix)
    episode = scope.memory.episodes.filter(pk=decision.episode_id).first() if decision.episode_id else None
    context = memory_context(
        request,
        scope,
        decision,
        form=form,
        episode=episode,
    )
    return render(request, "memory/decision.html", context, status=422 if form is not None and form.errors else 200)

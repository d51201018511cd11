"""Decisions of an agent, and their outcomes."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from memory.models import Decision, ItemType
from memory.selectors.filters import DecisionFilter
from memory.services.decisions import decision_review
from nousweb.console.common.pagination import request_page
from nousweb.console.common.view_helpers import form_refuse
from nousweb.console.memory.forms import DecisionReviewForm
from nousweb.console.memory.list_exports import TYPE_EXPORTS, memory_export
from nousweb.console.memory.page_context import OUTCOME_KINDS, base_context, index_state, list_context
from nousweb.console.memory.persona_scope import persona_scope
from nousweb.lib.errors import Invalid

STAKES_KINDS = {"high": "warn", "critical": "block"}


@require_safe
def agent_decisions(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Decisions with their stakes and outcomes, latest first."""
    scope = persona_scope(request, slug, "memory.view_decision")
    found = DecisionFilter(request.GET, queryset=scope.memory.decisions)
    if file := memory_export(request, scope, found, TYPE_EXPORTS["decision"], "created_at"):
        return file
    context = list_context(
        request,
        scope,
        found,
        request_page(request, found.results, "created_at"),
        outcome_kinds=OUTCOME_KINDS,
        stakes_kinds=STAKES_KINDS,
    )
    return render(request, "memory/decisions.html", context)


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
            try:
                decision_review(decision=decision, by=scope.by, **form.cleaned_data)
            except Invalid as error:
                form_refuse(form, error)
            else:
                messages.success(request, "The review was saved.")
                return redirect(reverse("agent_decision", args=[slug, pk]) + scope.suffix)
    episode = scope.memory.episodes.filter(pk=decision.episode_id).first() if decision.episode_id else None
    context = base_context(
        request,
        scope,
        decision=decision,
        form=form,
        episode=episode,
        index=index_state(decision.agent_id, decision.persona, ItemType.DECISION, decision.pk),
        outcome_kind=OUTCOME_KINDS.get(decision.outcome, "neutral"),
        stakes_kind=STAKES_KINDS.get(decision.stakes, "neutral"),
    )
    return render(request, "memory/decision.html", context, status=422 if form is not None and form.errors else 200)

"""Decisions of an agent, and their outcomes."""

from django.http import HttpRequest, HttpResponse
from django.utils.text import Truncator

from memory.models import Decision
from memory.selectors.filters import DecisionFilter
from memory.services.decisions import decision_review
from nousweb.console.common import FORM, Column, Title, author_words, form_page
from nousweb.console.memory.forms import DecisionReviewForm
from nousweb.console.memory.page_context import MemoryList, PersonaScope, memory_context, memory_list, memory_page

agent_decisions = memory_list(
    MemoryList(
        title="Decisions",
        noun="decision",
        about="Choices with their reasons and outcomes.",
        empty="The agent records its decisions with their reasons, so that they can be reviewed later.",
        model=Decision,
        filter=DecisionFilter,
        row=Title(lambda decision: Truncator(decision.description).chars(240)),
        columns=(
            Column("Category", "category"),
            Column("Stakes", look="memory/_stakes_badge.html"),
            Column(
                "Outcome",
                look="components/outcome_badge.html",
                is_usual=lambda decision: decision.outcome == Decision.Outcome.PENDING,
            ),
            Column(
                "Reviewed by",
                lambda decision: author_words(decision.reviewed_by),
                is_usual=lambda decision: not decision.reviewed_at,
            ),
            Column("Confidence", "confidence", "ratio"),
            Column("Decided", "created_at", "time", is_last=True),
        ),
    )
)
"""Decisions with their stakes and outcomes, latest first."""


@memory_page("memory.view_decision", of=Decision, methods=FORM, past=True)
def agent_decision(request: HttpRequest, scope: PersonaScope, decision: Decision) -> HttpResponse:
    """One decision with its reasons and outcome, and the form of its review."""
    if request.method == "POST":
        scope.by.require("memory.change_decision", scope.agent)
    initial = {"outcome": decision.outcome, "note": decision.outcome_note}
    episode = scope.memory.episodes.filter(pk=decision.episode_id).first() if decision.episode_id else None
    may_review = scope.by.may("memory.change_decision")
    return form_page(
        request,
        "memory/decision.html",
        DecisionReviewForm(request.POST if request.method == "POST" else None, initial=initial),
        lambda fields: decision_review(decision=decision, by=scope.by, **fields),
        done="The review was saved.",
        back=lambda reviewed: scope.url(decision),
        context=memory_context(request, scope, decision, episode=episode, may_review=may_review),
    )

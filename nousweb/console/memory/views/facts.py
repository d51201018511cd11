"""The facts of an agent: the list, one fact with its history, and adding one."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from identity.selectors import agent_get
from memory.models import Fact, FactChange, ItemType
from memory.policy import PROFILE_CATEGORIES
from memory.selectors import fact_chain
from memory.selectors.filters import FactFilter
from memory.services.facts import fact_learn
from nousweb.console.common.list_page import Action, Column, Title
from nousweb.console.common.view_helpers import form_refuse, principal_of
from nousweb.console.memory.bitemporal_chart import bitemporal_spans
from nousweb.console.memory.fact_change_words import change_sentence
from nousweb.console.memory.forms import FactForm
from nousweb.console.memory.memory_list import MemoryList, memory_list
from nousweb.console.memory.page_context import base_context, index_state
from nousweb.console.memory.persona_scope import persona_scope
from nousweb.lib.errors import Invalid

VIEW = "memory.view_fact"
CHANGES_SHOWN = 200
CHANGE_KINDS = {
    FactChange.Action.STORED: "accent",
    FactChange.Action.CONFIRMED: "ok",
    FactChange.Action.SUPERSEDED: "neutral",
    FactChange.Action.INVALIDATED: "removed",
    FactChange.Action.RESTORED: "added",
}


agent_facts = memory_list(
    MemoryList(
        title="Facts",
        noun="fact",
        about="beliefs of the agent",
        empty="The agent stores facts with its token. People with the permission can add facts too.",
        moment="recorded_at",
        numbered=True,
        template="memory/facts.html",
        model=Fact,
        filter=FactFilter,
        more=lambda request, scope, rows: {
            "profile_categories": PROFILE_CATEGORIES,
            "may_erase": scope.by.may("memory.erase_memory"),
        },
        actions=(Action("Add fact", "agent_fact_add", "new", "memory.add_fact"),),
        row=Title("content"),
        columns=(
            Column("Subject", look="memory/_fact_subject.html"),
            Column("Category", look="memory/_fact_category.html"),
            Column("Confidence", "confidence", "ratio"),
            Column("Importance", "importance", "ratio"),
            Column("Learned", look="memory/_fact_learned.html"),
            Column("State", look="memory/_fact_state_badge.html"),
        ),
    )
)
"""The facts of the actor; with the permission, also those of the subconscious."""


@require_http_methods(["GET", "HEAD", "POST"])
def agent_fact_add(request: HttpRequest, slug: str) -> HttpResponse:
    """A form for one fact."""
    by = principal_of(request)
    by.require("memory.add_fact")
    agent = agent_get(slug, by)
    form = FactForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        fields: dict[str, Any] = form.cleaned_data
        try:
            fact_learn(agent=agent, by=by, **{**fields, "source": fields["source"] or f"console: {by.name}"})
        except Invalid as error:
            form_refuse(form, error)
        else:
            messages.success(request, "The fact was added.")
            return redirect("agent_facts", slug=slug)
    return render(request, "memory/fact_add.html", {"agent": agent, "form": form}, status=422 if form.errors else 200)


@require_safe
def agent_fact(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """One fact: valid and recorded time, its predecessor and successor, its source, and its history."""
    scope = persona_scope(request, slug, VIEW)
    facts = scope.memory.facts.select_related("source_event", "source_episode", "superseded_by", "contradiction_of")
    fact: Fact = scope.row(facts, pk, "fact")
    changes = list(fact.changes.select_related("other").order_by("-id")[: CHANGES_SHOWN + 1])
    may_change = scope.by.may("memory.change_fact")
    context = base_context(
        request,
        scope,
        fact=fact,
        spans=bitemporal_spans(fact, changes),
        chain=fact_chain(scope.memory, fact),
        changes=[
            (change, CHANGE_KINDS.get(FactChange.Action(change.action), "neutral"), change_sentence(change))
            for change in changes
        ],
        more_changes=len(changes) > CHANGES_SHOWN,
        index=index_state(fact.agent_id, fact.persona, ItemType.FACT, fact.pk),
        in_profile=fact.is_current and fact.category in PROFILE_CATEGORIES,
        may_change=may_change,
        may_confirm=scope.by.may("memory.add_fact"),
        # A replacement is written to the memory of its author's persona.
        may_replace=scope.by.may("memory.add_fact") and fact.persona == scope.by.persona,
        may_see_changes=scope.by.may("memory.view_factchange"),
        may_erase=scope.by.may("memory.erase_memory"),
    )
    return render(request, "memory/fact.html", context)

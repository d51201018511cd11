"""Erasing for good: pages that say what will go, and ask for its name to be typed."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods

from identity.models import Agent, ApiToken, ChangeProposal, IdentityVersion
from identity.selectors import agent_get
from memory.models import Censor, Fact, FactChange, LoopSummary, WorkingMemory
from memory.services.erasure import (
    ERASE,
    MAX_REASON_CHARACTERS,
    Receipt,
    agent_erase,
    fact_erase,
    facts_about,
    project_counts,
    project_erase,
    subject_erase,
)
from nousweb.console.common.memory_types import TYPE_PAGES
from nousweb.console.common.requests import form_refuse, principal_of
from nousweb.console.memory.page_context import base_context
from nousweb.console.memory.persona_scope import persona_scope
from nousweb.lib.errors import Invalid, NotFound

Goes = list[tuple[int, str]]
NOUNS = {
    "fact": "facts",
    "event": "events",
    "loopsummary": "loops",
    "episode": "episodes",
    "decision": "decisions",
    "procedure": "procedures",
    "workingmemory": "sessions of working memory",
}


class EraseForm(forms.Form):
    """Why, and the name of what goes, typed by hand."""

    reason = forms.CharField(
        max_length=MAX_REASON_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Stays in the receipt, so do not repeat what is to be erased.",
    )
    name = forms.CharField(max_length=300, widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}))

    def __init__(self, *args: Any, expected: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.expected = expected
        self.fields["name"].label = f"Type “{expected}” to confirm"

    def clean_name(self) -> str:
        if self.cleaned_data["name"] != self.expected:
            raise forms.ValidationError(f"This is not “{self.expected}”.")
        return self.expected


@require_http_methods(["GET", "HEAD", "POST"])
def agent_fact_erase(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """Erase one fact with its history."""
    shown = persona_scope(request, slug, "memory.view_fact")
    shown.by.require(ERASE, shown.agent)
    fact: Fact = shown.row(shown.memory.facts.select_related("agent"), pk, "fact")
    return _page(
        request,
        base_context(request, shown),
        title="Erase this fact",
        meaning="This cannot be undone. To take back what was wrong and keep the record, mark it as wrong instead.",
        quote=fact.content,
        expected=slug,
        goes=lambda: [(1, "fact"), (FactChange.objects.filter(fact=fact).count(), "changes in its history")],
        back=reverse("agent_fact", args=[slug, pk]) + shown.suffix,
        receipt={"action": "fact.erase", "agent": slug},
        run=lambda reason: fact_erase(fact=fact, by=shown.by, reason=reason),
    )


@require_http_methods(["GET", "HEAD", "POST"])
def agent_subject_erase(request: HttpRequest, slug: str) -> HttpResponse:
    """Erase everything that an agent holds to be true about ?subject=, in both personas."""
    by = principal_of(request)
    agent = agent_get(slug)
    by.require(ERASE, agent)
    subject = request.GET.get("subject", "").strip()
    facts = facts_about(agent, subject)
    if not subject or not facts.exists():
        raise NotFound("There is no fact about this subject.")
    return _page(
        request,
        {"agent": agent},
        title=f"Erase everything about {subject[:80]}",
        meaning="This cannot be undone. It reaches the facts of both personas, active or retired. Events and episodes "
        "that name the subject stay; the receipt counts those that still quote an erased fact.",
        quote="",
        expected=subject,
        goes=lambda: [
            (facts.count(), f"facts about {subject}"),
            (FactChange.objects.filter(fact__in=facts).count(), "changes in their history"),
        ],
        back=reverse("agent_facts", args=[slug]),
        receipt={"action": "subject.erase", "agent": slug},
        run=lambda reason: subject_erase(agent=agent, subject=subject, by=by, reason=reason),
    )


@require_http_methods(["GET", "HEAD", "POST"])
def agent_project_erase(request: HttpRequest, slug: str) -> HttpResponse:
    """Erase everything of an agent that carries the key ?project=, in both personas."""
    by = principal_of(request)
    agent = agent_get(slug)
    by.require(ERASE, agent)
    project = request.GET.get("project", "").strip()
    counts = project_counts(agent, project) if project else {}
    if not counts:
        raise NotFound("There is nothing of this project.")
    return _page(
        request,
        {"agent": agent},
        title=f"Erase the project {project[:80]}",
        meaning="This cannot be undone. It reaches both personas, all tasks of the project, and the expectations that "
        "ask for it. What global memory or other projects tell of it stays.",
        quote="",
        expected=project,
        goes=lambda: [(count, f"{NOUNS.get(name, name)} of {project}") for name, count in counts.items()],
        back=reverse("agent_facts", args=[slug]),
        receipt={"action": "project.erase", "agent": slug},
        run=lambda reason: project_erase(agent=agent, project=project, by=by, reason=reason),
    )


@require_http_methods(["GET", "HEAD", "POST"])
def agent_erase_all(request: HttpRequest, slug: str) -> HttpResponse:
    """Erase an agent with everything of it."""
    by = principal_of(request)
    agent = agent_get(slug)
    by.require(ERASE, agent)
    return _page(
        request,
        {"agent": agent},
        title=f"Erase {agent.name}",
        meaning="This cannot be undone. The agent's tokens stop working at once.",
        quote="",
        expected=slug,
        goes=lambda: _all_of(agent),
        back=reverse("agent_settings", args=[slug]),
        receipt={"action": "agent.erase"},
        run=lambda reason: agent_erase(agent=agent, by=by, reason=reason),
    )


def _all_of(agent: Agent) -> Goes:
    parts: list[tuple[Any, str]] = [
        *((one.model, one.label.lower()) for one in TYPE_PAGES.values()),
        (LoopSummary, "loops"),
        (Censor, "censors"),
        (WorkingMemory, "sessions of working memory"),
        (IdentityVersion, "versions of its identity"),
        (ChangeProposal, "proposals"),
        (ApiToken, "tokens"),
    ]
    return [(model.objects.filter(agent=agent).count(), noun) for model, noun in parts]


def _page(
    request: HttpRequest,
    context: dict[str, Any],
    *,
    title: str,
    meaning: str,
    quote: str,
    expected: str,
    goes: Callable[[], Goes],
    back: str,
    receipt: dict[str, str],
    run: Callable[[str], Receipt],
) -> HttpResponse:
    """The confirmation, and once it is given, the erasure; then the receipt in the audit trail."""
    form = EraseForm(request.POST if request.method == "POST" else None, expected=expected)
    if request.method == "POST" and form.is_valid():
        try:
            erased = run(form.cleaned_data["reason"])
        except Invalid as error:
            form_refuse(form, error)
        else:
            total = sum(erased.rows.values())
            messages.success(request, f"Erased for good: {total:,} rows. This is the receipt.")
            if still := sum(erased.still_quoted.values()):
                messages.warning(request, f"{still:,} rows that are not erased here still quote it.")
            return redirect(f"{reverse('audit')}?{urlencode(receipt)}")
    context |= {"title": title, "meaning": meaning, "quote": quote, "goes": goes(), "form": form, "back": back}
    return render(request, "memory/erase.html", context, status=422 if form.errors else 200)

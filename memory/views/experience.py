"""What an agent has lived through, decided, learned to do, and has in mind."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from identity.web import form_refuse
from memory.filters import DecisionFilter, EpisodeFilter, ProcedureFilter, WorkingFilter
from memory.forms import DecisionReviewForm, EpisodeCloseForm, EpisodeForm, ProcedureForm
from memory.models import Decision, Episode, ItemType, Procedure, WorkingMemory
from memory.services.decisions import decision_review
from memory.services.episodes import episode_close, episode_update
from memory.services.procedures import procedure_update
from memory.views.events import MONO_KINDS, previews
from memory.web import Shown, base_context, index_state, keyset_page, query_without, shown_memory
from nousweb.lib.errors import Conflict, Invalid
from nousweb.lib.paging import BoundedPaginator

RELATED_SHOWN = 50
PAGE_SIZE = 50
OUTCOME_KINDS = {"success": "ok", "partial": "warn", "failure": "removed"}
STAKES_KINDS = {"high": "warn", "critical": "block"}
CHANGE_EPISODE = "memory.change_episode"
SUMMARY_KINDS = {"extractive": "neutral", "judge": "accent", "given": "ok", "none": "neutral"}


@require_safe
def agent_episodes(request: HttpRequest, slug: str) -> HttpResponse:
    """Stretches of work, latest first."""
    shown = shown_memory(request, slug, "memory.view_episode")
    found = EpisodeFilter(request.GET, queryset=shown.memory.episodes.defer("detail"))
    context = base_context(
        request,
        shown,
        form=found.form,
        narrowed=found.narrowed,
        query=query_without(request),
        page=keyset_page(request, found.found, "started_at"),
        outcome_kinds=OUTCOME_KINDS,
        summary_kinds=SUMMARY_KINDS,
    )
    return render(request, "memory/episodes.html", context)


@require_safe
def agent_episode(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """One episode: how it went, what came of it, and its transcript a page at a time."""
    shown = shown_memory(request, slug, "memory.view_episode")
    episode: Episode = shown.row(shown.memory.episodes, pk, "episode")
    events = shown.memory.events.filter(episodes=episode)
    context = base_context(
        request,
        shown,
        episode=episode,
        event_count=events.order_by().count(),
        page=keyset_page(request, previews(events), "ts", latest_first=False),
        query=query_without(request),
        decisions=shown.memory.decisions.filter(episode=episode)[:RELATED_SHOWN],
        facts=shown.memory.facts.filter(source_episode=episode)[:RELATED_SHOWN],
        index=index_state(episode.persona, ItemType.EPISODE, episode.pk),
        outcome_kind=OUTCOME_KINDS.get(episode.outcome, "neutral"),
        summary_kind=SUMMARY_KINDS.get(episode.summary_kind, "neutral"),
        mono_kinds=MONO_KINDS,
        may_change=shown.by.may(CHANGE_EPISODE),
    )
    return render(request, "memory/episode.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def agent_episode_edit(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """Change how an episode is described, and whether it is shown."""
    shown = shown_memory(request, slug, "memory.view_episode")
    shown.by.require(CHANGE_EPISODE, shown.agent)
    episode: Episode = shown.row(shown.memory.episodes.select_related("agent"), pk, "episode")
    initial = {name: getattr(episode, name) for name in EpisodeForm.base_fields}
    form = EpisodeForm(request.POST if request.method == "POST" else None, initial=initial)
    return _form_page(
        request,
        shown,
        form,
        # A summary that nobody touched stays the one that the lifecycle may write anew.
        lambda given: episode_update(episode=episode, by=shown.by, **_changed(form)),
        "memory/episode_edit.html",
        reverse("agent_episode", args=[slug, pk]),
        "Saved the episode.",
        episode=episode,
    )


@require_http_methods(["GET", "HEAD", "POST"])
def agent_episode_close(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """End an episode that is still open."""
    shown = shown_memory(request, slug, "memory.view_episode")
    shown.by.require(CHANGE_EPISODE, shown.agent)
    episode: Episode = shown.row(shown.memory.episodes.select_related("agent"), pk, "episode")
    initial = {"outcome": episode.outcome, "summary": episode.summary, "lessons": episode.lessons}
    form = EpisodeCloseForm(request.POST if request.method == "POST" else None, initial=initial)
    return _form_page(
        request,
        shown,
        form,
        # A summary that was left empty is the lifecycle's to make.
        lambda given: episode_close(
            episode=episode,
            by=shown.by,
            **{"outcome": given["outcome"], **_changed(form, "summary", "lessons", "ended_at")},
        ),
        "memory/episode_close.html",
        reverse("agent_episode", args=[slug, pk]),
        "Closed the episode.",
        episode=episode,
    )


def _changed(form: forms.Form, *names: str) -> dict[str, Any]:
    """What was typed and differs from what was there, of all fields or of `names`, whatever ends the lines."""
    typed = {
        name: value.replace("\r\n", "\n") if isinstance(value, str) else value
        for name, value in form.cleaned_data.items()
        if not names or name in names
    }
    return {name: value for name, value in typed.items() if value != form.initial.get(name)}


def _form_page(
    request: HttpRequest,
    shown: Shown,
    form: forms.Form,
    change: Callable[[dict[str, Any]], object],
    template: str,
    done_url: str,
    done: str,
    **more: Any,
) -> HttpResponse:
    """A form and the change that it makes; a refusal shows it again with what was typed."""
    refusal = ""
    if request.method == "POST" and form.is_valid():
        try:
            change(form.cleaned_data)
        except Invalid as error:
            form_refuse(form, error)
        except Conflict as error:
            refusal = error.detail
        else:
            messages.success(request, done)
            return redirect(done_url + shown.suffix)
    context = base_context(request, shown, form=form, refusal=refusal, **more)
    return render(request, template, context, status=409 if refusal else 422 if form.errors else 200)


@require_safe
def agent_decisions(request: HttpRequest, slug: str) -> HttpResponse:
    """Choices with their stakes and what came of them, latest first."""
    shown = shown_memory(request, slug, "memory.view_decision")
    found = DecisionFilter(request.GET, queryset=shown.memory.decisions)
    context = base_context(
        request,
        shown,
        form=found.form,
        narrowed=found.narrowed,
        query=query_without(request),
        page=keyset_page(request, found.found, "created_at"),
        outcome_kinds=OUTCOME_KINDS,
        stakes_kinds=STAKES_KINDS,
    )
    return render(request, "memory/decisions.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def agent_decision(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """One decision with its reasons, what came of it, and the form of a review."""
    shown = shown_memory(request, slug, "memory.view_decision")
    decision: Decision = shown.row(shown.memory.decisions.select_related("agent"), pk, "decision")
    form = None
    if request.method == "POST" or shown.by.may("memory.change_decision"):
        shown.by.require("memory.change_decision", shown.agent)
        initial = {"outcome": decision.outcome, "note": decision.outcome_note}
        form = DecisionReviewForm(request.POST if request.method == "POST" else None, initial=initial)
        if request.method == "POST" and form.is_valid():
            try:
                decision_review(decision=decision, by=shown.by, **form.cleaned_data)
            except Invalid as error:
                form_refuse(form, error)
            else:
                messages.success(request, "Saved the review.")
                return redirect(reverse("agent_decision", args=[slug, pk]) + shown.suffix)
    episode = shown.memory.episodes.filter(pk=decision.episode_id).first() if decision.episode_id else None
    context = base_context(
        request,
        shown,
        decision=decision,
        form=form,
        episode=episode,
        index=index_state(decision.persona, ItemType.DECISION, decision.pk),
        outcome_kind=OUTCOME_KINDS.get(decision.outcome, "neutral"),
        stakes_kind=STAKES_KINDS.get(decision.stakes, "neutral"),
    )
    return render(request, "memory/decision.html", context, status=422 if form is not None and form.errors else 200)


@require_safe
def agent_procedures(request: HttpRequest, slug: str) -> HttpResponse:
    """Ways of doing things, by name."""
    shown = shown_memory(request, slug, "memory.view_procedure")
    found = ProcedureFilter(request.GET, queryset=shown.memory.procedures)
    paginator = BoundedPaginator(found.found, PAGE_SIZE)
    context = base_context(
        request,
        shown,
        form=found.form,
        narrowed=found.narrowed,
        query=query_without(request),
        page=paginator.get_page(request.GET.get("page")),
        full=paginator.is_full,
    )
    return render(request, "memory/procedures.html", context)


@require_safe
def agent_procedure(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """One procedure: its steps, and how often it helped."""
    shown = shown_memory(request, slug, "memory.view_procedure")
    procedure: Procedure = shown.row(shown.memory.procedures, pk, "procedure")
    context = base_context(
        request,
        shown,
        procedure=procedure,
        may_change=shown.by.may("memory.change_procedure"),
        index=index_state(procedure.persona, ItemType.PROCEDURE, procedure.pk),
    )
    return render(request, "memory/procedure.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def agent_procedure_edit(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """Write a procedure anew; its counts stay."""
    shown = shown_memory(request, slug, "memory.view_procedure")
    shown.by.require("memory.change_procedure", shown.agent)
    procedure: Procedure = shown.row(shown.memory.procedures.select_related("agent"), pk, "procedure")
    initial = {name: getattr(procedure, name) for name in ProcedureForm.base_fields}
    return _form_page(
        request,
        shown,
        ProcedureForm(request.POST if request.method == "POST" else None, initial=initial),
        lambda given: procedure_update(procedure=procedure, by=shown.by, **given),
        "memory/procedure_edit.html",
        reverse("agent_procedure", args=[slug, pk]),
        "Saved the procedure.",
        procedure=procedure,
    )


@require_POST
def agent_procedure_use(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """Take a procedure out of use, or bring it back."""
    shown = shown_memory(request, slug, "memory.view_procedure")
    procedure: Procedure = shown.row(shown.memory.procedures.select_related("agent"), pk, "procedure")
    active = request.POST.get("active") == "yes"
    procedure_update(procedure=procedure, by=shown.by, active=active)
    messages.success(request, "It is in use again." if active else "Retired: the agent is no longer shown it.")
    return redirect(reverse("agent_procedure", args=[slug, pk]) + shown.suffix)


@require_safe
def agent_working(request: HttpRequest, slug: str) -> HttpResponse:
    """What the agent has in mind, session by session."""
    shown = shown_memory(request, slug, "memory.view_workingmemory")
    found = WorkingFilter(request.GET, queryset=shown.memory.working)
    page = keyset_page(request, found.found, "updated_at", size=20)
    context = base_context(
        request,
        shown,
        form=found.form,
        narrowed=found.narrowed,
        query=query_without(request),
        page=page,
        # The names stay clear of a dict's own "items".
        sessions=[(session, _most_relevant(session), session.open_threads) for session in page.rows],
    )
    return render(request, "memory/working.html", context)


def _most_relevant(session: WorkingMemory) -> list[dict[str, object]]:
    return sorted(session.items, key=lambda item: -float(item.get("relevance", 0)))

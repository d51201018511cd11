"""Episodes of an agent."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from memory.models import Episode
from memory.selectors.filters import EpisodeFilter
from memory.services.episodes import episode_close, episode_update
from nousweb.console.common import FORM, Column, Title, query_without, request_page
from nousweb.console.memory.forms import EpisodeCloseForm, EpisodeForm
from nousweb.console.memory.page_context import (
    MemoryList,
    PersonaScope,
    changed_fields,
    edit_page,
    memory_context,
    memory_list,
    memory_page,
)
from nousweb.console.memory.views.events import MONO_KINDS, previews

RELATED_SHOWN = 50
CHANGE_EPISODE = "memory.change_episode"
SUMMARY_KINDS = {"extractive": "neutral", "judge": "accent", "given": "ok", "none": "neutral"}

agent_episodes = memory_list(
    MemoryList(
        title="Episodes",
        noun="episode",
        about="Periods of work and their outcomes.",
        empty="The agent opens an episode when it begins a piece of work, and closes it with the outcome.",
        moment="started_at",
        model=Episode,
        filter=EpisodeFilter,
        narrow=lambda rows: rows.defer("detail"),
        row=Title(
            str,
            lambda episode: [] if episode.ended_at else [("accent", "open")],
            detail="summary",
        ),
        columns=(
            Column("Outcome", look="components/outcome_badge.html"),
            Column("With", lambda episode: ", ".join(episode.participants), is_usual=lambda one: not one.participants),
            Column("Lessons", lambda episode: len(episode.lessons), "count", is_usual=lambda one: not one.lessons),
            Column("Lasted", look="memory/_episode_lasted.html", is_usual=lambda episode: not episode.ended_at),
            Column("Began", "started_at", "time", is_last=True),
        ),
    )
)
"""Stretches of work, latest first."""


@memory_page("memory.view_episode", of=Episode, past=True)
def agent_episode(request: HttpRequest, scope: PersonaScope, episode: Episode) -> HttpResponse:
    """One episode: its course and outcome, and its transcript in pages."""
    events = scope.then(scope.memory.events.filter(episodes=episode), "ts")
    context = memory_context(
        request,
        scope,
        episode,
        event_count=events.order_by().count(),
        page=request_page(request, previews(events), "ts", latest_first=False),
        query=query_without(request),
        decisions=scope.then(scope.memory.decisions.filter(episode=episode))[:RELATED_SHOWN],
        facts=scope.then(scope.memory.facts.filter(source_episode=episode))[:RELATED_SHOWN],
        summary_kind=SUMMARY_KINDS.get(episode.summary_kind, "neutral"),
        mono_kinds=MONO_KINDS,
        may_change=scope.by.may(CHANGE_EPISODE),
    )
    return render(request, "memory/episode.html", context)


@memory_page("memory.view_episode", CHANGE_EPISODE, of=Episode, methods=FORM)
def agent_episode_edit(request: HttpRequest, scope: PersonaScope, episode: Episode) -> HttpResponse:
    """Change how an episode is described, and whether it is shown."""
    initial = {name: getattr(episode, name) for name in EpisodeForm.base_fields}
    form = EpisodeForm(request.POST if request.method == "POST" else None, initial=initial)
    return edit_page(
        request,
        scope,
        episode,
        form,
        # A summary that nobody touched stays the one that the lifecycle may rewrite.
        lambda fields: episode_update(episode=episode, by=scope.by, **changed_fields(form)),
        title="Edit episode",
        done="The episode was saved.",
    )


@memory_page("memory.view_episode", CHANGE_EPISODE, of=Episode, methods=FORM)
def agent_episode_close(request: HttpRequest, scope: PersonaScope, episode: Episode) -> HttpResponse:
    """End an episode that is still open."""
    initial = {name: getattr(episode, name) for name in ("outcome", "summary", "lessons")}
    form = EpisodeCloseForm(request.POST if request.method == "POST" else None, initial=initial)
    return edit_page(
        request,
        scope,
        episode,
        form,
        # A summary that was left empty is the lifecycle's to make.
        lambda fields: episode_close(
            episode=episode,
            by=scope.by,
            **{"outcome": fields["outcome"], **changed_fields(form, "summary", "lessons", "ended_at")},
        ),
        title="Close episode",
        note="The episode stays in search and prompts. Its transcript cannot be extended any more.",
        button="Close the episode",
        done="The episode was closed.",
    )

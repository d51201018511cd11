"""Agents: the list, making one, its settings, and seeding its identity again."""

from dataclasses import dataclass

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from identity.models import Agent
from identity.policy.sections import Section
from identity.selectors import AgentListRow, agent_get, agents_overview
from identity.services.agents import (
    SeedChange,
    SeedResult,
    agent_create,
    agent_reinitiate,
    agent_update,
    seed_digest,
    seed_plan,
)
from nousweb.console.common.list_page import ListPage
from nousweb.console.common.pagination import page_of
from nousweb.console.common.view_helpers import principal_of, refused_on
from nousweb.console.identity.forms import AgentForm, AgentSearchForm, NewAgentForm, ReasonForm
from nousweb.lib.errors import Conflict
from nousweb.lib.textdiff import TextDiff, diff_texts

LIST = ListPage(
    title="Agents",
    noun="agent",
    empty="An agent stores memories here and requests its prompt. An administrator creates it, and a token for it.",
    is_exported=False,
)


@require_safe
def agents(request: HttpRequest) -> HttpResponse:
    """Every agent with its state, its pending items, and the size of its identity."""
    by = principal_of(request)
    by.require("identity.view_agent")
    form = AgentSearchForm(request.GET)
    search = form.cleaned_data["q"] if form.is_valid() else ""
    page = page_of(request, agents_overview(by, search))
    context = LIST.context(request, page, form, bool(search))
    return render(request, "identity/agents.html", {**context, "rows": [AgentListRow.of(agent) for agent in page]})


@require_http_methods(["GET", "HEAD", "POST"])
def agent_new(request: HttpRequest) -> HttpResponse:
    """Make an agent."""
    by = principal_of(request)
    by.require("identity.add_agent")
    form = NewAgentForm(request.POST or None, initial={"prompt": settings.IDENTITY_PROMPT})
    if request.method == "POST" and form.is_valid():
        # To the services, the prompt of the character is the content of a section.
        with refused_on(form, "slug", content="prompt"):
            agent = agent_create(**form.cleaned_data, by=by)
            messages.success(request, f"Agent {agent.name} was created.")
            return redirect("agent_connect" if by.may("identity.add_apitoken") else "agent_identity", agent.slug)
    return render(request, "identity/agent_new.html", {"form": form}, status=422 if form.errors else 200)


@require_safe
def agent(request: HttpRequest, slug: str) -> HttpResponse:
    """Redirect to the first page of an agent."""
    return redirect(agent_get(slug, principal_of(request)))


@require_http_methods(["GET", "HEAD", "POST"])
def agent_settings(request: HttpRequest, slug: str) -> HttpResponse:
    """Change an agent's name and kind."""
    by = principal_of(request)
    by.require("identity.change_agent")
    agent = agent_get(slug, by)
    form = AgentForm(request.POST or None, initial={"name": agent.name, "kind": agent.kind})
    if request.method == "POST" and form.is_valid():
        with refused_on(form):
            agent_update(agent=agent, **form.cleaned_data, by=by)
            messages.success(request, "The settings were saved.")
            return redirect("agent_settings", agent.slug)
    context = {"agent": agent, "form": form}
    return render(request, "identity/agent_settings.html", context, status=422 if form.errors else 200)


@dataclass(frozen=True, slots=True)
class ShownChange:
    """A section that seeding would write, as its confirmation page shows it."""

    section: Section
    from_version: int
    to_version: int
    diff: TextDiff

    @classmethod
    def of(cls, change: SeedChange) -> "ShownChange":
        version = change.current.version if change.current else 0
        before = change.current.content if change.current else ""
        return cls(Section(change.section), version, version + 1, diff_texts(before, change.content))


@require_http_methods(["GET", "HEAD", "POST"])
def agent_initiate(request: HttpRequest, slug: str) -> HttpResponse:
    """Show what seeding the identity again would change, and do exactly that when it is confirmed."""
    by = principal_of(request)
    by.require("identity.reinitiate_agent")
    agent = agent_get(slug, by)
    form = ReasonForm(request.POST or None)
    if request.method != "POST" or not form.is_valid():
        return _initiate_page(request, agent, form, status=422 if form.errors else 200)
    try:
        seeded = agent_reinitiate(
            agent=agent, by=by, reason=form.cleaned_data["reason"], seen=request.POST.get("seen", "-")
        )
    except Conflict as error:
        messages.warning(request, f"{error.detail} Check them again.")
        return _initiate_page(request, agent, form, status=409)
    messages.success(request, _said(seeded))
    return redirect("agent_identity", agent.slug)


def _said(seeded: SeedResult) -> str:
    if seeded.proposed:
        sections = ", ".join(proposal.get_section_display() for proposal in seeded.proposed)
        return f"Proposed, and not active yet: {sections}. Four eyes: another person must approve."
    sections = ", ".join(version.get_section_display() for version in seeded.written)
    return f"Seeded again: {sections} changed." if sections else "Seeded again: nothing changed."


def _initiate_page(request: HttpRequest, agent: Agent, form: ReasonForm, *, status: int) -> HttpResponse:
    plan = seed_plan(agent)
    context = {
        "agent": agent,
        "form": form,
        "changes": [ShownChange.of(change) for change in plan],
        "seen": seed_digest(plan),
        "four_eyes": settings.FOUR_EYES,
        "has_prompt": bool(settings.IDENTITY_PROMPT.strip()),
    }
    return render(request, "identity/agent_initiate.html", context, status=status)

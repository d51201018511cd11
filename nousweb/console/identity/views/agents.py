"""Agents: the list, making one, its settings, and seeding its identity again."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from identity.models import Agent
from identity.policy.sections import Section
from identity.principal import Principal
from identity.selectors import AgentListRow, agents_overview
from identity.services.agents import (
    SeedChange,
    SeedResult,
    agent_create,
    agent_reinitiate,
    agent_update,
    seed_digest,
    seed_plan,
)
from nousweb.console.common import FORM, ListPage, agent_page, form_page, page, page_of
from nousweb.console.identity.forms import AgentForm, AgentSearchForm, NewAgentForm, ReasonForm
from nousweb.lib.errors import Conflict
from nousweb.lib.textdiff import diff_texts

LIST = ListPage(
    title="Agents",
    noun="agent",
    empty="An agent stores memories here and requests its prompt. An administrator creates it, and a token for it.",
    is_exported=False,
)


@page("identity.view_agent")
def agents(request: HttpRequest, by: Principal) -> HttpResponse:
    """Every agent with its state, its pending items, and the size of its identity."""
    form = AgentSearchForm(request.GET)
    search = form.cleaned_data["q"] if form.is_valid() else ""
    page = page_of(request, agents_overview(by, search))
    context = LIST.context(request, page, form, bool(search))
    return render(request, "identity/agents.html", {**context, "rows": [AgentListRow.of(agent) for agent in page]})


@page("identity.add_agent", methods=FORM)
def agent_new(request: HttpRequest, by: Principal) -> HttpResponse:
    """Make an agent."""
    following = "agent_connect" if by.may("identity.add_apitoken") else "agent_identity"
    return form_page(
        request,
        "identity/agent_new.html",
        NewAgentForm(request.POST or None, initial={"prompt": settings.IDENTITY_PROMPT}),
        lambda given: agent_create(**given, by=by),
        done=lambda agent: f"Agent {agent.name} was created.",
        back=lambda agent: reverse(following, args=[agent.slug]),
        context={},
        conflict="slug",
        # To the services, the prompt of the character is the content of a section.
        fields={"content": "prompt"},
    )


@agent_page()
def agent(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Redirect to the first page of an agent."""
    return redirect(agent)


@agent_page("identity.change_agent", methods=FORM)
def agent_settings(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Change an agent's name and kind."""
    return form_page(
        request,
        "identity/agent_settings.html",
        AgentForm(request.POST or None, initial={"name": agent.name, "kind": agent.kind}),
        lambda given: agent_update(agent=agent, **given, by=by),
        done="The settings were saved.",
        back=reverse("agent_settings", args=[agent.slug]),
        context={"agent": agent},
    )


@agent_page("identity.reinitiate_agent", methods=FORM)
def agent_initiate(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Show what seeding the identity again would change, and do exactly that when it is confirmed."""
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


def _change(change: SeedChange) -> dict[str, Any]:
    """A section that seeding would write."""
    version = change.current.version if change.current else 0
    before = change.current.content if change.current else ""
    diff = diff_texts(before, change.content)
    return {"section": Section(change.section), "from_version": version, "to_version": version + 1, "diff": diff}


def _initiate_page(request: HttpRequest, agent: Agent, form: ReasonForm, *, status: int) -> HttpResponse:
    plan = seed_plan(agent)
    context = {
        "agent": agent,
        "form": form,
        "changes": [_change(change) for change in plan],
        "seen": seed_digest(plan),
        "four_eyes": settings.FOUR_EYES,
        "has_prompt": bool(settings.IDENTITY_PROMPT.strip()),
    }
    return render(request, "identity/agent_initiate.html", context, status=status)

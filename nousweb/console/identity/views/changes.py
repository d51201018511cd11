"""The change feed of one agent, as its readers get it, the latest first."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from identity.models import Agent, Persona
from identity.principal import Principal
from identity.services.change_feed import changes_latest, kinds_of, stream_publish, streams_of
from nousweb.console.common import (
    PAGE_SIZE,
    ListPage,
    agent_page,
    change_details,
    change_links,
    kind_choices,
    kind_title,
    query_without,
)
from nousweb.lib.keyset_page import KeysetPage

MAX_DIGITS = 18


class ChangesForm(forms.Form):
    kind = forms.ChoiceField(required=False)
    agent = forms.ChoiceField(required=False)
    persona = forms.ChoiceField(
        required=False, choices=[("", "Both personas"), ("actor", "Actor"), ("subconscious", "Subconscious")]
    )

    def __init__(
        self, *args: Any, kinds: frozenset[str], agent: Agent, by: Principal, both: bool, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", "Everything"), *kind_choices(kinds, whole_groups=True)]
        self.fields["kind"].choices = choices  # type: ignore[attr-defined]
        agents = Agent.objects.visible_to(by).order_by("name").values_list("slug", "name")[:200]
        self.fields["agent"].choices = list(agents)  # type: ignore[attr-defined]
        self.fields["agent"].initial = agent.slug
        if not both:
            del self.fields["persona"]


LIST = ListPage(
    title="Changes",
    noun="change",
    empty="All changes of this agent are listed here and sent to readers of GET /api/changes and to webhooks.",
    is_exported=False,
)


@agent_page()
def agent_changes(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The feed of an agent, a page at a time: of the kinds and personas that this person may know of."""
    allowed = kinds_of(by)
    if not allowed:
        by.require("identity.view_agent", agent)
    streams = streams_of(by)
    asked = request.GET.copy()
    asked.setdefault("agent", agent.slug)
    form = ChangesForm(asked, kinds=allowed, agent=agent, by=by, both=len(streams) > 1)
    filters = form.cleaned_data if form.is_valid() else {}
    if filters.get("agent", agent.slug) not in ("", agent.slug):
        query = query_without(request, "agent")
        return redirect(f"{reverse('agent_changes', args=[filters['agent']])}{f'?{query}' if query else ''}")
    if filters.get("persona"):
        streams = (filters["persona"],)
    kinds = _kinds(filters.get("kind", ""), allowed)
    for persona in streams:
        stream_publish(agent.pk, persona)
    before = _places(request.GET.get("after", ""))
    found = changes_latest(agent=agent, streams=streams, kinds=kinds, before=before, limit=PAGE_SIZE)
    links = change_links(agent, found.changes, streams)
    rows = [
        (change, kind_title(change.kind), links[change.pk], change_details(change.kind, change.details))
        for change in found.changes
    ]
    is_filtered = bool(filters.get("kind") or filters.get("persona"))
    page = KeysetPage(list(found.changes), "", _cursor(found.before))
    context = {
        **LIST.context(request, page, form, is_filtered),
        "agent": agent,
        "rows": [] if form.errors else rows,
        "query": query_without(request, "agent"),
        "past_first": bool(before),
    }
    return render(request, "identity/changes.html", context)


def _kinds(asked: str, allowed: frozenset[str]) -> frozenset[str]:
    """The kinds of a filter choice: one kind, all of a group ("fact.*"), or all."""
    if not asked:
        return allowed
    return frozenset(kind for kind in allowed if kind == asked or (asked[-1] == "*" and kind.startswith(asked[:-1])))


def _places(text: str) -> dict[str, int]:
    """Parse a text of `_cursor`; {} for anything else, which is the first page."""
    names = {persona[0]: persona for persona in Persona.values}
    parts = [part for part in text.split(".") if part]
    if not all(part[0] in names and part[1:].isascii() and part[1:].isdigit() for part in parts):
        return {}
    return {names[part[0]]: int(part[1:]) for part in parts if len(part) <= MAX_DIGITS + 1}


def _cursor(before: dict[str, int]) -> str:
    """The beginning of the next page, for an address: "a17.s4"."""
    return ".".join(f"{persona[0]}{position}" for persona, position in before.items())

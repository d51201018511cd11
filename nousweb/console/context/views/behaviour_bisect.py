"""The changes between two moments that changed the prompt of a logged request."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from context.history.behaviour_bisect import (
    PROFILE_KIND,
    BehaviourBisect,
    Difference,
    Event,
    ItemDifference,
    context_bisect,
)
from context.models import ASSEMBLE, VIEW_RUN
from context.selectors import run_get
from identity.models import Agent, ChangeProposal
from identity.principal import Principal
from identity.selectors import agent_get
from identity.services.change_feed import kinds_of
from nousweb.console.common.change_kinds import kind_title
from nousweb.console.common.object_links import object_url
from nousweb.console.common.view_helpers import form_refuse, principal_of
from nousweb.console.context.forms import DateTimeInput
from nousweb.console.context.links import memory_item_url
from nousweb.lib import clock
from nousweb.lib.errors import Invalid
from nousweb.lib.textdiff import TextDiff, diff_texts

CHANGE_BADGES = {"added": ("added", "came"), "removed": ("removed", "went"), "text": ("accent", "reads differently")}


class SpanForm(forms.Form):
    since = forms.DateTimeField(label="From (UTC)", widget=DateTimeInput())
    until = forms.DateTimeField(label="To (UTC)", required=False, widget=DateTimeInput(), help_text="Empty means now.")


@dataclass(frozen=True, slots=True)
class EventView:
    """One change as a sentence: the action, the author, and the page of its object."""

    words: str
    url: str
    by: str
    approved_by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class ItemView:
    """One item that differs, with its badge and its page."""

    item: ItemDifference
    kind: str
    word: str
    url: str

    diff: TextDiff | None = None

    @property
    def text(self) -> str:
        """The text of an item that was added or removed."""
        return self.item.after or self.item.before


@dataclass(frozen=True, slots=True)
class DifferenceView:
    """One difference with its changes in words and its items."""

    difference: Difference
    events: list[EventView]
    items: list[ItemView]
    is_forgotten: bool
    compare_url: str


@require_safe
def agent_context_bisect(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """The changes between ?since= and ?until= that made a difference to this run's prompt. Leaves no trace."""
    by = principal_of(request)
    by.require(VIEW_RUN)
    by.require(ASSEMBLE)
    agent = agent_get(slug, by)
    run = run_get(agent, by, pk)
    asked = "since" in request.GET
    initial = {"since": run.created_at - timedelta(days=7), "until": None}
    form = SpanForm(request.GET if asked else None, initial=initial)
    context: dict[str, Any] = {"agent": agent, "run": run, "form": form}
    if asked and form.is_valid():
        since, until = form.cleaned_data["since"], form.cleaned_data["until"] or clock.now()
        try:
            bisect = context_bisect(run=run, by=by, since=since, until=until)
        except Invalid as error:
            form_refuse(form, error)
        else:
            context |= {
                "bisect": bisect,
                "differences": [_difference(one, bisect, agent, by, run.pk) for one in bisect.differences],
                "items": _items(bisect.items, slug),
            }
    status = 422 if asked and form.errors else 200
    return render(request, "context/behaviour_bisect.html", context, status=status)


def _difference(
    difference: Difference, bisect: BehaviourBisect, agent: Agent, by: Principal, run: UUID
) -> DifferenceView:
    known = kinds_of(by)
    sides = {"a": run, "b": run, "a_as_of": _moment(difference.since), "b_as_of": _moment(difference.until)}
    return DifferenceView(
        difference,
        [_event(event, by, known) for event in difference.events],
        _items(difference.items, agent.slug),
        difference.since < bisect.known_since,
        f"{reverse('agent_context_compare', args=[agent.slug])}?{urlencode(sides)}",
    )


def _event(event: Event, by: Principal, known: frozenset[str]) -> EventView:
    """The view of a change; only its existence if this person may not see it."""
    if event.kind == PROFILE_KIND:
        return EventView("Profile updated", _page(event, by), event.author_name, "", event.at)
    if event.kind not in known:
        return EventView("A change that you cannot view", "", "", "", event.at)
    approved_by = ""
    if event.object_type == "identityversion":
        proposal = ChangeProposal.objects.visible_to(by).filter(version=UUID(event.object_id)).first()
        reviewer = proposal.reviewer_name if proposal else ""
        approved_by = reviewer if reviewer != event.author_name else ""
    return EventView(kind_title(event.kind), _page(event, by), event.author_name, approved_by, event.at)


def _page(event: Event, by: Principal) -> str:
    if event.kind == PROFILE_KIND:
        return reverse("context_profile_history", args=[event.object_id])
    return object_url(event.object_type, event.object_id, by) or ""


def _items(items: Any, slug: str) -> list[ItemView]:
    return [
        ItemView(
            item,
            *CHANGE_BADGES[item.change],
            memory_item_url(slug, item.type, item.id),
            diff_texts(item.before, item.after) if item.change == "text" else None,
        )
        for item in items
    ]


def _moment(moment: datetime) -> str:
    return timezone.localtime(moment).strftime("%Y-%m-%dT%H:%M:%S.%f")

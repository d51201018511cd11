"""Find the changes that made the difference in a run's prompt."""

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from context.history.behaviour_bisect import (
    PROFILE_KIND,
    BehaviourBisect,
    Difference,
    Event,
    context_bisect,
    context_bisect_steps,
)
from context.models import ASSEMBLE, VIEW_RUN
from context.selectors import run_get
from identity.models import Agent, ChangeProposal
from identity.principal import Principal
from identity.services.change_feed import kinds_of
from memory.selectors.filters import MomentInput
from nousweb.console.common import agent_page, kind_title, object_url, refused_on
from nousweb.console.context.labels import memory_item_url
from nousweb.lib import clock
from nousweb.lib.errors import Invalid
from nousweb.lib.textdiff import diff_texts

CHANGE_BADGES = {"added": ("added", "came"), "removed": ("removed", "went"), "text": ("accent", "reads differently")}


class SpanForm(forms.Form):
    since = forms.DateTimeField(label="From (UTC)", widget=MomentInput())
    until = forms.DateTimeField(label="To (UTC)", required=False, widget=MomentInput(), help_text="Empty means now.")


STEP_SECONDS = 0.5
"""How long a request tries changes before it shows what came of it."""


@agent_page(VIEW_RUN, ASSEMBLE)
def agent_context_bisect(request: HttpRequest, by: Principal, agent: Agent, pk: UUID) -> HttpResponse:
    """The changes between ?since= and ?until= that made a difference to this run's prompt. Leaves no trace.

    A browser with scripts gets what some time brings and asks for the rest with ?search=, others get all at once.
    """
    run = run_get(agent, by, pk)
    asked = "since" in request.GET
    initial = {"since": run.created_at - timedelta(days=7), "until": None}
    form = SpanForm(request.GET if asked else None, initial=initial)
    context: dict[str, Any] = {"agent": agent, "run": run, "form": form}
    goes_on = "search" in request.GET
    if asked and form.is_valid():
        given = {"run": run, "by": by, "since": form.cleaned_data["since"]}
        until = form.cleaned_data["until"] or clock.now()
        with refused_on(form):
            if request.htmx:  # type: ignore[attr-defined]
                context |= _steps(request, given, until)
            else:
                bisect = context_bisect(**given, until=until)
                shown = [_difference(one, bisect.known_since, agent, by, run.pk) for one in bisect.differences[::-1]]
                context |= {"steps": [{"differences": shown}], "result": _result(bisect, len(shown), agent.slug)}
    template = "context/_behaviour_bisect_steps.html" if goes_on else "context/behaviour_bisect.html"
    return render(request, template, context, status=422 if asked and form.errors else 200)


def _steps(request: HttpRequest, given: dict[str, Any], until: datetime) -> dict[str, Any]:
    """Go on with the search of ?search=, or begin one. Raises Invalid, Conflict."""
    run, by = given["run"], given["by"]
    signer, state = f"bisect {run.pk} {given['since'].isoformat()}", None
    if "search" in request.GET:
        try:
            state = signing.loads(request.GET["search"], salt=signer)
        except signing.BadSignature:
            raise Invalid("This search cannot be gone on with. Find the changes again.") from None
        until = datetime.fromisoformat(state["until"])
    done = context_bisect_steps(**given, until=until, state=state, seconds=STEP_SECONDS)
    steps = [
        {
            "step": step,
            "differences": [_difference(one, done.known_since, run.agent, by, run.pk) for one in step.differences],
        }
        for step in done.steps
    ]
    found = (state["found"] if state else 0) + sum(len(step.differences) for step in done.steps)
    following = ""
    if done.state is not None:
        left = {**done.state, "until": until.isoformat(), "found": found}
        query = {"since": request.GET["since"], "search": signing.dumps(left, salt=signer, compress=True)}
        following = f"?{urlencode(query)}"
    result = _result(done.bisect, found, run.agent.slug) if done.bisect else None
    return {"steps": steps, "following": following, "result": result}


def _result(bisect: BehaviourBisect, found: int, slug: str) -> dict[str, Any]:
    return {"bisect": bisect, "found": found, "items": _items(bisect.items, slug)}


def _difference(
    difference: Difference, known_since: datetime, agent: Agent, by: Principal, run: UUID
) -> dict[str, Any]:
    """One difference with its changes in words and its items."""
    known = kinds_of(by)
    sides = {"a": run, "b": run, "a_as_of": _given_moment(difference.since), "b_as_of": _given_moment(difference.until)}
    return {
        "difference": difference,
        "events": [_event(event, by, known) for event in difference.events],
        "items": _items(difference.items, agent.slug),
        "is_forgotten": difference.since < known_since,
        "compare_url": f"{reverse('agent_context_compare', args=[agent.slug])}?{urlencode(sides)}",
    }


def _event(event: Event, by: Principal, known: frozenset[str]) -> dict[str, Any]:
    """The view of a change; only its existence if this person may not see it."""
    shown = {"words": kind_title(event.kind), "url": _page(event, by), "by": event.author_name, "at": event.at}
    if event.kind == PROFILE_KIND:
        return shown | {"words": "Profile updated"}
    if event.kind not in known:
        return {"words": "A change that you cannot view", "at": event.at}
    if event.object_type == "identityversion":
        proposal = ChangeProposal.objects.visible_to(by).filter(version=UUID(event.object_id)).first()
        if proposal and proposal.reviewer_name != event.author_name:
            shown["approved_by"] = proposal.reviewer_name
    return shown


def _page(event: Event, by: Principal) -> str:
    if event.kind == PROFILE_KIND:
        return reverse("context_profile_history", args=[event.object_id])
    return object_url(event.object_type, event.object_id, by) or ""


def _items(items: Any, slug: str) -> list[dict[str, Any]]:
    """The items that differ, each with its badge and its page; `text` is that of one that came or went."""
    return [
        {
            "item": item,
            "kind": CHANGE_BADGES[item.change][0],
            "word": CHANGE_BADGES[item.change][1],
            "url": memory_item_url(slug, item.type, item.id),
            "diff": diff_texts(item.before, item.after) if item.change == "text" else None,
            "text": item.after or item.before,
        }
        for item in items
    ]


def _given_moment(moment: datetime) -> str:
    return timezone.localtime(moment).strftime("%Y-%m-%dT%H:%M:%S.%f")

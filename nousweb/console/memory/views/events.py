"""The event log, by loop and by event."""

from dataclasses import replace
from typing import Any

from django.db.models import Count, Exists, OuterRef
from django.db.models.functions import Left, Length
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html

from context.models import ASSEMBLE
from memory.layers.event_validation import OUTPUT_KINDS
from memory.models import Event, EventKind, EventQuerySet, LongTermEntry, LoopSummary
from memory.persona import PersonaMemory
from memory.selectors.filters import EventFilter
from memory.services.erasure import ERASE
from memory.services.reviews.resolve import event_mark_wrong
from memory.services.reviews.states import REVIEW
from nousweb.console.common import FORM, ListExport, model_columns, next_prompt_link, query_without, request_page
from nousweb.console.memory.forms import RemarkForm
from nousweb.console.memory.page_context import (
    MemoryList,
    PersonaScope,
    base_context,
    edit_page,
    memory_context,
    memory_page,
    origin_run,
)
from nousweb.lib.errors import NotFound

VIEW, VIEW_WORKING = "memory.view_event", "memory.view_workingmemory"
PREVIEW_CHARACTERS = 600
UNFOLDED_EVENTS = 20
FACTS_SHOWN = 50
MONO_KINDS = frozenset({EventKind.TOOL_CALL, *OUTPUT_KINDS})
"""Kinds whose content is shown in monospace: inputs and outputs of tools."""
SIDES = {"lt": ("↑", "prev", "previous", "Event before"), "gt": ("↓", "next", "next", "Event after")}
"""The links to the neighbours of an event: arrow, relation, key and name."""


def event_layouts(request: HttpRequest, scope: PersonaScope, shown: str) -> list[dict[str, Any]]:
    """The log by session or event by event, and what sessions keep in mind, as far as one may see them; the page has
    the one that is `shown`."""
    rest = query_without(request, "view")
    events, working = (reverse(name, args=[scope.agent.slug]) for name in ("agent_events", "agent_working"))
    flat = "&".join(part for part in (rest, "view=events") if part)
    urls = {
        **({"Sessions": f"{events}?{rest}", "Events": f"{events}?{flat}"} if scope.by.may(VIEW) else {}),
        **({"Working memory": f"{working}?{rest}"} if scope.by.may(VIEW_WORKING) else {}),
    }
    return [{"label": label, "url": url, "active": label == shown} for label, url in urls.items() if len(urls) > 1]


EVENTS = MemoryList(
    title="Events",
    noun="event",
    about="Everything that happened, as recorded.",
    empty="The agent records events with its token. Events are kept permanently and cannot be changed.",
    moment="ts",
    template="memory/events.html",
    model=Event,
    filter=EventFilter,
    narrow=lambda events: previews(events),
    more=lambda request, scope, rows: {
        "layouts": event_layouts(request, scope, "Events"),
        "mono_kinds": MONO_KINDS,
        "flat": True,
    },
)
LOOPS = replace(
    EVENTS,
    noun="session",
    moment="last_event_at",
    size=30,
    narrow=lambda loops: loops.defer("long_term_ids"),
    export=ListExport("Sessions", model_columns(LoopSummary, "long_term_ids")),
    more=lambda request, scope, rows: {
        "layouts": event_layouts(request, scope, "Sessions"),
        "rows": _with_counts(scope.memory, rows),
    },
)


@memory_page(VIEW, past=True)
def agent_events(request: HttpRequest, scope: PersonaScope) -> HttpResponseBase:
    """The loops with the latest event first, or with ?view=events each event by itself."""
    found = EVENTS.filtered(request, scope)
    if request.GET.get("view") == "events":
        return EVENTS.response(request, scope, found, found.results, view="events")
    loops = scope.then(scope.memory.loops, LOOPS.moment)
    if found.form.errors:
        loops = loops.none()
    elif found.is_filtered:
        of_loop = {name: OuterRef(name) for name in ("agent", "persona", "loop_id")}
        loops = loops.filter(Exists(found.qs.filter(**of_loop)))
    return LOOPS.response(request, scope, found, loops)


def _with_counts(memory: PersonaMemory, loops: list[LoopSummary]) -> list[tuple[LoopSummary, list[tuple[str, int]]]]:
    """Loops with the number of their events by kind, the most frequent first."""
    rows = (
        memory.events.filter(loop_id__in=[loop.loop_id for loop in loops])
        .order_by()
        .values_list("persona", "loop_id", "kind")
        .annotate(total=Count("pk"))
    )
    counts: dict[tuple[str, str], list[tuple[str, int]]] = {}
    labels = dict(EventKind.choices)
    for persona, loop_id, kind, total in sorted(rows, key=lambda row: (-row[3], row[2])):
        counts.setdefault((persona, loop_id), []).append((str(labels.get(kind, kind)), total))
    return [(loop, counts.get((loop.persona, loop.loop_id), [])) for loop in loops]


def previews(events: EventQuerySet) -> EventQuerySet:
    """Events with the beginning of their content as `beginning` and its length as `characters`, not all of it."""
    return events.defer("content", "metadata").annotate(
        beginning=Left("content", PREVIEW_CHARACTERS), characters=Length("content")
    )


@memory_page(VIEW)
def agent_loop(request: HttpRequest, scope: PersonaScope, loop_id: str) -> HttpResponse:
    """One loop with all its events in order: a page, or the part of one that a row unfolds."""
    events = scope.memory.events.filter(loop_id=loop_id)
    if request.htmx:  # type: ignore[attr-defined]
        some = list(previews(events).order_by("ts", "pk")[: UNFOLDED_EVENTS + 1])
        return render(
            request,
            "memory/_loop_events.html",
            {
                "agent": scope.agent,
                "shown": scope,
                "events": some[:UNFOLDED_EVENTS],
                "more_url": request.path + scope.suffix if len(some) > UNFOLDED_EVENTS else "",
                "mono_kinds": MONO_KINDS,
            },
        )
    # Both personas may have a loop of this name.
    loops = list(scope.memory.loops.filter(loop_id=loop_id).defer("long_term_ids").order_by("persona"))
    if not loops:
        raise NotFound("There is no such session.")
    return render(
        request,
        "memory/loop.html",
        base_context(
            request,
            scope,
            loop_id=loop_id,
            loops=_with_counts(scope.memory, loops),
            page=request_page(request, previews(events), "ts", latest_first=False),
            query=query_without(request),
            mono_kinds=MONO_KINDS,
        ),
    )


@memory_page(VIEW, of=Event, past=True)
def agent_event(request: HttpRequest, scope: PersonaScope, event: Event) -> HttpResponse:
    """One event as it was recorded, with the memories derived from it."""
    loop = scope.memory.loops.filter(persona=event.persona, loop_id=event.loop_id).defer("long_term_ids").first()
    entry = LongTermEntry.objects.filter(event=event).first()
    neighbours = scope.then(scope.memory.events.filter(loop_id=event.loop_id, persona=event.persona), "ts")
    context = memory_context(
        request,
        scope,
        event,
        loop=loop,
        entry=entry,
        may_mark=bool(entry and not entry.quarantined and not scope.past and scope.by.may(REVIEW)),
        may_erase=not scope.past and scope.by.may(ERASE),
        mono=event.kind in MONO_KINDS,
        neighbours=[
            (f"{reverse('agent_event', args=[scope.agent.slug, other])}{scope.suffix}", *link)
            for side, link in SIDES.items()
            if (other := _neighbour(neighbours, event, side))
        ],
        facts=scope.then(scope.memory.facts.filter(source_event=event))[:FACTS_SHOWN],
        episodes=scope.then(scope.memory.episodes.filter(events=event))[:FACTS_SHOWN],
    )
    return render(request, "memory/event.html", context)


@memory_page(REVIEW, of=Event, methods=FORM)
def agent_event_wrong(request: HttpRequest, scope: PersonaScope, event: Event) -> HttpResponse:
    """The form that marks an event as wrong, and the action itself; from a run's page it leads back there."""
    origin = origin_run(request, scope, "event", str(event.pk))
    done = "Marked as wrong. No prompt includes this event from now on."
    return edit_page(
        request,
        scope,
        event,
        RemarkForm(request.POST if request.method == "POST" else None),
        lambda fields: event_mark_wrong(event=event, by=scope.by, comment=fields["reason"]),
        done=format_html("{} {}", done, next_prompt_link(scope.agent.slug, origin))
        if origin and scope.by.may(ASSEMBLE)
        else done,
        back=origin,
        title="Mark as wrong",
        quote=event.content[:PREVIEW_CHARACTERS],
        note="No prompt and no search includes it from now on. Its record stays. It can be undone in the inbox.",
        button="Mark as wrong",
    )


def _neighbour(events: EventQuerySet, event: Event, side: str) -> int | None:
    """The id of the event next to this one in its loop."""
    sign = "-" if side == "lt" else ""
    same_time = events.filter(**{"ts": event.ts, f"pk__{side}": event.pk}).order_by(f"{sign}pk")
    other_time = events.filter(**{f"ts__{side}": event.ts}).order_by(f"{sign}ts", f"{sign}pk")
    return same_time.values_list("pk", flat=True).first() or other_time.values_list("pk", flat=True).first()

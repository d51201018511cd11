"""The facts of an agent: the list, one fact with its history, and adding one."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from identity.models import Agent
from identity.principal import Principal
from memory.models import Fact, FactChange, MemoryReview
from memory.policy import PROFILE_CATEGORIES
from memory.selectors import fact_chain
from memory.selectors.filters import FactFilter
from memory.services.facts import fact_learn
from nousweb.console.common import FORM, Action, Column, SpanBar, Title, agent_page, form_page, span_bars
from nousweb.console.memory.forms import FactForm
from nousweb.console.memory.page_context import (
    MemoryList,
    PersonaScope,
    memory_context,
    memory_list,
    memory_page,
)
from nousweb.lib import clock

EARLIEST = datetime.min.replace(tzinfo=UTC)
LONGEST_AHEAD = timedelta(days=30)
Span = tuple[datetime | None, datetime | None]
MARGIN = 0.04
"""Share of the axis left empty at its ends, for open intervals."""


@dataclass(frozen=True, slots=True)
class BitemporalSpans:
    """Both spans on one axis. `never` says that the fact was found to be wrong, so that its span counts no more."""

    begin: datetime
    end: datetime
    valid: list[SpanBar]
    known: list[SpanBar]
    now: float
    never: bool

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Both lines of the drawing: the key of its colour, label, bars, and the words for an open end."""
        valid = ("never", "Never valid") if self.never else ("valid", "Valid")
        return [
            {"key": valid[0], "label": valid[1], "bars": self.valid, "open": "with no known end"},
            {"key": "known", "label": "Recorded", "bars": self.known, "open": "until now"},
        ]


def known_spans(fact: Fact, changes: Iterable[FactChange]) -> list[Span]:
    """Since when and until when the agent held the fact to be true; restored facts have more than one span."""
    spans: list[Span] = []
    start: datetime | None = fact.recorded_at
    for change in sorted(
        (each for each in changes if each.action in FactChange.VALIDITY_TRANSITIONS), key=lambda each: each.pk
    ):
        if change.action == FactChange.Action.RESTORED:
            start = start or change.at
        elif start is not None:
            spans.append((start, change.at))
            start = None
    if fact.active:
        spans.append((start or fact.recorded_at, None))
    elif start is not None:
        # A fact that came without its history.
        spans.append((start, fact.retired_at))
    return spans


def bitemporal_spans(fact: Fact, changes: Iterable[FactChange]) -> BitemporalSpans:
    """The drawing of a fact, from its first moment to now or its last."""
    known = known_spans(fact, changes)
    valid: list[Span] = [(fact.valid_from, fact.valid_until)]
    moments = [moment for span in (*known, *valid) for moment in span if moment]
    now = clock.now()
    first = min([*moments, now])
    # An end in a far future would squeeze everything else to nothing: it runs off the axis.
    last = min(max([*moments, now]), now + max(now - first, LONGEST_AHEAD))
    margin = max((last - first) * MARGIN, timedelta(minutes=1))
    begin, end = (first - margin if first - EARLIEST > margin else first), last + margin
    return BitemporalSpans(
        begin=begin,
        end=end,
        valid=span_bars(valid, begin, end),
        # Recorded time ends now; it has no future.
        known=[
            bar if span[1] else replace(bar, end=None)
            for span, bar in zip(
                known, span_bars([(start, stop or now) for start, stop in known], begin, end), strict=True
            )
        ],
        now=span_bars([(now, now)], begin, end)[0].x,
        never=fact.invalidated_at is not None,
    )


VIEW = "memory.view_fact"
USUAL_IMPORTANCE = Fact._meta.get_field("importance").default
CHANGES_SHOWN = 200
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
            Column("State", look="memory/_fact_state_badge.html", is_usual=lambda fact: fact.is_current),
            Column("Importance", "importance", "ratio", is_usual=lambda fact: fact.importance == USUAL_IMPORTANCE),
            Column("Confidence", "confidence", "ratio", is_usual=lambda fact: fact.confidence == 1),
            Column("Learned", look="memory/_fact_learned.html", is_last=True),
        ),
    )
)
"""The facts of the actor; with the permission, also those of the subconscious."""


@agent_page("memory.add_fact", methods=FORM)
def agent_fact_add(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """A form for one fact."""
    return form_page(
        request,
        "memory/fact_add.html",
        FactForm(request.POST or None),
        lambda fields: fact_learn(
            agent=agent, by=by, **{**fields, "source": fields["source"] or f"console: {by.name}"}
        ),
        done="The fact was added.",
        back=lambda learned: reverse("agent_facts", args=[agent.slug]),
        context={"agent": agent},
    )


@memory_page(VIEW, of=Fact, related=("source_event", "source_episode", "contradiction_of"), past=True)
def agent_fact(request: HttpRequest, scope: PersonaScope, fact: Fact) -> HttpResponse:
    """One fact: valid and recorded time, its predecessor and successor, its source, and its history."""
    known = fact.changes.filter(at__lte=clock.now())
    changes = list(known.filter(action__in=FactChange.VALIDITY_TRANSITIONS).order_by("-id")[:CHANGES_SHOWN])
    chain = [each for each in fact_chain(scope.memory, fact) if each.recorded_at <= clock.now()]
    may_change = scope.by.may("memory.change_fact")
    spans = bitemporal_spans(fact, changes)
    contradiction = fact.is_current and (
        scope.memory.reviews.filter(
            Q(old=fact.pk) | Q(new=fact.pk),
            kind=MemoryReview.Kind.CONTRADICTION,
            status__in=MemoryReview.UNANSWERED,
        )
        .select_related("old", "new")
        .order_by("-created_at", "-id")
        .first()
    )
    rival = contradiction and (contradiction.new if contradiction.old_id == fact.pk else contradiction.old)
    context = memory_context(
        request,
        scope,
        fact,
        spans=spans,
        is_plain=not changes and fact.active and not fact.valid_until and len(chain) < 2,
        rival=rival,
        contradiction=contradiction,
        chain=scope.as_then(chain),
        in_profile=fact.is_current and fact.category in PROFILE_CATEGORIES,
        may_change=may_change,
        may_confirm=scope.by.may("memory.add_fact"),
        # A replacement is written to the memory of its author's persona.
        may_replace=scope.by.may("memory.add_fact") and fact.persona == scope.by.persona,
        may_erase=scope.by.may("memory.erase_memory"),
    )
    return render(request, "memory/fact.html", context)

"""The facts of an agent: the list, one fact with its history, and adding one."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, Q, TextField
from django.db.models.functions import Cast
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from context.models import VIEW_RUN
from context.selectors import memory_uses
from identity.models import Agent
from identity.principal import Principal
from memory.models import Fact, FactChange, MemoryReview, MemoryReviewQuerySet
from memory.policy import PROFILE_CATEGORIES
from memory.selectors import fact_chain
from memory.selectors.filters import FactFilter
from memory.services.facts import fact_learn
from nousweb.console.common import FORM, Action, Column, Title, agent_page, form_page
from nousweb.console.memory.forms import FactForm
from nousweb.console.memory.page_context import (
    MemoryList,
    PersonaScope,
    memory_context,
    memory_list,
    memory_page,
)
from nousweb.console.memory.timeline import PROMPTS_SHOWN, timeline_of
from nousweb.lib import clock
from nousweb.lib.textdiff import diff_texts

USUAL_IMPORTANCE = Fact._meta.get_field("importance").default
CHANGES_SHOWN = 200
OTHERS_SHOWN = 5
ADDED = {
    "confirmed": "This fact was known. It was confirmed; nothing else of the form was stored.",
    "superseded": "The fact was added, and replaced an older one.",
    "queued": "A review in the inbox asks whether this holds beside what is known.",
    "decided": "People have decided that this does not hold, so nothing was stored.",
}
"""What became of a fact that a person adds, by the action of the service."""


def tell_contradictions(scope: PersonaScope, facts: list[Any]) -> None:
    """Give each fact `is_contradicted`: whether a review of a contradiction of it is open. One query."""
    open_ = open_contradictions(scope, [fact.pk for fact in facts])
    pairs = open_.values_list("old", "new") if facts and scope.by.may("memory.view_memoryreview") else []
    named = {key for pair in pairs for key in pair}
    for fact in facts:
        fact.is_contradicted = fact.pk in named


OPEN_CONTRADICTION = Q(MemoryReview.CONTESTING, kind=MemoryReview.Kind.CONTRADICTION)


def open_contradictions(scope: PersonaScope, facts: Any) -> MemoryReviewQuerySet:
    """The open reviews of contradictions of facts, by their keys or a query."""
    return scope.memory.reviews.filter(Q(old__in=facts) | Q(new__in=facts), OPEN_CONTRADICTION)


agent_facts = memory_list(
    MemoryList(
        title="Facts",
        noun="fact",
        about="What the agent holds true.",
        empty="The agent stores facts with its token. People with the permission can add facts too.",
        moment="recorded_at",
        numbered=True,
        template="memory/facts.html",
        model=Fact,
        filter=FactFilter,
        more=lambda request, scope, rows: {
            "may_erase": scope.by.may("memory.erase_memory"),
        },
        actions=(Action("Add fact", "agent_fact_add", "new", "memory.add_fact"),),
        tell=tell_contradictions,
        row=Title(
            "content",
            lambda fact: [("warn", "contradicted")] if getattr(fact, "is_contradicted", False) else [],
            is_pinned=lambda fact: fact.is_current and fact.category in PROFILE_CATEGORIES,
        ),
        columns=(
            Column("Subject", look="memory/_fact_subject.html", sort=("subject",)),
            Column("Category", "category"),
            Column("State", look="memory/_fact_state_badge.html", is_usual=lambda fact: fact.is_current),
            Column(
                "Importance",
                "importance",
                "ratio",
                is_usual=lambda fact: fact.importance == USUAL_IMPORTANCE,
                sort=("importance",),
            ),
            Column("Confidence", "confidence", "ratio", is_usual=lambda fact: fact.confidence == 1, sort=("surest",)),
            Column("Learned", look="memory/_fact_learned.html", is_last=True, sort=("newest", "oldest")),
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
        done=lambda learned: ADDED.get(learned.action, "The fact was added."),
        back=lambda learned: reverse("agent_facts", args=[agent.slug]),
        context={"agent": agent},
    )


def prompts_with(scope: PersonaScope, facts: Sequence[Fact]) -> dict[object, list[tuple[datetime, UUID]]]:
    """By key the latest prompts that had these facts, PROMPTS_SHOWN of each at most: when they were answered, and their
    keys. One query."""
    keys = [fact.pk for fact in facts] if scope.by.may(VIEW_RUN) else []
    uses = memory_uses(scope.agent, "fact", [str(key) for key in keys], scope.by).filter(at__lte=clock.now())
    own = uses.filter(item_id=Cast(OuterRef("pk"), TextField())).order_by("-at", "-pk")
    told = (ArraySubquery(own.values(name)[:PROMPTS_SHOWN]) for name in ("at", "run"))
    return {
        key: list(zip(times, runs, strict=True))
        for key, times, runs in Fact.objects.filter(agent=scope.agent, pk__in=keys).values_list("pk", *told)
    }


@memory_page("memory.view_fact", of=Fact, related=("source_event", "source_episode", "contradiction_of"), past=True)
def agent_fact(request: HttpRequest, scope: PersonaScope, fact: Fact) -> HttpResponse:
    """One fact: valid and recorded time, its predecessor and successor, its source, and its history."""
    chain = [each for each in fact_chain(scope.memory, fact) if each.recorded_at <= clock.now()]
    may_change = scope.by.may("memory.change_fact")
    contradiction = fact.is_current and (
        open_contradictions(scope, [fact.pk]).select_related("old", "new").order_by("-created_at", "-id").first()
    )
    rival = contradiction and (contradiction.new if contradiction.old_id == fact.pk else contradiction.old)
    chain = scope.as_then(chain)
    beside = [rival] if rival and rival not in chain else []
    facts = [each for each in (*(chain or [fact]), *beside) if each]
    held = FactChange.objects.filter(fact__in=facts, agent=scope.agent, at__lte=clock.now())
    changes = list(held.filter(action__in=FactChange.VALIDITY_TRANSITIONS).order_by("-id")[:CHANGES_SHOWN])
    for each in facts:
        each.agent = scope.agent
    is_plain = not changes and fact.active and len(facts) < 2 and not (fact.valid_from or fact.valid_until)
    holding = {each.pk for each in facts if each.is_current}
    pair: list[Any] = [contradiction.old, contradiction.new] if contradiction else []
    # The page of a fact that replaced another, or no longer holds, tells its own history, and one of the past no more.
    is_told = fact.is_current and not chain and scope.past is None
    told = fact.subject_alias_id if is_told else None
    others = scope.memory.facts.current().filter(subject_alias__subject__aliases=told).order_by("-recorded_at", "id")
    context = memory_context(
        request,
        scope,
        fact,
        others=others.exclude(pk__in=[each.pk for each in facts])[:OTHERS_SHOWN] if told else (),
        line=None
        if is_plain
        else timeline_of(
            facts,
            changes,
            holding=holding,
            contradicted=[(pair[0].pk, pair[1].pk)] if pair else [],
            sent=prompts_with(scope, facts),
        ),
        rival=rival,
        difference=diff_texts(*(each.content for each in pair)) if pair else None,
        side="added" if pair and rival == pair[1] else "removed",
        contradiction=contradiction,
        in_profile=fact.is_current and fact.category in PROFILE_CATEGORIES,
        may_change=may_change,
        may_confirm=fact.active and scope.by.may("memory.add_fact"),
        may_mark=may_change and not fact.invalidated_at,
        # A replacement is written to the memory of its author's persona.
        may_replace=scope.by.may("memory.add_fact") and fact.persona == scope.by.persona,
        may_erase=scope.by.may("memory.erase_memory"),
    )
    return render(request, "memory/fact.html", context)

"""The health of an agent's memory: the score, the facts behind each number, changes of many of them, and their cost."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import date, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.text import Truncator, get_text_list

from context.feedback.health_findings import FINDINGS, HealthFinding
from context.feedback.health_score import (
    LISTED,
    SORTS,
    USES_READ,
    DayHealth,
    HealthFindingCount,
    facts_found,
    health_by_day,
    ledger,
    ledger_rows,
    memory_health,
    score_moved,
)
from context.models import RECENT, VIEW_RUN, MemoryUsage
from memory.models import Fact, ItemType, MemoryReview
from nousweb.console.common import (
    MAX_SELECTED,
    POST,
    BoundedPaginator,
    ChartPoint,
    Column,
    ListPage,
    Title,
    attempt_each,
    chart,
    memory_url,
    query_without,
    stacked_bar,
    tell_each,
    uuids_of,
)
from nousweb.console.memory.page_context import PersonaScope, base_context, memory_page
from nousweb.console.memory.views.fact_changes import FACT_ACTIONS
from nousweb.lib import clock
from nousweb.lib.errors import NotFound, existing

VIEW_FACT = "memory.view_fact"
PAGE_SIZE = 50
PERIODS = {"7": "7 days", "30": "30 days", "90": "90 days"}
DEFAULT_DAYS = "30"
DAYS_DRAWN = 30
NAMES_SHOWN = 3
"""Facts of a finding that are quoted."""


def _problem(one: HealthFindingCount, points: float, prompts: Collection[UUID], is_part: bool) -> dict[str, Any]:
    """A finding that lists facts: their number, of how many, the points that they take and of what these are made, what
    the page that lists them is for, its class in the picture of the score, and how many prompts had these facts, at
    least if that `is_part` of them."""
    least, plural = "at least " * is_part, "" if len(prompts) == 1 else "s"
    return {
        "finding": one.finding,
        "number": one.number,
        "of": one.total,
        "points": points,
        "formula": f"{one.number:,} of {one.total:,} × {100 * one.finding.weight:g}",
        # One contradiction is of two facts.
        "action": "Resolve"
        if one.finding.key in ("quarantined", "contested")
        else f"Look at {one.number:,} fact{'' if one.number == 1 else 's'}",
        # The more of a fact it takes, the more it asks for attention.
        "look": "seg-6" if one.finding.weight >= 1 else "lane-disputed" if one.finding.weight >= 0.5 else "seg-8",
        "cost": f"In {least}{len(prompts):,} answered prompt{plural} of the last {RECENT.days} days."
        if prompts
        else "",
    }


@memory_page(VIEW_FACT, VIEW_RUN)
def agent_health(request: HttpRequest, scope: PersonaScope) -> HttpResponse:
    """The score, and how many facts each finding lists."""
    health = memory_health(scope.memory, clock.now())
    counted = sorted((one for one in health.counts if one.number), key=lambda one: -one.points)
    sound = [one for one in health.counts if not one.number]
    days, score = health_by_day(scope.memory), health.score or 0
    # Tenths of points, which together are what the score lacks: those of the largest rest are rounded up.
    tenths = [int(10 * one.points) for one in counted]
    by_rest = sorted(range(len(tenths)), key=lambda place: tenths[place] - 10 * counted[place].points)
    up = by_rest[: max(0, round(1000 - 10 * score) - sum(tenths))]
    named = scope.memory.facts.filter(pk__in=[key for one in counted for key in one.named[:NAMES_SHOWN]])
    texts = {str(key): text for key, text in named.values_list("pk", "content")}
    uses = MemoryUsage.objects.filter(agent=scope.agent, persona__in=scope.memory.personas, item_type=ItemType.FACT)
    uses = uses.filter(at__gte=clock.now() - RECENT, item_id__in=[key for one in counted for key in one.named])
    shown = list(uses.order_by("-at").values_list("item_id", "run")[:USES_READ])
    runs_of = defaultdict[str, set[UUID]](set)
    for key, run in shown:
        runs_of[key].add(run)
    if health.score is not None:
        days[clock.now().date()] = DayHealth(health.score, health.found)
    problems = [
        {
            **_problem(
                one,
                (tenths[place] + (place in up)) / 10,
                set[UUID]().union(*(runs_of[key] for key in one.named)),
                one.number > len(one.named) or len(shown) >= USES_READ,
            ),
            "url": reverse("agent_health_list", args=[scope.agent.slug, one.finding.key]) + scope.suffix,
            "facts": [
                (Truncator(texts[key]).chars(100), memory_url(scope.agent.slug, ItemType.FACT, key) + scope.suffix)
                for key in one.named[:NAMES_SHOWN]
                if key in texts
            ],
            "more": one.number - len(one.named[:NAMES_SHOWN]),
        }
        for place, one in enumerate(counted)
    ]
    parts = [(one["finding"].label, one["points"], one["look"]) for one in problems]
    context = base_context(
        request,
        scope,
        health=health,
        score=score,
        problems=problems,
        found=get_text_list([f"{one['number']:,} {one['finding'].label.lower()}" for one in problems], "and"),
        sound=sound,
        sound_labels=", ".join(one.finding.label.lower() for one in sound),
        lost=round(100 - score, 1),
        segments=stacked_bar([("Sound", score, "seg-2"), *parts], width=1000, height=12, capacity=100),
        trend=_trend(days),
    )
    return render(request, "memory/memory_health.html", context)


def _trend(known: dict[date, DayHealth]) -> dict[str, Any] | None:
    """The chart of the scores of the last days, with a mark where a kind of finding began or ended, and these changes,
    the latest first: the day, words, the mark, and the scores of the day before and of that day. None before there are
    two days."""
    today = clock.now().date()
    days = [today - timedelta(days=back) for back in reversed(range(DAYS_DRAWN))]
    drawn = [day for day in days if day in known]
    if len(drawn) < 2:
        return None
    scores = {day: known[day].score for day in drawn}
    changes = {day: _changes(known.get(day - timedelta(days=1)), known.get(day)) for day in days}
    looks = {day: "ring" if began else "ring is-over" if ended else "" for day, (began, ended) in changes.items()}
    points = [
        ChartPoint(
            f"{day:%a} {day.day} {day:%b}",
            "Today" if day == today else f"{day.day} {day:%b}",
            scores.get(day),
            f"{scores[day]:g} of 100{_changed(*changes[day])}" if day in scores else "not counted",
            mark=looks[day],
        )
        for day in days
    ]
    first, last, least = drawn[0], drawn[-1], min(drawn, key=lambda day: scores[day])
    missing = len(days) - len(drawn)
    gaps = f"{missing} of {len(days)} days were not counted." if missing else ""
    base = next(base for base in (80, 60, 40, 0) if scores[least] >= base)
    line = replace(
        chart(points, step="day", unit="", base=base, top=100, is_line=True),
        note=" ".join(filter(None, (f"The axis begins at {base}." * bool(base), gaps))),
    )
    said = f"{scores[last]:g} today, {score_moved(scores[last], scores[first])} on {first.day} {first:%b}"
    return {
        "chart": line,
        "said": said,
        "least": f"{scores[least]:g} on {least.day} {least:%b}",
        "changes": [
            (
                f"{day.day} {day:%b}",
                _changed(*changes[day]).removeprefix(", "),
                looks[day],
                known[day - timedelta(days=1)].score,
                scores[day],
            )
            for day in reversed(drawn)
            if looks[day]
        ],
    }


def _changes(before: DayHealth | None, now: DayHealth | None) -> tuple[list[str], list[str]]:
    """The kinds of finding that were not there the day before, and those that are gone."""
    if before is None or now is None or before.found is None or now.found is None:
        return [], []
    began = [one.label for key, one in FINDINGS.items() if key in now.found - before.found]
    return began, [one.label for key, one in FINDINGS.items() if key in before.found - now.found]


def _changed(began: list[str], ended: list[str]) -> str:
    """The same in words, as they follow the score of the day."""
    return "".join(f", “{label}” {verb}" for verb, labels in (("began", began), ("ended", ended)) for label in labels)


LIST = ListPage(
    title="",
    noun="fact",
    empty="",
    moment="recorded_at",
    is_exported=False,
    template="memory/memory_health_list.html",
    row=Title(
        lambda fact: Truncator(fact.content).chars(300),
        detail=lambda fact: " · ".join(filter(None, (fact.subject, fact.category))),
    ),
    columns=(
        Column("Learned", "recorded_at", "time"),
        Column("Confirmed", "last_confirmed_at", "time"),
        Column("Actions", look="memory/_health_actions.html"),
    ),
)


@memory_page(VIEW_FACT, VIEW_RUN)
def agent_health_list(request: HttpRequest, scope: PersonaScope, finding: str) -> HttpResponse:
    """The facts of one finding, the latest first, with the possible actions on each."""
    about = existing(FINDINGS.get(finding), "There is no such list.")
    found, at = facts_found(scope.memory, about, clock.now())
    shown = replace(LIST, title=about.label, about=about.meaning, empty=about.meaning)
    page = LIST.page(request, found.select_related("agent"))
    context = base_context(request, scope, **shown.context(request, page))
    rows = context["rows"]
    questions = _questions(scope, rows) if rows and scope.by.may("memory.view_memoryreview") else {}
    for fact in rows:
        _linked(scope, fact, about, questions.get(fact.pk))
    at_once = [each for each in DONE if each in about.remedies and scope.by.may(FACT_ACTIONS[each].permission)]
    context |= {
        "finding": about,
        "at": at,
        "listed": LISTED,
        "query": query_without(request, "done"),
        "at_once": at_once,
        "select": "fact" if at_once and any(fact.active for fact in context["rows"]) else "",
        "undo": invalidation_undo_offer(request, scope, finding),
    }
    return render(request, LIST.template, context)


def _questions(scope: PersonaScope, facts: Iterable[Fact]) -> dict[UUID, str]:
    """By fact the page of an open question about it. One statement."""
    keys = [fact.pk for fact in facts]
    about = Q(old__in=keys) | Q(new__in=keys) | Q(facts__overlap=keys)
    reviews = scope.memory.reviews.filter(about, status__in=MemoryReview.UNANSWERED).order_by("-created_at", "-id")
    return {
        key: reverse("memory_review_detail", args=[pk])
        for pk, old, new, named in reviews.values_list("pk", "old", "new", "facts")
        for key in (old, new, *named)
        if key
    }


def _linked(scope: PersonaScope, fact: Any, finding: HealthFinding, question: str | None) -> None:
    """Give a fact the addresses of its row, and the changes of it that help: the key, label and look of each."""
    slug, persona = scope.agent.slug, {"persona": "subconscious"} if scope.both else {}
    fact.question, fact.suffix = question, scope.suffix
    fact.same = f"{reverse('agent_facts', args=[slug])}?{urlencode({'q': fact.content[:200]} | persona)}"
    fact.impact_url = f"{reverse('agent_context_blast', args=[slug])}?{urlencode({'fact': fact.pk} | persona)}"
    fact.remedies = [
        (key, FACT_ACTIONS[key].title, "danger" if key == "invalidate" else "")
        for key in finding.remedies
        # A replacement is written to the memory of its author's persona.
        if scope.by.may(FACT_ACTIONS[key].permission) and (key != "supersede" or fact.persona == scope.by.persona)
    ]


class LedgerForm(forms.Form):
    """The period and the order of the ledger."""

    days = forms.ChoiceField(label="Period", choices=PERIODS)
    sort = forms.ChoiceField(label="Order", choices=[(key, label) for key, (label, _) in SORTS.items()])


@memory_page(VIEW_FACT, VIEW_RUN)
def agent_health_ledger(request: HttpRequest, scope: PersonaScope) -> HttpResponse:
    """The cost of each memory in prompts over a period, and the share of it that answers referred to."""
    days, sort = request.GET.get("days", ""), request.GET.get("sort", "")
    days = days if days in PERIODS else DEFAULT_DAYS
    sort = sort if sort in SORTS else next(iter(SORTS))
    paginator = BoundedPaginator(ledger(scope.memory, clock.now() - timedelta(days=int(days)), sort), PAGE_SIZE)
    page = paginator.get_page(request.GET.get("page"))
    context = base_context(
        request,
        scope,
        page=page,
        full=paginator.is_full,
        uses_read=USES_READ,
        rows=[
            {
                "use": row,
                "label": ItemType(row.type).label,
                "url": memory_url(scope.agent.slug, row.type, row.id) if row.text else "",
            }
            for row in ledger_rows(scope.memory, page.object_list)
        ],
        query=query_without(request),
        form=LedgerForm({"days": days, "sort": sort}),
        kept={"persona": scope.memory.persona} if scope.both else {},
    )
    return render(request, "memory/memory_token_cost.html", context)


DONE = {"confirm": "Confirmed", "invalidate": "Marked as wrong", "restore": "Restored"}
"""By action: the confirmation for many facts; only facts marked as wrong can be restored from here."""


@memory_page("memory.view_fact", VIEW_RUN, methods=POST)
def agent_health_bulk(request: HttpRequest, scope: PersonaScope, finding: str) -> HttpResponse:
    """Confirm the selected facts, mark them as wrong, or restore them; each that refuses is named and stops none."""
    fields = request.GET.copy()
    fields.update(request.POST)
    action = fields.get("action", "")
    if finding not in FINDINGS or action not in DONE:
        raise NotFound("Unknown list or action.")
    what = FACT_ACTIONS[action]
    scope.by.require(what.permission, scope.agent)
    reason = {"reason": fields.get("reason", "")}
    facts = scope.memory.facts.filter(pk__in=uuids_of(fields.getlist("fact")[:MAX_SELECTED]))
    done, refused = attempt_each(
        facts.select_related("agent").order_by("recorded_at", "pk"),
        lambda fact: what.run(fact, scope.by, reason),
        lambda fact: f"“{fact}”",
    )
    offers_undo = done and action == "invalidate"
    said = [f"{DONE[action]}: {_facts(len(done))}."] if done and not offers_undo else []
    tell_each(request, said, refused, "" if done else "Nothing was selected.")
    page = reverse("agent_health_list", args=[scope.agent.slug, finding]) + scope.suffix
    if offers_undo:
        query = urlencode([("done", fact.pk) for fact in done])
        return redirect(f"{page}{'&' if scope.suffix else '?'}{query}")
    return redirect(page)


def invalidation_undo_offer(request: HttpRequest, scope: PersonaScope, finding: str) -> dict[str, Any] | None:
    """The facts just marked as wrong, from the address, and the address to undo that."""
    keys = uuids_of(request.GET.getlist("done")[:MAX_SELECTED])
    wrong = [fact.pk for fact in scope.memory.facts.filter(pk__in=keys, invalidated_at__isnull=False)] if keys else []
    if not wrong:
        return None
    query = [("action", "restore"), *[("persona", "subconscious")] * scope.both, *(("fact", key) for key in wrong)]
    may = scope.by.may(FACT_ACTIONS["restore"].permission)
    url = f"{reverse('agent_health_bulk', args=[scope.agent.slug, finding])}?{urlencode(query)}"
    return {
        "word": f"{DONE['invalidate']}:",
        "what": _facts(len(wrong)),
        "url": url if may else "",
        "many": len(wrong) > 1,
    }


def _facts(number: int) -> str:
    return f"{number} fact{'' if number == 1 else 's'}"

"""The log of the prompts that were sent: the list, one run and its outcome, sessions, and similar tasks."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import QuerySet, prefetch_related_objects
from django.db.models.functions import Left, Length
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from context.engine.analysis.frames import FRAMES
from context.engine.context_record import ContextRecord
from context.expectations.policy import ADD
from context.feedback.content_words import content_words
from context.feedback.fingerprint_stats import FEW, fingerprints
from context.feedback.reference_detector import REFERENCED_AT, references_of
from context.models import ASSEMBLE, REPORT, VIEW_RUN, ContextProfile, ContextRecall, ContextRun, MemoryUsage
from context.selectors import PromptStep, prompt_step, run_get, session_place
from context.services.context import context_outcome, memories_shown
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.selectors import agent_get
from identity.selectors.filters import DateInput
from identity.services.personal_settings import demo_tour_look
from memory.selectors.memory_expansion import Relation
from memory.types import MEMORY_TYPES
from nousweb.console.common.list_export import ListExport, export_format, keyset_rows, list_export
from nousweb.console.common.list_page import ListPage
from nousweb.console.common.pagination import query_without, request_page
from nousweb.console.common.view_helpers import principal_of
from nousweb.console.context.labels import VERDICTS, memory_item_url
from nousweb.console.context.presentation import A_PAGE, COLUMNS, SORTS, PromptView, contested_links
from nousweb.lib import clock
from nousweb.lib.errors import Invalid, NotFound
from nousweb.lib.token_estimate import estimate_tokens

RELATIONS: Mapping[Relation, str] = {
    "before": "before it",
    "after": "after it",
    "part": "part of it",
    "episode": "its episode",
    "source": "its source",
    "replaces": "fact that it replaced",
    "replaced_by": "fact that replaced it",
}


@dataclass(frozen=True, slots=True)
class RecalledItem:
    """One returned memory; `note` is its score, or its relation to the expanded memory."""

    url: str
    text: str
    type: str
    note: str


@dataclass(frozen=True, slots=True)
class RecallRow:
    """One recall: its request, time and results."""

    asked: str
    at: datetime
    by: str
    expands: bool
    items: list[RecalledItem]


def recall_rows(slug: str, run: ContextRun) -> list[RecallRow]:
    """The recalls of a run in the order in which they were made."""
    return [_row(slug, recall) for recall in run.recalls.all()]


def _row(slug: str, recall: ContextRecall) -> RecallRow:
    expands = recall.action == ContextRecall.Action.EXPAND
    items = [
        RecalledItem(
            memory_item_url(slug, item["type"], item["id"]), item["text"], MEMORY_TYPES[item["type"]].name, _note(item)
        )
        for item in recall.items
    ]
    asked = items[0].text if expands and items else str(recall.request.get("query", ""))
    return RecallRow(asked, recall.created_at, recall.principal_name, expands, items[1:] if expands else items)


def _note(item: Mapping[str, Any]) -> str:
    return RELATIONS.get(item.get("relation", ""), "") if "relation" in item else f"{item['score']:.2f}"


JOINED_CHARACTERS = 12
"""Marks of one memory with no more than this between them, on one line and without another word of content, are one."""


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A stretch of the answer. `numbers` are of the memories it refers to, `begins` of those whose mark begins here."""

    text: str
    numbers: tuple[int, ...] = ()
    begins: tuple[int, ...] = ()


def answer_pieces(run: ContextRun, uses: Iterable[MemoryUsage]) -> list[AnswerPiece]:
    """The pieces of the run's answer, in order and complete; the memories that are marked have numbers from 1 on."""
    answer, marked = run.response, list(uses)
    begins: dict[int, set[int]] = defaultdict(set)
    ends: dict[int, set[int]] = defaultdict(set)
    for number, spans in enumerate(_spans(run, marked), 1):
        # An answer may have been cut since.
        for start, end in _joined(answer, [span for span in spans if span[1] <= len(answer)]):
            begins[start].add(number)
            ends[end].add(number)
    open_marks: set[int] = set()
    pieces: list[AnswerPiece] = []
    for start, end in pairwise(sorted({0, len(answer), *begins, *ends})):
        open_marks = (open_marks - ends[start]) | begins[start]
        pieces.append(AnswerPiece(answer[start:end], tuple(sorted(open_marks)), tuple(sorted(begins[start]))))
    return pieces


def _spans(run: ContextRun, uses: Sequence[MemoryUsage]) -> list[Sequence[Sequence[int]]]:
    """The spans of each reference: as recorded with the answer, or from its words if they were not recorded."""
    if all(use.spans is not None for use in uses):
        return [use.spans or () for use in uses]
    shown = memories_shown(run)
    found = references_of(run.response, [item["text"] for _, item in shown], question=run.input)
    spans = {(item["type"], item["id"]): reference.spans for (_, item), reference in zip(shown, found, strict=True)}
    return [spans.get((use.item_type, use.item_id), ()) if use.spans is None else use.spans for use in uses]


def _joined(text: str, spans: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        between = text[joined[-1][1] : start] if joined else ""
        if joined and len(between) <= JOINED_CHARACTERS and "\n" not in between and not content_words(between):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


OUTCOMES = [("", "Any outcome"), ("success", "Success"), ("failure", "Failure"), ("none", "Not reported")]


class RunFilterForm(forms.Form):
    """Filters of the list of logged runs."""

    q = forms.CharField(required=False, label="Words in the input", max_length=200)
    frame = forms.ChoiceField(
        required=False, choices=[("", "Any frame"), *((key, frame.label) for key, frame in FRAMES.items())]
    )
    profile = forms.ChoiceField(required=False)
    session = forms.CharField(required=False, max_length=200)
    outcome = forms.ChoiceField(required=False, choices=OUTCOMES)
    since = forms.DateField(required=False, label="From", widget=DateInput())
    until = forms.DateField(required=False, label="To", widget=DateInput())
    min_tokens = forms.IntegerField(required=False, min_value=0, max_value=10**6, label="Minimum tokens")
    fingerprint = forms.CharField(required=False, max_length=20, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        slugs = ContextProfile.objects.values_list("slug", "name")[:200]
        self.fields["profile"] = forms.ChoiceField(
            required=False, choices=[("", "Any profile"), *slugs], label="Profile"
        )

    def apply(self, runs: QuerySet[ContextRun]) -> QuerySet[ContextRun]:
        """The runs that pass; none while a filter cannot be read."""
        if not self.is_valid():
            return runs.none()
        given = self.cleaned_data
        exact = {"frame": "frame", "profile": "profile", "session": "session_id", "fingerprint": "fingerprint_id"}
        runs = runs.filter(**{column: given[name] for name, column in exact.items() if given[name]})
        if given["outcome"]:
            runs = runs.filter(outcome="" if given["outcome"] == "none" else given["outcome"])
        if given["since"]:
            runs = runs.filter(created_at__date__gte=given["since"])
        if given["until"]:
            runs = runs.filter(created_at__date__lte=given["until"])
        if given["min_tokens"]:
            runs = runs.filter(tokens__gte=given["min_tokens"])
        if given["q"]:
            runs = runs.filter(input__icontains=given["q"])
        return runs

    @property
    def is_filtered(self) -> bool:
        return bool(self.is_valid() and any(self.cleaned_data.values()))


SHOWN_COLUMNS = (
    "id", "agent_id", "persona", "session_id", "tokens", "counted_tokens", "counted_by", "budget_tokens", "frame",
    "profile", "outcome", "as_of", "responded_at", "duration_ms", "principal_name", "fingerprint_id", "created_at",
    "failed_sections", "censors",
)  # fmt: skip
RUNS = ListExport("Runs", tuple(name for name in (*SHOWN_COLUMNS, "input") if name != "agent_id"))
LIST = ListPage(
    title="Context runs",
    noun="run",
    empty="When the agent requests a context with its token, the response is kept here until its retention ends.",
)


@require_safe
def agent_context_runs(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The prompts that were sent, latest first."""
    by = principal_of(request)
    by.require(VIEW_RUN)
    agent = agent_get(slug, by)
    form = RunFilterForm(request.GET)
    found = form.apply(ContextRun.objects.visible_to(by).filter(agent=agent)).only(*SHOWN_COLUMNS)
    if export_format(request) and form.is_valid():
        rows = keyset_rows(found.only(*SHOWN_COLUMNS, "input"), "created_at")
        return list_export(request, RUNS, rows, agent=agent, both=by.may(VIEW_SUBCONSCIOUS))
    page = LIST.page(request, found.annotate(beginning=Left("input", 160)))
    context = {"agent": agent, **LIST.context(request, page, form, form.is_filtered)}
    return render(request, "context/context_runs.html", context)


@require_safe
def agent_context_run(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """The prompt of one logged run, from its stored structure."""
    by = principal_of(request)
    by.require(VIEW_RUN)
    agent = agent_get(slug, by)
    run = run_get(agent, by, pk)
    prefetch_related_objects([run], "recalls")
    record = ContextRecord.of_run(run)
    shown = PromptView(slug, record, contested_links(record, agent, by))
    sort = request.GET.get("sort", "")
    verdict = request.GET.get("verdict", "")
    sort = sort if sort in SORTS else "verdict"
    words = request.GET.get("q", "").strip()[:200]
    place = session_place(run, by)
    uses = {(use.item_type, use.item_id): use for use in run.usages.all()}
    texts = {(item["type"], item["id"]): item["text"].removeprefix("- ") for _, item in memories_shown(run)}
    verdict = verdict if verdict in VERDICTS else ""
    candidates = shown.table(sort=sort, verdict=verdict, words=words)
    if words and candidates:
        demo_tour_look(agent=agent, target=run, label="why memories were in a prompt", by=by)
    for one in candidates:
        one["use"] = uses.get((one["type"], one["id"]))
    ranked = sorted(uses.values(), key=lambda use: (not use.referenced, -use.overlap, use.pk))
    return render(
        request,
        "context/context_run.html",
        {
            "agent": agent,
            "run": run,
            "shown": shown,
            "place": place,
            "step": prompt_step(place.previous, run) if place.previous else None,
            "answer_tokens": estimate_tokens(run.response) if run.response else 0,
            "table": {
                "columns": COLUMNS,
                "sort": sort,
                "sorts": SORTS,
                "verdict": verdict,
                "words": words,
                "words_query": f"&{urlencode({'q': words})}" if words else "",
                "query": query_without(request, "sort"),
                "demand_url": reverse("agent_expectation_demand", args=[slug]) if by.may(ADD) else "",
                "run": run.pk,
            },
            "candidates": Paginator(candidates, A_PAGE).get_page(request.GET.get("page")),
            "answer": answer_pieces(run, [use for use in ranked if use.referenced]) if run.response else [],
            "recalls": recall_rows(slug, run),
            "uses": [(use, texts.get((use.item_type, use.item_id), "")) for use in ranked],
            "trace_url": settings.TRACE_URL.replace("{trace_id}", run.trace_id),
            "referenced_at": REFERENCED_AT,
            "referenced": sum(use.referenced for use in uses.values()),
            "may_report": by.may(REPORT),
            "may_assemble": by.may("context.assemble_context"),
        },
    )


@require_POST
def agent_context_outcome(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """A person's judgement of the outcome of the prompt's task."""
    by = principal_of(request)
    by.require(REPORT)
    run = run_get(agent_get(slug, by), by, pk)
    try:
        context_outcome(run=run, outcome=request.POST.get("outcome", ""), note=request.POST.get("note", ""), by=by)
    except Invalid as error:
        messages.error(request, error.detail)
    else:
        messages.success(request, "The outcome was saved.")
    return redirect("agent_context_run", slug=slug, pk=pk)


PERIODS = {"": "Whole log", "1": "Last day", "7": "Last 7 days", "30": "Last 30 days"}


@require_safe
def agent_context_fingerprints(request: HttpRequest, slug: str) -> HttpResponse:
    """Runs, outcomes and tokens by fingerprint, over the period that ?days= names."""
    by = principal_of(request)
    by.require(VIEW_RUN)
    agent = agent_get(slug, by)
    days = request.GET.get("days", "")
    days = days if days in PERIODS else ""
    since = clock.now() - timedelta(days=int(days)) if days else None
    tabs = [
        {"label": label, "url": f"?days={value}" if value else "?", "active": value == days}
        for value, label in PERIODS.items()
    ]
    rows = fingerprints(agent, by, since)
    return render(
        request,
        "context/similar_tasks.html",
        {
            "agent": agent,
            "rows": rows,
            "tabs": tabs,
            "few": FEW,
            "since_query": f"&since={since:%Y-%m-%d}" if since else "",
        },
    )


RUNS_PER_PAGE = 20
"""Each is read with all of its prompt, which is long."""
SESSION_COLUMNS = (
    "id", "agent_id", "persona", "session_id", "created_at", "sections", "tokens", "counted_tokens", "counted_by",
    "frame", "outcome", "outcome_note", "responded_at", "duration_ms", "principal_name", "as_of", "censors",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One run, the run before it in the session, and how its prompt differs from that one's."""

    run: ContextRun
    previous: ContextRun | None
    step: PromptStep | None


@require_safe
def agent_context_session(request: HttpRequest, slug: str) -> HttpResponse:
    """The timeline of the session that ?session= names. Raises NotFound where none of its runs is kept."""
    by = principal_of(request)
    by.require(VIEW_RUN)
    agent = agent_get(slug, by)
    session = request.GET.get("session", "")
    if not session:
        return redirect("agent_context_runs", slug=slug)
    runs = ContextRun.objects.visible_to(by).filter(agent=agent, session_id=session)
    # Prompts of one persona are no steps of the other's.
    personas = list(runs.order_by("persona").values_list("persona", flat=True).distinct())
    if not personas:
        raise NotFound("This session has no runs. Runs are deleted when their retention ends.")
    persona = request.GET.get("persona", "")
    persona = persona if persona in personas else personas[0]
    runs = runs.filter(persona=persona).only(*SESSION_COLUMNS)
    runs = runs.annotate(beginning=Left("input", 400), answer=Left("response", 400), answer_length=Length("response"))
    page = request_page(request, runs, "created_at", latest_first=False, size=RUNS_PER_PAGE)
    first = session_place(page.rows[0], by).previous if page.rows else None
    rows = []
    for previous, run in zip([first, *page.rows], page.rows, strict=False):
        rows.append(TimelineRow(run, previous, prompt_step(previous, run) if previous else None))
    return render(
        request,
        "context/session.html",
        {
            "agent": agent,
            "session": session,
            "rows": rows,
            "page": page,
            "persona": persona,
            "personas": personas,
            "query": query_without(request),
            "may_assemble": by.may(ASSEMBLE),
        },
    )

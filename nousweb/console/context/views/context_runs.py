"""The log of the prompts that were sent: the list, one run, and its outcome."""

from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import prefetch_related_objects
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from context.engine.context_record import ContextRecord
from context.expectations.policy import ADD
from context.feedback.reference_detector import REFERENCED_AT
from context.history.session_runs import prompt_step, session_place
from context.models import REPORT, VIEW_RUN, ContextRun
from context.selectors import run_get
from context.services.agent_response import context_outcome, memories_shown
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.selectors import agent_get
from identity.services.personal_settings import demo_tour_look
from nousweb.console.common.list_export import ListExport, export_format, keyset_rows, list_export
from nousweb.console.common.list_page import ListPage
from nousweb.console.common.pagination import query_without
from nousweb.console.common.view_helpers import principal_of
from nousweb.console.context.answer_marks import answer_pieces
from nousweb.console.context.contested_links import contested_links
from nousweb.console.context.labels import VERDICTS
from nousweb.console.context.presentation import A_PAGE, COLUMNS, SORTS, PromptView
from nousweb.console.context.recall_rows import recall_rows
from nousweb.console.context.run_filter_form import RunFilterForm
from nousweb.lib.errors import Invalid
from nousweb.lib.token_estimate import estimate_tokens

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

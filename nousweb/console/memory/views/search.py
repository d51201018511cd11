"""Search one agent's memory by hand, with the scores that decide about prompts."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.db.models import Count, Min, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from context.feedback.health_score import LARGE_MEMORY, snapshot_of, snapshot_put
from identity.models import Agent, Persona
from identity.principal import Principal
from memory.embedding.protocol import thresholds_of
from memory.models import (
    EVERYTHING,
    KEYS,
    EmbeddingModel,
    EventKind,
    IndexStatus,
    ItemType,
    ProjectScope,
    SearchItem,
    SearchStatistics,
)
from memory.persona import PersonaMemory
from memory.search.query_word_counts import COUNT_FROM
from memory.search.request import SearchRequest
from memory.search.result import SearchResult
from memory.search.search import search
from memory.search.vector_indexes import INDEX_FROM
from memory.services.search_index.row_embedding import index_retry
from memory.types import MEMORY_TYPES
from nousweb.console.common import POST, agent_page, memory_url, query_without, refused_on, request_page
from nousweb.console.memory.forms import SearchForm
from nousweb.console.memory.page_context import PersonaScope, base_context, memory_page

NAME = "search index"
NONE: dict[str, Any] = {"total": 0, "ready": 0, "pending": 0, "failed": 0, "passages": 0, "oldest": None}
_FAILED, _PENDING = Q(status=IndexStatus.FAILED), Q(status=IndexStatus.PENDING, model="")


def index_counts(
    view: PersonaMemory, collections: Iterable[SearchStatistics]
) -> tuple[list[dict[str, Any]], datetime | None]:
    """A row for each type of memory, and when the rows that are ready were counted last, if the memory is large.

    `collections` are all of the agent's. At most two statements, one for a memory that is not large.
    """
    large = sum(each.items for each in collections) >= LARGE_MEMORY
    snapshot = snapshot_of(NAME, view.agent.pk, both=len(view.personas) > 1) if large else None
    counted = _counted(view, waiting=snapshot is not None)
    if snapshot:
        for kind, ready in snapshot.value.items():
            row = counted.setdefault(kind, dict(NONE))
            row |= {"ready": ready, "total": ready + row["pending"] + row["failed"]}
    rows = [{"label": kind.label, **counted.get(kind.value, NONE)} for kind in ItemType]
    return rows, snapshot.at if snapshot else None


def index_counts_refresh(view: PersonaMemory) -> None:
    """Store the counts of rows of a large memory that are ready."""
    ready = {kind: row["ready"] for kind, row in _counted(view).items()}
    snapshot_put(NAME, view.agent.pk, ready, both=len(view.personas) > 1)


def _counted(view: PersonaMemory, *, waiting: bool = False) -> dict[str, dict[str, Any]]:
    """Count rows by type and state. With `waiting`, only rows that are not ready, which have an index."""
    rows = SearchItem.objects.filter(agent=view.agent, persona__in=view.personas).order_by()
    if waiting:
        rows = rows.filter(status__in=(IndexStatus.PENDING, IndexStatus.FAILED))
    counts = rows.values("item_type").annotate(
        total=Count("pk"),
        ready=Count("pk", filter=~_FAILED & ~_PENDING),
        pending=Count("pk", filter=_PENDING),
        failed=Count("pk", filter=_FAILED),
        passages=Count("pk", filter=Q(status=IndexStatus.PENDING) & ~_PENDING),
        oldest=Min("recorded_at", filter=_PENDING),
    )
    return {row["item_type"]: {**row} for row in counts}


@memory_page("memory.view_searchitem")
def agent_index(request: HttpRequest, scope: PersonaScope) -> HttpResponse:
    """The numbers of indexed, pending and failed rows, with the age of pending and the errors of failed ones."""
    items = SearchItem.objects.filter(agent=scope.agent, persona__in=scope.memory.personas)
    held = list(SearchStatistics.objects.filter(agent=scope.agent))
    rows, counted_at = index_counts(scope.memory, held)
    failed = request_page(
        request,
        items.filter(status=IndexStatus.FAILED).only(
            "id", "persona", "item_type", "item_id", "text", "attempts", "error", "recorded_at"
        ),
        "recorded_at",
    )
    models = list(EmbeddingModel.objects.order_by("state"))
    follow = sum(row["passages"] for row in rows)
    context = base_context(
        request,
        scope,
        rows=rows,
        counted_at=counted_at,
        totals={name: sum(row[name] for row in rows) for name in ("total", "ready", "pending", "failed")},
        ready_note="found by meaning and words" + (f"; passages of {follow:,} follow" if follow else ""),
        oldest=min((row["oldest"] for row in rows if row["oldest"]), default=None),
        models=models,
        collections=_collections(scope, held, models),
        count_from=COUNT_FROM,
        index_from=INDEX_FROM,
        page=failed,
        failed=[
            (item, memory_url(scope.agent.slug, item.item_type, item.item_id) + scope.suffix) for item in failed.rows
        ],
        query=query_without(request),
        may_retry=scope.by.may("memory.change_searchitem"),
    )
    return render(request, "memory/search_index.html", context)


def _collections(
    scope: PersonaScope, found: Sequence[SearchStatistics], models: Sequence[EmbeddingModel]
) -> list[tuple[str, SearchStatistics | None, bool]]:
    """Each persona's collection: its name, its counts if it is large, and whether its vectors have an index in use."""
    held = {row.persona: row for row in found}
    active = next((model.name for model in models if model.state == EmbeddingModel.State.ACTIVE), "")
    return [
        (Persona(name).label, row, bool(row and active and row.vector_index_model == active))
        for name in scope.memory.personas
        for row in (held.get(name),)
    ]


@agent_page(methods=POST)
def agent_index_retry(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Let everything that failed be tried again."""
    count = index_retry(agent=agent, by=by)
    said = f"{count:,} row{'' if count == 1 else 's'} will be retried." if count else "No row has failed."
    (messages.success if count else messages.info)(request, said)
    back = "?persona=subconscious" if request.GET.get("persona") == "subconscious" else ""
    return redirect(reverse("agent_index", args=[agent.slug]) + back)


LIMIT = 25
TIMING_LABELS = {
    "counts": "Count words",
    "words": "Search by words",
    "embedding": "Wait for the embedding",
    "candidates": "Search by meaning",
    "scoring": "Score",
    "loading": "Load",
}


@memory_page("memory.view_searchitem", past=True)
def agent_search(request: HttpRequest, scope: PersonaScope) -> HttpResponse:
    """The hits of a question; hits below the threshold are greyed."""
    form = SearchForm(request.GET if "q" in request.GET else None)
    kept = {"persona": scope.memory.persona} if scope.both else {}
    context = base_context(request, scope, form=form, kept=kept, query=query_without(request))
    if form.is_bound and form.is_valid():
        with refused_on(form, query="q"):
            context |= _found(scope, form.cleaned_data)
    return render(request, "memory/search.html", context)


def _found(scope: PersonaScope, fields: dict[str, Any]) -> dict[str, Any]:
    allowed = [key for key, one in MEMORY_TYPES.items() if scope.by.may(one.permission("view"))]
    types = [key for key in allowed if fields["type"] in ("", key)]
    if not types:
        scope.by.require(MEMORY_TYPES[fields["type"] or ItemType.FACT].permission("view"))
    # The scope of a request for the keys; without them, everything.
    keys = {name: fields[name] for name in KEYS}
    project_scope = ProjectScope(**keys, all_users=not keys["user"]) if any(keys.values()) else EVERYTHING
    asked = SearchRequest(fields["q"], project_scope, types=types, limit=LIMIT, min_score=0.0, as_of=scope.past)
    result: SearchResult = search(scope.memory, asked)
    model = EmbeddingModel.objects.filter(state=EmbeddingModel.State.ACTIVE).values_list("name", flat=True).first()
    threshold = thresholds_of(model or "").relevance
    rows: list[dict[str, Any]] = [
        {
            "hit": hit,
            "url": memory_url(scope.agent.slug, hit.type, hit.id) + scope.suffix,
            "label": ItemType(hit.type).label,
            "kind": dict(EventKind.choices).get(hit.kind, hit.kind),
        }
        for hit in result.items
    ]
    above = [row for row in rows if row["hit"].score >= threshold]
    return {
        "result": result,
        "threshold": threshold,
        "model": model or "",
        "above": above,
        "is_none_above": not above,
        "below": [row for row in rows if row["hit"].score < threshold],
        "timings": [(TIMING_LABELS.get(name, name), 1000 * took) for name, took in result.timings.items()],
        "total_ms": 1000 * sum(result.timings.values()),
    }

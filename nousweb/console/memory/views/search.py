"""Search one agent's memory by hand, with the scores that decide about prompts."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memory.embedding.thresholds import thresholds_of
from memory.models import EmbeddingModel, ItemType
from memory.models.project_scope import EVERYTHING, ProjectScope
from memory.search import SearchHit, SearchRequest, SearchResult, search
from memory.types import MEMORY_TYPES
from nousweb.console.common.memory_types import memory_url
from nousweb.console.common.pagination import query_without
from nousweb.console.common.view_helpers import form_refuse
from nousweb.console.memory.forms import SearchForm
from nousweb.console.memory.page_context import base_context
from nousweb.console.memory.persona_scope import PersonaScope, persona_scope
from nousweb.lib.errors import Invalid

LIMIT = 25
TIMING_LABELS = {
    "counts": "Count words",
    "words": "Search by words",
    "embedding": "Wait for the embedding",
    "candidates": "Search by meaning",
    "scoring": "Score",
    "loading": "Load",
}


@require_safe
def agent_search(request: HttpRequest, slug: str) -> HttpResponse:
    """The hits of a question; hits below the threshold are greyed."""
    scope = persona_scope(request, slug, "memory.view_searchitem")
    form = SearchForm(request.GET if "q" in request.GET else None)
    context = base_context(request, scope, form=form, query=query_without(request))
    if form.is_bound and form.is_valid():
        try:
            context |= _found(scope, form.cleaned_data)
        except Invalid as error:
            form_refuse(form, error, query="q")
    return render(request, "memory/search.html", context)


def _found(scope: PersonaScope, fields: dict[str, Any]) -> dict[str, Any]:
    allowed = [key for key, one in MEMORY_TYPES.items() if scope.by.may(one.permission("view"))]
    types = [key for key in allowed if fields["type"] in ("", key)]
    if not types:
        scope.by.require(MEMORY_TYPES[fields["type"] or ItemType.FACT].permission("view"))
    # The scope of a request for the project or task; without them, everything.
    named = fields["project"] or fields["task"]
    project_scope = ProjectScope(fields["project"], fields["task"]) if named else EVERYTHING
    asked = SearchRequest(fields["q"], project_scope, types=types, limit=LIMIT, min_score=0.0, as_of=fields["as_of"])
    result: SearchResult = search(scope.memory, asked)
    model = EmbeddingModel.objects.filter(state=EmbeddingModel.State.ACTIVE).values_list("name", flat=True).first()
    threshold = thresholds_of(model or "").relevance
    rows = [_row(hit, scope) for hit in result.items]
    return {
        "result": result,
        "threshold": threshold,
        "model": model or "",
        "above": [row for row in rows if row["hit"].score >= threshold],
        "below": [row for row in rows if row["hit"].score < threshold],
        "timings": [(TIMING_LABELS.get(name, name), 1000 * took) for name, took in result.timings.items()],
        "total_ms": 1000 * sum(result.timings.values()),
    }


def _row(hit: SearchHit, scope: PersonaScope) -> dict[str, Any]:
    return {
        "hit": hit,
        "url": memory_url(scope.agent.slug, hit.type, hit.id) + scope.suffix,
        "label": ItemType(hit.type).label,
        "percent": round(100 * hit.score, 1),
    }

"""The working memory of an agent."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memory.models import WorkingMemory
from memory.selectors.filters import WorkingFilter
from nousweb.console.common.pagination import request_page
from nousweb.console.memory.page_context import list_context
from nousweb.console.memory.persona_scope import persona_scope


@require_safe
def agent_working(request: HttpRequest, slug: str) -> HttpResponse:
    """The working memory of the agent, session by session."""
    scope = persona_scope(request, slug, "memory.view_workingmemory")
    found = WorkingFilter(request.GET, queryset=scope.memory.working)
    page = request_page(request, found.results, "updated_at", size=20)
    context = list_context(
        request,
        scope,
        found,
        page,
        # The names stay clear of a dict's own "items".
        sessions=[(session, _most_relevant(session), session.open_threads) for session in page.rows],
    )
    return render(request, "memory/working_memory.html", context)


def _most_relevant(session: WorkingMemory) -> list[dict[str, object]]:
    return sorted(session.items, key=lambda item: -float(item.get("relevance", 0)))

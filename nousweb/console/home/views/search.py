"""Search across all agents: a page with an address, and the part of it that the command palette shows."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from nousweb.console.common.view_helpers import principal_of
from nousweb.console.home.global_search import global_search

VIEW = "identity.view_agent"
TYPING_SECONDS = 0.3
"""While one types, names count more than the last memory."""


@require_safe
def console_search(request: HttpRequest) -> HttpResponse:
    """The hits of ?q= across the agents that one may see; for htmx, only the list."""
    by = principal_of(request)
    by.require(VIEW)
    query, first = request.GET.get("q", ""), request.GET.get("agent", "")
    if request.htmx:  # type: ignore[attr-defined]
        result = global_search(query, by=by, first=first, seconds=TYPING_SECONDS)
        return render(
            request, "home/_search_results.html", {"result": result, "asked": query.strip(), "in_palette": True}
        )
    result = global_search(query, by=by, first=first)
    return render(request, "home/search.html", {"result": result, "asked": query.strip()})

"""The pages of the reference, for everybody: like the OpenAPI document they hold nothing of anybody's."""

from itertools import groupby

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from nousweb.console.api_reference.operations import operations

MAX_WORDS = 10


@require_safe
def api_reference(request: HttpRequest) -> HttpResponse:
    """All operations by group; `?q=` has words that each must contain."""
    query = request.GET.get("q", "")[:200]
    words = query.lower().split()[:MAX_WORDS]
    found = [operation for operation in operations() if operation.says(words)]
    grouped = sorted(found, key=lambda operation: operation.group)
    groups = [(group, list(rows)) for group, rows in groupby(grouped, key=lambda operation: operation.group)]
    context = {"groups": groups, "found": len(found), "all": len(operations()), "query": query}
    return render(request, "api_reference/operations.html", context)


@require_safe
def api_operation(request: HttpRequest, method: str, path: str) -> HttpResponse:
    """One operation with its fields, its answers and a call to paste."""
    address = f"/api/{path}"
    operation = next((each for each in operations() if (each.method, each.path) == (method, address)), None)
    if operation is None:
        raise Http404
    base_url = request.build_absolute_uri("/").rstrip("/")
    context = {"operation": operation, "example": operation.example(base_url)}
    return render(request, "api_reference/operation.html", context)

"""The "not found" page, with links to go on."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views import defaults

from nousweb.lib.problem_documents import for_programs, page_above


def page_missing(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler of addresses that nothing answers: people get a page in the console's frame."""
    user = getattr(request, "user", None)
    if for_programs(request) or user is None or not user.is_authenticated:
        return defaults.page_not_found(request, exception)
    said = {
        "title": "Page not found",
        "detail": "The page may have moved, its object may have been erased, or you may not have access to it.",
        "above": page_above(request.path),
    }
    return render(request, "refused.html", said, status=404)

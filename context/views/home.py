"""The console's home."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from context.selectors import Overview, overview, worker_health
from identity.services.proposals import REVIEW
from identity.web import principal_of


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """What waits, what changed, how the agents are."""
    by = principal_of(request)
    shown: Overview = overview(by)
    return render(
        request,
        "context/home.html",
        {"overview": shown, "worker": worker_health(), "may_review": by.may(REVIEW)},
    )

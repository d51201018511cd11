"""The console's home."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from identity.services.versions import REVIEW
from nousweb.console.common.view_helpers import principal_of
from nousweb.console.home.dashboard import CHOICES, dashboard


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """The home page: system health and items that need attention. Agent and period are in the address."""
    by = principal_of(request)
    return render(
        request,
        "home/home.html",
        {
            "board": dashboard(by, request.GET),
            "periods": CHOICES,
            "may_review": by.may(REVIEW),
            "may_add_agent": by.may("identity.add_agent"),
            "may_add_token": by.may("identity.add_apitoken"),
        },
    )

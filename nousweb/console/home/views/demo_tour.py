"""Leaving and resuming the guided demo."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from identity.services.personal_settings import demo_tour_leave
from nousweb.console.common.view_helpers import principal_of
from nousweb.lib.problem_documents import page_sending


@require_POST
def demo_tour_leave_view(request: HttpRequest) -> HttpResponse:
    """Show the panel of the guided demo no more; the page stays."""
    demo_tour_leave(leaves=True, by=principal_of(request))
    return _back(request)


@require_POST
def demo_tour_resume_view(request: HttpRequest) -> HttpResponse:
    """Show the panel of the guided demo again, as far as it was."""
    demo_tour_leave(leaves=False, by=principal_of(request))
    return _back(request)


def _back(request: HttpRequest) -> HttpResponse:
    """To the page on which the button stood, or home where a browser does not say which that is."""
    sender = page_sending(request)
    return redirect("home" if sender == request.get_full_path() else sender)

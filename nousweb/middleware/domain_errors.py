"""Shows refusals of services as pages, and to programs as problem documents."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from nousweb.database.outages import outage_of, outage_page
from nousweb.lib.errors import DomainError, Unavailable
from nousweb.lib.page_addresses import page_above, page_sending
from nousweb.lib.problem_documents import for_programs, problem_of_status
from nousweb.middleware.public_paths import PUBLIC_PATHS


class DomainErrorMiddleware:
    """A refusal that no view has dealt with becomes a page that says why, for programs a problem document."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code == 405 and request.method in ("GET", "HEAD") and _from_address_bar(request):
            # An address that only takes forms has no page: on reload, or after a login, it redirects to its parent.
            query = request.META.get("QUERY_STRING", "")
            return redirect(page_above(request.path) + (f"?{query}" if query else ""))
        if response.status_code not in (404, 405) or not for_programs(request):
            return response
        page = response.get("Content-Type", "").startswith("text/html")
        return problem_of_status(request, response) if page else response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if for_programs(request):
            return None
        outage = exception if isinstance(exception, Unavailable) else outage_of(exception)
        if outage is not None:
            return outage_page(request, outage)
        if not isinstance(exception, DomainError):
            return None
        if request.headers.get("HX-Request"):
            # It goes into a part of a page.
            said = {
                "kind": "warn",
                "word": f"{exception.title}.",
                "text": exception.detail,
                "url": page_sending(request),
            }
            return render(request, "components/notice.html", said, status=exception.status)
        return render(
            request,
            "refused.html",
            {
                "title": exception.title,
                "detail": exception.detail,
                "above": page_above(request.path),
                "sender": page_sending(request) if request.method == "POST" else "",
            },
            status=exception.status,
        )


def _from_address_bar(request: HttpRequest) -> bool:
    """Whether a browser asks for a page of the console, by an address that was typed, reloaded or followed."""
    return "text/html" in request.headers.get("Accept", "") and not request.path.startswith(PUBLIC_PATHS)

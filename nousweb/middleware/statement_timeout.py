"""Set the statement timeout of each request by its kind of work."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from nousweb.database.statement_timeouts import work, work_of


class StatementTimeoutMiddleware:
    """Before everything that may ask the database."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with work(work_of(request.method or "", request.path)):
            return self.get_response(request)

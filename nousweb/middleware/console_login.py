"""Leads people who have not signed in from the console to the log-in."""

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from nousweb.lib.page_addresses import page_sending
from nousweb.middleware.public_paths import PUBLIC_PATHS


class ConsoleLoginMiddleware:
    """Everything of the console is for people who signed in, unless its path is one of PUBLIC_PATHS."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith(PUBLIC_PATHS) or request.user.is_authenticated:
            return self.get_response(request)
        # After the login comes the page with the form, which is not the address that the form goes to.
        safe = request.method in ("GET", "HEAD") and not request.headers.get("HX-Request")
        wanted = request.get_full_path() if safe else page_sending(request)
        login: HttpResponse = redirect_to_login(wanted)
        if request.setup_due:  # type: ignore[attr-defined]
            login = redirect(settings.SECOND_FACTOR_URL)
        if request.headers.get("HX-Request"):
            # A fragment must not be replaced by a login form.
            return HttpResponse(status=401, headers={"HX-Redirect": login["Location"]})
        return login

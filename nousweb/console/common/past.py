"""The past of an agent: pages show it as of the moment that the parameter `as_of` of their address names.

`page` (view_helpers) reads the moment. Everything in the answer that leads to a page of the same agent carries it.
"""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.http import urlencode

from nousweb.lib import clock, moment_check
from nousweb.lib.errors import Invalid

AS_OF = "as_of"
NOT_KEPT = ("page", "before", "after", "export")
"""Parameters that mean something else at another moment."""
_GET_FORM = re.compile(r'<form\b[^>]*\bmethod="get"[^>]*>')


def moment_named(request: HttpRequest) -> datetime | None:
    """The moment that an address names. Raises Invalid for what is no moment of the past."""
    given = request.GET.get(AS_OF, "")
    try:
        moment = moment_check(AS_OF, forms.DateTimeField(required=False).clean(given))
    except ValidationError as error:
        raise Invalid(f"“{given[:60]}” is not a moment: choose a date and a time.", field=AS_OF) from error
    if moment and moment > clock.now():
        raise Invalid(f"{moment:%Y-%m-%d %H:%M} UTC is in the future: choose a moment of the past.", field=AS_OF)
    return moment


def past_of(request: HttpRequest) -> datetime | None:
    """The moment that the page of a request tells of; None for the present."""
    return getattr(request, AS_OF, None) if getattr(request, "tells_past", False) else None


def past_shown(request: HttpRequest) -> dict[str, Any]:
    """Variables of the control of the moment and of the notice about it (base.html)."""
    moment = getattr(request, AS_OF, None)
    kept = request.GET.copy()
    for name in NOT_KEPT:
        kept.pop(name, None)
    # An empty moment is left out of the address of the page that it leads to.
    kept[AS_OF] = ""
    return {
        "moment": moment,
        "words": f"As of {moment:%Y-%m-%d %H:%M} UTC:" if moment else "",
        "is_told": past_of(request) is not None,
        "offered": getattr(request, "tells_past", False) or moment is not None,
        "value": f"{moment:%Y-%m-%dT%H:%M}" if moment else "",
        # Not to the minute: a page that nothing has changed stays the same.
        "latest": f"{timezone.now():%Y-%m-%d}T23:59",
        "now": f"{request.path}?{kept.urlencode()}",
    }


def past_links(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """The middleware by which pages of the past lead to others: links, forms and redirects carry the moment."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if not getattr(request, AS_OF, None) or request.resolver_match is None:
            return response
        pair = urlencode({AS_OF: request.GET[AS_OF]})
        above = re.escape(reverse("agent", args=[request.resolver_match.kwargs["slug"]]))
        address = re.compile(rf'(^|\b(?:href|action|hx-get|hx-post)=")({above}[^"?#]*|(?=\?))(?:\?([^"#]*))?')

        def carried(found: re.Match[str]) -> str:
            before, path, query = found.groups("")
            return found[0] if f"{AS_OF}=" in query else f"{before}{path}?{query}{'&amp;' if query else ''}{pair}"

        for name in ("Location", "HX-Replace-Url", "HX-Push-Url"):
            if name in response:
                response[name] = address.sub(carried, response[name]).replace("&amp;", "&")
        if not response.streaming and response.get("Content-Type", "").startswith("text/html"):
            kept = format_html('<input type="hidden" name="{}" value="{}">', AS_OF, request.GET[AS_OF])
            html = address.sub(carried, response.content.decode())
            response.content = _GET_FORM.sub(lambda form: form[0] + kept, html).encode()
        return response

    return middleware

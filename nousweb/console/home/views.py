"""The console's home, the search and the page of usage. Until when a person had looked at Home before is kept in their
browser, so that reading a page writes nothing."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import urlencode

from identity.models import SignIn
from identity.principal import Principal
from identity.services.personal_settings import demo_tour_leave
from nousweb.console.common import POST, page
from nousweb.console.home.dashboard import VIEW_RUN, dashboard
from nousweb.console.home.global_search import SearchForm, global_search
from nousweb.console.home.period import CHOICES
from nousweb.console.home.usage import usage
from nousweb.lib import clock
from nousweb.lib.problem_documents import page_sending

COOKIE = "last_visit"
BREAK = timedelta(minutes=30)
"""A visit is over when Home was not opened for so long."""
LONGEST = timedelta(days=30)
"""What changed before is no news."""
FIRST = timedelta(days=14)
"""The time that is told of where no earlier visit is known."""
_KEPT = timedelta(days=400)
_VALUE = re.compile(r"(\d{1,10})\.(\d{1,10})\.(\d{1,10})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Visit:
    """A person's visit: the earlier one lasted until `since`, and in this one Home was last opened at `at`."""

    person: int
    since: datetime
    at: datetime
    is_first: bool = False
    """No earlier one is known; `since` is then two weeks ago."""

    def keep(self, response: HttpResponse) -> None:
        """Let the person's browser remember the visit."""
        since = 0 if self.is_first else int(self.since.timestamp())
        value = f"{self.person}.{since}.{int(self.at.timestamp())}"
        response.set_cookie(
            COOKIE, value, max_age=_KEPT, httponly=True, samesite="Lax", secure=settings.SESSION_COOKIE_SECURE
        )


def visit_of(request: HttpRequest, by: Principal) -> Visit:
    """The present visit. In a browser that knows of none, the earlier one was the last log-in elsewhere."""
    now, person = clock.now(), int(by.id)
    kept = _VALUE.fullmatch(request.COOKIES.get(COOKIE, ""))
    if kept is None or int(kept[1]) != person:
        others = SignIn.objects.filter(person_id=person, created_at__lt=now - BREAK).exclude(
            session_key=request.session.session_key or ""
        )
        earlier = others.order_by("-created_at").values_list("created_at", flat=True).first()
        return Visit(person, earlier or now - FIRST, now, is_first=earlier is None)
    since, at = (datetime.fromtimestamp(int(kept[place]), UTC) for place in (2, 3))
    if now - at > BREAK:
        return Visit(person, at, now)
    return Visit(person, min(since, now), now) if int(kept[2]) else Visit(person, now - FIRST, now, is_first=True)


@page()
def home(request: HttpRequest, by: Principal) -> HttpResponse:
    """The home page. The browser remembers when it was opened, for "since you were here"."""
    visit = visit_of(request, by)
    board = dashboard(by, max(visit.since, visit.at - LONGEST))
    shown = {
        "board": board,
        "visit": visit,
        "may_review": board.decides,
        "may_add_agent": by.may("identity.add_agent"),
        "may_add_token": by.may("identity.add_apitoken"),
    }
    response = render(request, "home/home.html", shown)
    visit.keep(response)
    return response


@page(VIEW_RUN)
def console_usage(request: HttpRequest, by: Principal) -> HttpResponse:
    """Prompts, their tokens and the growth of memories. Agent and period are in the address."""
    board = usage(by, request.GET)
    periods = [
        {"label": label, "url": f"?days={days}{board.period_query}", "active": days == board.period.days}
        for days, label in CHOICES.items()
    ]
    return render(request, "home/usage.html", {"board": board, "periods": periods})


TYPING_SECONDS = 0.3
"""While one types, names count more than the last memory."""


@page("identity.view_agent")
def console_search(request: HttpRequest, by: Principal) -> HttpResponse:
    """The hits of ?q= across the agents that one may see; for htmx, only the list."""
    query, first = request.GET.get("q", ""), request.GET.get("agent") or request.COOKIES.get("agent", "")
    if request.htmx:  # type: ignore[attr-defined]
        result = global_search(query, by=by, first=first, seconds=TYPING_SECONDS)
        return render(
            request, "home/_search_results.html", {"result": result, "asked": query.strip(), "in_palette": True}
        )
    form = SearchForm(request.GET, by=by)
    asked = form.cleaned_data if form.is_valid() else {"q": ""}
    result = global_search(asked.pop("q"), by=by, **asked)
    shown = {"result": result, "asked": query.strip(), "form": form, "is_filtered": any(asked.values())}
    return render(request, "home/search.html", {**shown, "reset": f"?{urlencode({'q': query})}"})


@page(methods=POST)
def demo_tour_change(request: HttpRequest, by: Principal, leaves: bool) -> HttpResponse:
    """Show the panel of the guided demo no more, or again as far as it was; the page of the button stays."""
    demo_tour_leave(leaves=leaves, by=by)
    sender = page_sending(request)
    # A browser may not say which page that is.
    return redirect("home" if sender == request.get_full_path() else sender)

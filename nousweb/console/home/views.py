"""The console's home."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import urlencode

from identity.principal import Principal
from identity.services.personal_settings import demo_tour_leave
from nousweb.console.common import POST, page
from nousweb.console.home.dashboard import VIEW_RUN, dashboard
from nousweb.console.home.global_search import SearchForm, global_search
from nousweb.console.home.last_visit import visit_of
from nousweb.console.home.period import CHOICES
from nousweb.console.home.usage import usage
from nousweb.lib.problem_documents import page_sending


@page()
def home(request: HttpRequest, by: Principal) -> HttpResponse:
    """The home page. The browser remembers when it was opened, for "since you were here"."""
    visit = visit_of(request, by)
    board = dashboard(by, visit.told_since)
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
    return render(request, "home/usage.html", {"board": usage(by, request.GET), "periods": CHOICES})


VIEW = "identity.view_agent"
TYPING_SECONDS = 0.3
"""While one types, names count more than the last memory."""


@page(VIEW)
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

"""The console's pages about what agents know."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from identity.models import Persona
from identity.selectors import agent_get
from identity.web import form_refuse, principal_of, query_without_page
from memory.filters import FactFilter
from memory.forms import FactForm
from memory.models import Fact
from memory.policy import KNOWN_CATEGORIES, PROFILE_CATEGORIES
from memory.services.facts import fact_learn
from nousweb.lib.errors import Invalid
from nousweb.lib.paging import BoundedPaginator

PAGE_SIZE = 50


@require_safe
def agent_facts(request: HttpRequest, slug: str) -> HttpResponse:
    """What the actor believes; the subconscious keeps its own memory, which has no page here."""
    by = principal_of(request)
    by.require("memory.view_fact")
    agent = agent_get(slug)
    facts = Fact.objects.filter(agent=agent, persona=Persona.ACTOR)
    given = request.GET.get("category", "")
    # Agents may use categories of their own; a link may name one that the list does not offer.
    categories = list(dict.fromkeys([*KNOWN_CATEGORIES, *([given] if given.isidentifier() else [])]))
    found = FactFilter(request.GET, categories=categories, queryset=facts)
    paginator = BoundedPaginator(found.qs if found.form.is_valid() else facts.none(), PAGE_SIZE)
    page = paginator.get_page(request.GET.get("page"))
    return render(
        request,
        "memory/facts.html",
        {
            "agent": agent,
            "form": found.form,
            "narrowed": found.narrowed,
            "page": page,
            "full": paginator.is_full,
            "query": query_without_page(request),
            "profile_categories": PROFILE_CATEGORIES,
            "may_add": by.may("memory.add_fact"),
        },
    )


@require_http_methods(["GET", "HEAD", "POST"])
def agent_fact_add(request: HttpRequest, slug: str) -> HttpResponse:
    """A form for one fact."""
    by = principal_of(request)
    by.require("memory.add_fact")
    agent = agent_get(slug)
    form = FactForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        given: dict[str, Any] = form.cleaned_data
        try:
            fact_learn(agent=agent, by=by, **{**given, "source": given["source"] or f"console: {by.name}"})
        except Invalid as error:
            form_refuse(form, error)
        else:
            messages.success(request, "Added the fact.")
            return redirect("agent_facts", slug=slug)
    return render(request, "memory/fact_add.html", {"agent": agent, "form": form}, status=422 if form.errors else 200)

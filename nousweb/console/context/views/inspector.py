"""The inspector: which prompt an agent would get, and why. It leaves no trace."""

from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_POST

from context.expectations.policy import ADD
from context.models import ASSEMBLE, VIEW_RUN
from context.selectors import run_get
from context.services.anthropic_token_counter import CountFailed, counts_exactly, tokens_count
from context.services.context import context_assemble
from identity.models import Agent
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.selectors import agent_get
from nousweb.console.common.view_helpers import form_refuse, principal_of
from nousweb.console.context.contested_links import contested_links
from nousweb.console.context.forms import InspectorForm, inspector_values
from nousweb.console.context.presentation import A_PAGE, COLUMNS, PromptView
from nousweb.lib.errors import Invalid, NotFound

# A longer address is refused by servers on the way.
MAX_ADDRESS_CHARACTERS = 2_000
USUAL = (("session", "preview"), ("sort", "verdict"), ("page", "1"))
"""Default values, which addresses may omit."""
FIELDS_OF_REQUEST = {"session_id": "session", "budgets": "budget", "files": "paths"}


@require_http_methods(["GET", "HEAD", "POST"])
def agent_context(request: HttpRequest, slug: str) -> HttpResponse:
    """The prompt that the agent would get now, or at another time, or under another frame or profile.

    ?run= takes a logged run as the starting point. The form is sent by POST while it is edited, since a conversation
    may be longer than an address; the address follows it as long as it can.
    """
    by = principal_of(request)
    by.require(ASSEMBLE)
    agent = agent_get(slug, by)
    fields: QueryDict = request.POST if request.method == "POST" else request.GET
    if "input" not in fields and "run" in fields:
        fields = _of_run(fields, agent, by)
    # An empty form is no mistake: it is how the page begins.
    asked = "input" in fields and (str(fields.get("input", "")).strip() != "" or request.method != "POST")
    form = InspectorForm(
        fields if asked else None, initial={"session": "preview"}, subconscious=by.may(VIEW_SUBCONSCIOUS)
    )
    query = _query(fields)
    context: dict[str, Any] = {
        "agent": agent,
        "form": form,
        "shown": _preview(form, agent, by),
        "table": {
            "live": True,
            "columns": COLUMNS,
            "sort": fields.get("sort") or "verdict",
            "sort_field": form["sort"],
            "verdict": fields.get("verdict", ""),
            "query": query,
            "back_query": f"?back={quote(query, safe='')}" if query else "",
            "demand_url": reverse("agent_expectation_demand", args=[slug]) if by.may(ADD) else "",
            "count_url": reverse("agent_context_tokens", args=[slug]) if counts_exactly() else "",
        },
        "may_see_runs": by.may(VIEW_RUN),
    }
    if context["shown"]:
        found = context["shown"].table(sort=context["table"]["sort"], verdict=context["table"]["verdict"])
        context["candidates"] = Paginator(found, A_PAGE).get_page(fields.get("page"))
    if request.htmx:  # type: ignore[attr-defined]
        response = render(request, "context/_inspector_result.html", context | {"oob": True})
        # Typing must not fill the history: the address of the state replaces the one before.
        response["HX-Replace-Url"] = f"{reverse('agent_context', args=[slug])}?{query}" if query else "false"
        return response
    return render(request, "context/inspector.html", context)


@require_POST
def agent_context_tokens(request: HttpRequest, slug: str) -> HttpResponse:
    """The exact number of tokens of a preview, or the estimate where none can be had. Leaves no trace."""
    by = principal_of(request)
    by.require(ASSEMBLE)
    agent = agent_get(slug, by)
    form = InspectorForm(request.POST, subconscious=by.may(VIEW_SUBCONSCIOUS))
    shown = _preview(form, agent, by)
    if shown is None:
        raise Invalid("No prompt to count.", field="input")
    size: dict[str, Any] = {"tokens": shown.record.tokens, "counted_tokens": None}
    context: dict[str, Any] = {"size": size}
    if counts_exactly():
        try:
            size |= {
                "counted_tokens": tokens_count(shown.record.system_prompt),
                "counted_by": settings.COUNTER_MODEL,
            }
        except CountFailed as failed:
            context["failure"] = f"The tokens could not be counted: {failed}"
    return render(request, "context/_token_count.html", context)


def _of_run(fields: QueryDict, agent: Agent, by: Principal) -> QueryDict:
    """The form's values of a logged run, with all other values of the address."""
    try:
        key = UUID(str(fields["run"]))
    except ValueError as error:
        raise NotFound("There is no such run.") from error
    values = QueryDict(mutable=True)
    values.update({name: str(value) for name, value in inspector_values(run_get(agent, by, key)).items()})
    for name in fields:
        if name != "run":
            values[name] = str(fields[name])
    return values


def _preview(form: InspectorForm, agent: Agent, by: Principal) -> PromptView | None:
    if not form.is_bound or not form.is_valid():
        return None
    try:
        persona = form.cleaned_data.get("persona") or None
        record = context_assemble(agent=agent, request=form.as_request(), by=by, persona=persona)
    except Invalid as error:
        form_refuse(form, error, **FIELDS_OF_REQUEST)
        return None
    return PromptView(agent.slug, record, contested_links(record, agent, by))


def _query(fields: QueryDict) -> str:
    """The state as a query string; "" when it is too long for an address."""
    values = [(name, str(fields.get(name, ""))) for name in (*InspectorForm.base_fields, "page")]
    query = urlencode([pair for pair in values if pair[1] and pair not in USUAL])
    return query if len(query) <= MAX_ADDRESS_CHARACTERS else ""

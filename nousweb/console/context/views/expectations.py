"""Expectations of one agent: the list with the causes of failures, a single expectation, and creating one from a
candidate."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Prefetch, Window, prefetch_related_objects
from django.db.models.functions import RowNumber
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode

from context.expectations.evaluation import targets_load
from context.expectations.policy import ADD, CHANGE, RUN
from context.expectations.services import (
    expectation_create,
    expectation_get,
    expectation_restore,
    expectation_retire,
    expectation_totals,
    expectation_update,
    expectations_of,
    expectations_verify,
    request_of_run,
    result_of,
    state_of,
)
from context.models import Expectation, ExpectationResult
from context.selectors import run_get
from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.selectors import agent_get
from memory.models import EVERYTHING, ItemType
from memory.persona import VIEWS, persona_memory
from memory.search import SearchRequest, search
from memory.types import MEMORY_TYPES
from nousweb.console.common import (
    FORM,
    POST,
    ListExport,
    ListPage,
    agent_page,
    export_format,
    form_refuse,
    key_rows,
    list_export,
    object_url,
    page,
    uuid_of,
)
from nousweb.console.context.forms import ExpectationForm, InspectorForm, expectation_values, inspector_values
from nousweb.console.context.labels import memory_item_url
from nousweb.lib.constrained_types import MAX_QUERY_CHARACTERS
from nousweb.lib.errors import Conflict, Invalid, NotFound

OFFERED = 8
SHOWN_CHARACTERS = 160


def memories_named(agent: Agent, persona: str, by: Principal, words: str) -> list[tuple[str, str]]:
    """The memories that fit `words` best and that `by` may see, each as "fact <id>" and its text."""
    types = [key for key, one in MEMORY_TYPES.items() if by.may(one.permission("view"))]
    if not words.strip() or not types:
        return []
    request = SearchRequest(words[:MAX_QUERY_CHARACTERS], EVERYTHING, types=types, limit=OFFERED)
    return [
        (f"{hit.type} {hit.id}", f"{ItemType(hit.type).label}: {hit.content[:SHOWN_CHARACTERS]}")
        for hit in search(persona_memory(agent, by, persona), request).items
    ]


A_PAGE = 50
CHECKS_SHOWN = 10
MAX_QUERY = 4_000
STATES = {"": "Active", "failed": "Failed", "error": "Could not run", "passed": "Passed", "retired": "Retired"}
WORST_FIRST = {"failed": 0, "error": 1, "": 2, "passed": 3}
EXPECTATIONS = ListExport(
    "Expectations",
    (
        "id",
        "persona",
        "input",
        "requirement",
        "target",
        "item_type",
        "item_id",
        "text",
        "section",
        "reason",
        "active",
        ("state", state_of),
        ("checked_at", lambda one: result.checked_at if (result := result_of(one)) else None),
        "author_name",
        "created_at",
        "updated_at",
    ),
)
LIST = ListPage(
    title="Expectations",
    noun="expectation",
    about="What the agent’s prompts must have or must not have. Each change of its memory checks them again.",
    empty="An expectation says what the prompt for a question must have or must not have.",
)
FIELDS = {"item_type": "item", "item_id": "item", "session_id": "session", "files": "paths"}
"""Fields of the service by those of the form, where they differ."""


@agent_page(methods=FORM)
def agent_expectations(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponseBase:
    """The list, those that fail first, and the form for one by hand."""
    found = list(expectations_of(agent, by))
    form = ExpectationForm(request.POST or None, subconscious=by.may(VIEW_SUBCONSCIOUS))
    if request.method == "POST":
        by.require(ADD)
        if form.is_valid() and (made := _made(form, agent, by)):
            return redirect(f"{made.get_absolute_url()}?made=1")
    state = request.GET.get("state", "")
    wanted = [one for one in found if one.active != (state == "retired")]
    if state in ExpectationResult.State.values:
        wanted = [one for one in wanted if state_of(one) == state]
    wanted.sort(key=lambda one: WORST_FIRST[state_of(one)])
    if export_format(request):
        rows = key_rows(wanted, list)
        return list_export(request, EXPECTATIONS, rows, agent=agent, both=by.may(VIEW_SUBCONSCIOUS))
    page = Paginator(wanted, A_PAGE).get_page(request.GET.get("page"))
    totals = expectation_totals(found)
    counts = {
        "": totals.total,
        "failed": totals.failed,
        "error": totals.errors,
        "passed": totals.passed,
        "retired": sum(not one.active for one in found),
    }
    shown = {
        "agent": agent,
        **LIST.context(request, page, None, bool(state)),
        "new_form": form,
        "totals": totals,
        "rows": [
            {**row, "checks": (checks := _checks(row["one"])), "last_failure": _last_failure(checks)}
            for row in _rows(agent, _with_results(agent, page), by)
        ],
        "checked_at": max((result.checked_at for one in found if (result := result_of(one))), default=None),
        "layouts": [
            {"label": label, "url": f"?state={key}" if key else "?", "active": key == state, "count": counts[key]}
            for key, label in STATES.items()
            # What is true of all or of none is no choice.
            if key in ("", state) or (counts[key] if key == "retired" else 0 < counts[key] < totals.total)
        ]
        if state or len({*map(state_of, found)}) > 1 or counts["retired"]
        else [],
        "state": state,
        "may_add": by.may(ADD),
        "may_run": by.may(RUN),
    }
    return render(request, "context/expectations.html", shown, status=422 if form.errors else 200)


@page(methods=POST)
def agent_expectations_check(request: HttpRequest, by: Principal, slug: str) -> HttpResponse:
    """Check all of them now."""
    found = expectations_verify(agent=agent_get(slug, by), by=by)
    totals = expectation_totals(found)
    message = f"Checked {totals.total}: {totals.passed} passed, {totals.failed} failed"
    if totals.errors:
        message += f", {totals.errors} could not run"
    (messages.success if totals.state == ExpectationResult.State.PASSED else messages.error)(request, f"{message}.")
    return redirect("agent_expectations", slug=slug)


@agent_page(methods=FORM)
def agent_expectation(request: HttpRequest, by: Principal, agent: Agent, pk: UUID) -> HttpResponse:
    """One expectation with the history of its checks; its forms edit, check, retire and restore it."""
    one = expectation_get(agent, by, pk)
    form = ExpectationForm(initial=expectation_values(one), subconscious=False)
    if request.method == "POST":
        by.require(RUN if request.POST.get("action") == "check" else CHANGE)
        form = ExpectationForm(request.POST or None, subconscious=False, initial=expectation_values(one))
        if message := _act(request.POST.get("action", ""), form, one, by):
            messages.success(request, message)
            return redirect(one.get_absolute_url())
    results = list(one.results.order_by("-since", "-id")[:100])
    shown = {
        "agent": agent,
        "row": _rows(agent, [one], by)[0],
        "results": [(result, _cause(result, agent, by)) for result in results],
        "form": form,
        "made": "made" in request.GET and one.active,
        "may_change": by.may(CHANGE),
        "may_run": by.may(RUN),
    }
    return render(request, "context/expectation.html", shown, status=422 if form.errors else 200)


@agent_page(ADD, methods=POST)
def agent_expectation_demand(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Create an expectation by one click: the requirement that `demand` names ("present fact <id>") for the request of
    `run`, or for the inspector's form: its fields, or the query `back` of its address with another `input`."""
    try:
        one = _demanded(request, agent, by)
    except (Invalid, Conflict) as error:
        if request.htmx:  # type: ignore[attr-defined]
            return render(request, "context/_expectation_made.html", {"refusal": error.detail})
        raise
    if request.htmx:  # type: ignore[attr-defined]
        return render(request, "context/_expectation_made.html", {"one": one, "result": result_of(one)})
    return redirect(f"{one.get_absolute_url()}?made=1")


@page(CHANGE, methods=POST)
def agent_expectation_undo(request: HttpRequest, by: Principal, slug: str, pk: UUID) -> HttpResponse:
    """Take back what one click wrote: it is retired."""
    one = expectation_retire(expectation=expectation_get(agent_get(slug, by), by, pk), by=by, reason="Undone.")
    if request.htmx:  # type: ignore[attr-defined]
        return render(request, "context/_expectation_made.html", {"one": one, "undone": True})
    messages.success(request, "Undone. The expectation was removed.")
    return redirect("agent_expectations", slug=slug)


def _made(form: ExpectationForm, agent: Agent, by: Principal) -> Expectation | None:
    """The expectation that the form describes, checked; None where it is refused, which the form says."""
    try:
        persona = form.cleaned_data.get("persona") or None
        demand = form.as_demand(partial(memories_named, agent, persona or Persona.ACTOR.value, by))
        one = expectation_create(agent=agent, by=by, persona=persona, **demand)
    except Invalid as error:
        form_refuse(form, error, **FIELDS)
        return None
    except (Conflict, NotFound) as error:
        form.add_error(None, error.detail)
        return None
    return _checked(one, by)


def _demanded(request: HttpRequest, agent: Agent, by: Principal) -> Expectation:
    requirement, item_type, item_id = [*request.POST.get("demand", "").split(" ", 2), "", "", ""][:3]
    persona: str | None = None
    if run_id := request.POST.get("run", ""):
        if not (key := uuid_of(run_id)):
            raise NotFound("There is no such run.")
        run = run_get(agent, by, key)
        asked, persona = request_of_run(run, run.persona), run.persona
    else:
        fields = QueryDict(request.POST.get("back", ""), mutable=True)
        fields.update(request.POST.dict())
        form = InspectorForm(fields.dict(), subconscious=by.may(VIEW_SUBCONSCIOUS))
        if not form.is_valid():
            raise Invalid("This request is not valid.", field="input")
        asked, persona = form.as_request(), form.cleaned_data.get("persona") or None
    one = expectation_create(
        agent=agent,
        by=by,
        persona=persona,
        request=asked,
        requirement=requirement,
        target=Expectation.Target.MEMORY,
        item_type=item_type,
        item_id=item_id,
    )
    return _checked(one, by)


def _checked(one: Expectation, by: Principal) -> Expectation:
    if by.may(RUN):
        expectations_verify(agent=one.agent, by=by, ids=[one.pk])
    return expectation_get(one.agent, by, one.pk)


def _act(action: str, form: ExpectationForm, one: Expectation, by: Principal) -> str:
    """Run the action of a button; returns a message, "" if it was refused. Services check the permissions."""
    try:
        if action == "check":
            found = _checked(one, by)
            result = result_of(found)
            return f"Checked: {result.get_state_display().lower()}." if result else "This expectation is retired."
        if action == "retire":
            expectation_retire(expectation=one, by=by)
            return "Retired. It is no longer checked."
        if action == "restore":
            _checked(expectation_restore(expectation=one, by=by), by)
            return "Restored. It is checked again."
        if action == "edit" and form.is_valid():
            demand = form.as_demand(partial(memories_named, one.agent, one.persona, by))
            found = expectation_update(expectation=one, by=by, **demand)
            if found.active:
                _checked(found, by)
            return "Saved."
    except Invalid as error:
        form_refuse(form, error, **FIELDS)
    except (Conflict, NotFound) as error:
        form.add_error(None, error.detail)
    if action not in ("edit", "restore"):
        raise Invalid("Unknown action.", field="action")
    return ""


def _rows(agent: Agent, found: Sequence[Expectation], by: Principal) -> list[dict[str, Any]]:
    """The expectations with their last results and the memories that they name, read by persona."""
    rows: dict[UUID, dict[str, Any]] = {}
    for persona in Persona.values:
        own = [one for one in found if one.persona == persona]
        targets = targets_load(VIEWS[persona](agent), own)
        for one in own:
            target = targets.get((one.item_type, one.item_id))
            result = result_of(one)
            rows[one.pk] = {
                "one": one,
                "result": result,
                "text": target.content if target else "",
                "url": memory_item_url(agent.slug, one.item_type, one.item_id) if target else "",
                "cause": _cause(result, agent, by) if result else None,
                "state": state_of(one),
                "inspector_url": _inspector_url(agent.slug, one),
            }
    return [rows[one.pk] for one in found]


def _with_results(agent: Agent, found: Iterable[Expectation]) -> list[Expectation]:
    """The expectations, each with its `last_results`, the latest first."""
    rows = list(found)
    latest = ("-since", "-id")
    place = Window(RowNumber(), partition_by="expectation", order_by=latest)
    last = ExpectationResult.objects.filter(agent=agent).annotate(place=place).filter(place__lte=CHECKS_SHOWN)
    prefetch_related_objects(rows, Prefetch("results", last.order_by(*latest), to_attr="last_results"))
    return rows


def _checks(one: Expectation) -> list[dict[str, Any]]:
    """Its last checks as runs of one state, the latest at the end, without those of what it required before an edit:
    its result, its state, and a character for each square."""
    runs, left = [], CHECKS_SHOWN
    for result in one.last_results:  # type: ignore[attr-defined]
        if result.revision == one.revision and left:
            squares = min(result.checks, left)
            left -= squares
            runs.append({"result": result, "squares": "x" * squares, "state": result.state})
    return runs[::-1]


def _last_failure(checks: Sequence[dict[str, Any]]) -> ExpectationResult | None:
    return next((one["result"] for one in reversed(checks) if one["state"] == ExpectationResult.State.FAILED), None)


def _cause(result: ExpectationResult, agent: Agent, by: Principal) -> dict[str, Any] | None:
    """The change that led to a state: its description, page, author and time."""
    cause = result.cause
    if not cause:
        return None
    if not cause.get("kind"):
        return {"note": str(cause.get("note", ""))}
    return {
        "words": str(cause["kind"]).replace(".", " "),
        "url": _cause_url(str(cause["object_type"]), str(cause["object_id"]), agent, by),
        "by": str(cause.get("by", "")),
        "at": datetime.fromisoformat(cause["at"]),
    }


def _cause_url(object_type: str, object_id: str, agent: Agent, by: Principal) -> str:
    pages = {
        "agent": ("agent_identity", [agent.slug]),
        "contextpin": ("agent_context_pins", [agent.slug]),
        "contextprofile": ("context_profile", [object_id]),
        "workingmemory": ("agent_working", [agent.slug]),
    }
    try:
        if object_type in pages:
            name, arguments = pages[object_type]
            return reverse(name, args=arguments)
    except NoReverseMatch:
        return ""
    return object_url(object_type, object_id, by) or ""


def _inspector_url(slug: str, one: Expectation) -> str:
    """The prompt for its question in the inspector, "" where the question is too long for an address."""
    values = inspector_values(one)
    query = urlencode({name: values[name] for name in InspectorForm.base_fields if values.get(name)})
    return f"{reverse('agent_context', args=[slug])}?{query}" if len(query) < MAX_QUERY else ""

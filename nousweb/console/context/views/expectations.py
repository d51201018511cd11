"""Expectations of one agent: the list with the causes of failures, a single expectation, and creating one from a
candidate."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import quote
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Exists, F, OuterRef, Prefetch, Q, Window, prefetch_related_objects
from django.db.models.fields.json import KT
from django.db.models.functions import RowNumber
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.text import Truncator

from context.expectations.evaluation import memories_named_load, memory_name, targets_load
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
    personas_of,
    request_of_run,
    result_of,
    state_of,
)
from context.history.behaviour_bisect import IGNORED_KINDS
from context.models import RECENT, VIEW_RUN, ContextRun, Expectation, ExpectationResult, MemoryUsage
from context.selectors import run_get
from identity.models import Agent, Change, Persona
from identity.policy.changes import CHANGE_KINDS
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.selectors import agent_get
from memory.models import EVERYTHING, Fact, ItemType, MemoryReview
from memory.persona import VIEWS, PersonaMemory, persona_memory
from memory.search.request import SearchRequest
from memory.search.search import search
from memory.selectors import visible_reviews
from memory.types import MEMORY_TYPES
from nousweb.console.common import (
    FORM,
    POST,
    ListExport,
    ListPage,
    agent_page,
    author_words,
    change_links,
    export_format,
    key_rows,
    kind_title,
    list_export,
    page,
    refused_on,
    uuid_of,
)
from nousweb.console.context.forms import ExpectationForm, InspectorForm, expectation_values, inspector_values
from nousweb.console.context.labels import memory_item_url
from nousweb.console.inbox.item_titles import KEEPS
from nousweb.console.templatetags.console import when
from nousweb.lib import clock
from nousweb.lib.bounds import MAX_QUERY_CHARACTERS
from nousweb.lib.errors import Conflict, Invalid, NotFound, existing

NAMED = re.compile(rf"\b({'|'.join(MEMORY_TYPES)}) ([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})\b")
"""A memory as the reason of a result names it (`context.expectations.evaluation.memory_name`)."""
OFFERED = 8
SHOWN_CHARACTERS, NAME_CHARACTERS = 160, 60


def memories_named(
    agent: Agent, persona: str, by: Principal, words: str, as_of: datetime | None = None
) -> list[tuple[str, str]]:
    """The memories that fit `words` best and that `by` may see, each as "fact <id>" and its text; `as_of` a time, those
    that were known then."""
    types = [key for key, one in MEMORY_TYPES.items() if by.may(one.permission("view"))]
    if not words.strip() or not types:
        return []
    request = SearchRequest(words[:MAX_QUERY_CHARACTERS], EVERYTHING, types=types, limit=OFFERED, as_of=as_of)
    return [
        (f"{hit.type} {hit.id}", f"{ItemType(hit.type).label}: {hit.content[:SHOWN_CHARACTERS]}")
        for hit in search(persona_memory(agent, by, persona), request).items
    ]


A_PAGE = 50
CHECKS_SHOWN = 20
FEW = 10
"""Of more expectations than these, one is searched for."""
MAX_QUERY = 4_000
STATES = {"": "Active", "failed": "Failed", "error": "Could not run", "passed": "Passed", "retired": "Retired"}
SUGGESTED, FAILED_READ, FAILURE = 5, 50, ContextRun.Outcome.FAILURE
ONE_HOLDS = [resolution for resolution, sides in KEEPS.items() if len(sides) == 1]
"""The resolutions of a contradiction after which one of the facts holds."""
WORST_FIRST = {"failed": 0, "error": 1, "": 2, "passed": 3}


class SearchForm(forms.Form):
    q = forms.CharField(required=False, label="Search")


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
    about="What the agent’s prompts must have or must not have, checked after each change of its memory.",
    empty="An expectation says what the prompt for a question must have or must not have.",
)
FIELDS = {"item_type": "item", "item_id": "item", "session_id": "session", "files": "paths"}
"""Fields of the service by those of the form, where they differ."""


@agent_page(methods=FORM)
def agent_expectations(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponseBase:
    """The list, those that fail first, and the form for one by hand."""
    found = list(expectations_of(agent, by))
    # The form may begin with the request of a logged prompt.
    like = uuid_of(request.GET.get("run", ""))
    initial = inspector_values(run_get(agent, by, like)) if like else {}
    form = ExpectationForm(request.POST or None, initial=initial, subconscious=by.may(VIEW_SUBCONSCIOUS))
    if request.method == "POST":
        by.require(ADD)
        if form.is_valid() and (made := _made(form, agent, by)):
            return redirect(f"{made.get_absolute_url()}?made=1")
    state = request.GET.get("state", "")
    search = SearchForm(request.GET) if len(found) > FEW else None
    words = request.GET.get("q", "").lower()
    wanted = [
        one
        for one in sorted(found, key=lambda one: WORST_FIRST[state_of(one)])
        if one.active != (state == "retired")
        and (state not in ExpectationResult.State.values or state_of(one) == state)
        and words in f"{one.input} {one.text} {one.reason}".lower()
    ]
    if export_format(request):
        rows = key_rows(wanted, list)
        return list_export(request, EXPECTATIONS, rows, agent=agent, both=by.may(VIEW_SUBCONSCIOUS))
    page = Paginator(wanted, A_PAGE).get_page(request.GET.get("page"))
    totals = expectation_totals(found)
    shown_rows = [
        {
            **row,
            "checks": checks,
            "since": min((each.since for each in results), default=None),
            "failed": _number(checks, "failed"),
            "checked": CHECKS_SHOWN - _number(checks, ""),
            "turns": [
                (word, cause)
                for word, result in (("after", failed[0]), ("until", row["result"]))
                if (cause := _cause(result, agent, by)) and "words" in cause
            ]
            if failed and row["state"] == "passed"
            else [],
        }
        for row in _rows(agent, _with_results(agent, page), by)
        for checks in [_checks(agent.slug, row["one"])]
        for results in [_current(row["one"])]
        for failed in [[each for each in results if each.state == "failed"]]
    ]
    counts = {
        "": totals.total,
        "failed": totals.failed,
        "error": totals.errors,
        "passed": totals.passed,
        "retired": sum(not one.active for one in found),
    }
    shown = {
        "agent": agent,
        **LIST.context(request, page, search, bool(state or words), {"state": state} if state else None),
        "new_form": form,
        "totals": totals,
        "rows": shown_rows,
        "last": (last := max(filter(None, map(result_of, found)), key=lambda one: one.checked_at, default=None)),
        "after": _change_before(last, agent, by) if last else None,
        "narrows": True,
        "layouts": [
            {"label": label, "url": f"?state={key}" if key else "?", "active": key == state, "count": counts[key]}
            for key, label in STATES.items()
            # What is true of all or of none is no choice.
            if key in ("", state) or (counts[key] if key == "retired" else 0 < counts[key] < totals.total)
        ]
        if state or len({*map(state_of, found)}) > 1 or counts["retired"]
        else [],
        "state": state,
        "suggested": _suggested(agent, by, found) if by.may(ADD) and by.may(VIEW_RUN) else [],
        "may_add": by.may(ADD),
        "may_change": by.may(CHANGE),
        "may_retire": by.may(CHANGE) and state != "retired",
        "may_run": by.may(RUN),
    }
    return render(request, "context/expectations.html", shown, status=422 if form.errors else 200)


def _suggested(agent: Agent, by: Principal, found: Sequence[Expectation]) -> list[tuple[ContextRun, Fact | None, str]]:
    """Prompts about whose questions there is no expectation, or only one that was retired before them: those that
    failed in the last two weeks, and the latest ones whose answer took a side of a contradiction that was resolved
    since. Each with the fact that holds now, or that does not any more and a failed prompt had, and what may be
    demanded of it ("present fact <id>"); or else with one that is contested, of which nothing can be demanded before
    its review (`contest`) is resolved."""
    # Whoever may see a prompt may see the expectations of its persona.
    known = Expectation.objects.alias(asked=KT("request__input")).filter(
        Q(active=True) | Q(updated_at__gte=OuterRef("created_at")),
        agent=agent,
        persona=OuterRef("persona"),
        asked=OuterRef("input"),
    )
    runs = ContextRun.objects.visible_to(by).filter(~Exists(known), agent=agent, as_of=None)
    runs = runs.only("input", "created_at", "outcome", "outcome_note").order_by("-created_at")
    failed = runs.filter(outcome=FAILURE, created_at__gte=clock.now() - 2 * RECENT)[:FAILED_READ]
    # Of each question, the latest.
    latest = sorted({run.input: run for run in reversed(failed)}.values(), key=lambda run: run.created_at, reverse=True)
    rows: dict[str, tuple[ContextRun, Fact | None, str]] = {run.input: (run, None, "") for run in latest[:SUGGESTED]}
    if by.may("memory.view_memoryreview") and by.may("memory.view_fact"):
        reviews = visible_reviews(by).filter(agent=agent, kind=MemoryReview.Kind.CONTRADICTION)
        contests = reviews.filter(Q(old=OuterRef("pk")) | Q(new=OuterRef("pk")), MemoryReview.CONTESTING).values("pk")
        usages = MemoryUsage.objects.filter(agent=agent, run__in=latest[:SUGGESTED], item_type="fact")
        had = [*usages.values_list("item_id", flat=True)]
        facts = persona_memory(agent, by, Persona.ACTOR).facts.filter(pk__in=had).annotate(contest=contests[:1])
        doubted = facts.filter(Q(active=False) | Q(contest__isnull=False))
        decided = reviews.filter(resolution__in=ONE_HOLDS).select_related("old", "new").order_by("-resolved_at")
        demands = {
            str(old.pk): ("present", new)
            if (new := old.superseded_by) and new.active
            else ("" if old.active else "absent", old)
            for old in doubted.select_related("superseded_by")
        } | {
            str(side): ("present", fact)
            for review in decided[:SUGGESTED]
            for fact in [review.old if KEEPS[review.resolution] == ("old",) else review.new]
            if fact and fact.active
            for side in (review.old_id, review.new_id)
        }
        uses = {"usages__agent": agent, "usages__item_type": "fact", "usages__item_id__in": demands}
        taken = runs.filter(Q(usages__referenced=True) | Q(outcome=FAILURE), **uses).annotate(
            side=F("usages__item_id"), used=F("usages__referenced"), bad=Q(outcome=FAILURE)
        )
        # The latest one, but rather one that failed, and whose answer refers to it; of its facts, rather one of which
        # something can be demanded.
        told: Any = taken.order_by("side", "-bad", "-used", "-created_at").distinct("side")
        by_weight = sorted(told, key=lambda run: (run.bad, demands[run.side][0] > "", run.created_at, bool(run.used)))
        of_demand = {demands[run.side]: run for run in by_weight}
        rows |= {
            run.input: (run, fact, requirement and f"{requirement} fact {fact.pk}")
            for (requirement, fact), run in of_demand.items()
            if not any(
                one.item_id == str(fact.pk) and (one.active or one.updated_at >= run.created_at) for one in found
            )
        }
    return list(rows.values())


@page(methods=POST)
def agent_expectations_check(request: HttpRequest, by: Principal, slug: str) -> HttpResponse:
    """Check all of them now."""
    found = expectations_verify(agent=agent_get(slug, by), by=by)
    totals = expectation_totals(found)
    errors = f", {totals.errors} could not run" if totals.errors else ""
    message = f"Checked {totals.total}: {totals.passed} passed, {totals.failed} failed{errors}"
    (messages.success if totals.state == ExpectationResult.State.PASSED else messages.error)(request, f"{message}.")
    return redirect("agent_expectations", slug=slug)


@agent_page(methods=FORM)
def agent_expectation(request: HttpRequest, by: Principal, agent: Agent, pk: UUID) -> HttpResponse:
    """One expectation with the history of its checks; its forms edit, check, retire and restore it."""
    one = expectation_get(agent, by, pk)
    form = ExpectationForm(request.POST or None, subconscious=False, initial=expectation_values(one))
    if request.method == "POST":
        by.require(RUN if request.POST.get("action") == "check" else CHANGE)
        if message := _act(request.POST.get("action", ""), form, one, by):
            messages.success(request, message)
            # The menu of a row of the list leads back to it.
            return redirect("agent_expectations", agent.slug) if "list" in request.GET else redirect(one)
    results = list(one.results.order_by("-since", "-id")[:100])
    shown = {
        "agent": agent,
        "row": _rows(agent, [one], by)[0],
        "results": [(result, _cause(result, agent, by)) for result in results],
        "named": _named(VIEWS[one.persona](agent), results),
        "form": form,
        "made": "made" in request.GET and one.active,
        "may_change": by.may(CHANGE),
        "may_retire": by.may(CHANGE) and one.active,
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
    one: Expectation | None = None
    with refused_on(form, refusals=(Conflict, NotFound), **FIELDS):
        persona = form.cleaned_data.get("persona") or None
        demand = form.as_demand(partial(memories_named, agent, persona or Persona.ACTOR.value, by))
        one = expectation_create(agent=agent, by=by, persona=persona, **demand)
    return _checked(one, by) if one else None


def _demanded(request: HttpRequest, agent: Agent, by: Principal) -> Expectation:
    requirement, item_type, item_id = [*request.POST.get("demand", "").split(" ", 2), "", "", ""][:3]
    persona: str | None = None
    if run_id := request.POST.get("run", ""):
        run = run_get(agent, by, existing(uuid_of(run_id), "There is no such prompt."))
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
    with refused_on(form, refusals=(Conflict, NotFound), **FIELDS):
        if action == "check":
            result = result_of(_checked(one, by))
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
    if action not in ("edit", "restore"):
        raise Invalid("Unknown action.", field="action")
    return ""


def _rows(agent: Agent, found: Sequence[Expectation], by: Principal) -> list[dict[str, Any]]:
    """The expectations with their last results and the memories that they name, read by persona."""
    rows: dict[UUID, dict[str, Any]] = {}
    for persona in Persona.values:
        own = [one for one in found if one.persona == persona]
        view = VIEWS[persona](agent)
        targets = targets_load(view, own)
        named = _named(view, [result for one in own if (result := result_of(one))])
        for one in own:
            target = targets.get((one.item_type, one.item_id))
            result = result_of(one)
            rows[one.pk] = {
                "one": one,
                "result": result,
                "text": target.content if target else "",
                "url": memory_item_url(agent.slug, one.item_type, one.item_id) if target else "",
                "named": named,
                "cause": _cause(result, agent, by) if result else None,
                "state": state_of(one),
                "inspector_url": _inspector_url(agent.slug, one),
                # Where it is, if it is anywhere.
                "search_url": f"{reverse('agent_search', args=[agent.slug])}?{urlencode({'q': one.text})}"
                if one.text and one.requirement == "present" and state_of(one) == "failed"
                else "",
            }
    return [rows[one.pk] for one in found]


def _named(view: PersonaMemory, results: Iterable[ExpectationResult]) -> dict[str, tuple[str, str]]:
    """The memories that the reasons of results name: the text and the page of each, by how it is named; no text of
    one that was erased."""
    keys = {key for result in results for key in NAMED.findall(result.detail)}
    known = memories_named_load(view, keys)
    return {
        memory_name(key): (
            known[key].content[:SHOWN_CHARACTERS] if key in known else "",
            memory_item_url(view.agent.slug, *key),
        )
        for key in keys
    }


def _with_results(agent: Agent, found: Iterable[Expectation]) -> list[Expectation]:
    """The expectations, each with its `last_results`, the latest first."""
    rows, latest = list(found), ("-since", "-id")
    place = Window(RowNumber(), partition_by="expectation", order_by=latest)
    last = ExpectationResult.objects.filter(agent=agent).annotate(place=place).filter(place__lte=CHECKS_SHOWN)
    prefetch_related_objects(rows, Prefetch("results", last.order_by(*latest), to_attr="last_results"))
    return rows


def _number(checks: Iterable[dict[str, Any]], state: str) -> int:
    """How many of these checks have a state."""
    return sum(len(run["slots"]) for run in checks if run["state"] == state)


def _current(one: Expectation) -> list[ExpectationResult]:
    """Its last results, the latest first, without those of what it required before an edit."""
    return [each for each in one.last_results if each.revision == one.revision]  # type: ignore[attr-defined]


def _checks(slug: str, one: Expectation) -> list[dict[str, Any]]:
    """Its last checks as runs of one state, the latest at the end: the address of the prompt of the last one, as it was
    then, their state, and what each of them is told with (`slots`); before them an empty state for the checks that
    there are not."""
    runs, left = [], CHECKS_SHOWN
    for result in _current(one):
        if left:
            number = min(result.checks, left)
            left -= number
            state, since, at = result.get_state_display(), when(result.since), when(result.checked_at)
            kind = (result.cause or {}).get("kind")
            first = f"{state} {since}" + (f", after {kind_title(kind).lower()}" if kind else "")
            slots = [first, *[f"{state} between {since} and {at}"] * (result.checks - 2)]
            slots += [f"{state} {at}"] * (result.checks > 1)
            told = f"{state}, {result.checks} times to {at}"
            url = _inspector_url(slug, one, as_of=result.checked_at.isoformat())
            runs.append({"url": url, "state": result.state, "slots": slots[-number:], "told": told})
    return [{"state": "", "slots": ["No check"] * left}, *runs[::-1]]


def _change_before(result: ExpectationResult, agent: Agent, by: Principal) -> dict[str, Any] | None:
    """The last change before the last check of a result; None where it is no longer known."""
    position = result.positions.get(result.persona, 0)
    rows = Change.objects.filter(agent=result.agent_id, persona=result.persona, position__lte=position)
    change = rows.exclude(kind__in=IGNORED_KINDS).order_by("-position").first()
    return _told(change.kind, change.object_type, change.object_id, agent, by) if change else None


def _cause(result: ExpectationResult, agent: Agent, by: Principal) -> dict[str, Any] | None:
    """The change that led to a state: its description, page, author and time."""
    cause = result.cause
    if not cause:
        return None
    if not cause.get("kind"):
        return {"note": str(cause.get("note", ""))}
    return {
        **_told(str(cause["kind"]), str(cause["object_type"]), str(cause["object_id"]), agent, by),
        "by": author_words(str(cause.get("by", "")), str(cause.get("by_kind", ""))),
        "at": datetime.fromisoformat(cause["at"]),
    }


def _told(kind: str, object_type: str, object_id: str, agent: Agent, by: Principal) -> dict[str, str]:
    """A change: its kind in words, also as the `noun` and what `happened` to it, and the page and the name of its
    object, "" where that says no more."""
    words = kind_title(kind)
    noun, _, happened = words.lower().partition(" ")
    url = _page_of(object_type, object_id, agent)
    told = {"words": words, "noun": noun, "happened": happened, "url": url, "label": ""}
    if told["url"] or kind not in CHANGE_KINDS:
        return told
    personas = personas_of(by)
    changes = [
        Change(pk=place, kind=kind, object_type=object_type, object_id=object_id, persona=persona)
        for place, persona in enumerate(personas)
    ]
    links = change_links(agent, changes, personas).values()
    link = next((link for link in links if "url" in link), {"url": "", "label": ""})
    return told | {"url": link["url"], "label": Truncator(link["label"]).chars(NAME_CHARACTERS)}


def _page_of(object_type: str, object_id: str, agent: Agent) -> str:
    """The page of what has none of its own; "" for other objects."""
    pages = {
        "agent": ("agent_identity", [agent.slug]),
        "contextpin": ("agent_context_pins", [agent.slug]),
        "contextprofile": ("context_profile", [object_id]),
        "workingmemory": ("agent_working", [agent.slug]),
    }
    name, arguments = pages.get(object_type, ("", []))
    return reverse(name, args=arguments) if name and all(arguments) else ""


def _inspector_url(slug: str, one: Expectation, **more: str) -> str:
    """The prompt for its question in the inspector, also of the past (`as_of`), where the browser shows the words that
    it is about; "" where the question is too long for an address."""
    values = inspector_values(one)
    given = {name: values[name] for name in InspectorForm.base_fields if values.get(name)}
    query = urlencode({**given, **more, "tab": "prompt"})
    words = f"#:~:text={quote(one.text)}" if one.target == Expectation.Target.TEXT else ""
    return f"{reverse('agent_context', args=[slug])}?{query}{words}" if len(query) < MAX_QUERY else ""

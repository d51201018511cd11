"""Censors of an agent, and the bench on which texts are tested against them."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.text import Truncator
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from identity.models import Persona
from identity.selectors import agent_get
from memory.censoring.censor_matching import default_threshold, highlight_matches
from memory.models import Censor, CensorQuerySet
from memory.selectors.filters import CensorFilter
from memory.services.censors import censor_check, censor_create, censor_false_positive, censor_update
from nousweb.console.common.list_page import Action, Column, Title
from nousweb.console.common.view_helpers import form_refuse, principal_of
from nousweb.console.memory.forms import BenchForm, CensorEditForm, CensorForm, RemarkForm
from nousweb.console.memory.memory_list import MemoryList, memory_list
from nousweb.console.memory.page_context import base_context, memory_context
from nousweb.console.memory.persona_scope import persona_scope
from nousweb.lib.errors import Conflict, Invalid, NotAllowed

VIEW = "memory.view_censor"
SEVERITY_KINDS = {"warn": "warn", "block": "block", "absolute": "block"}
VERDICTS = {
    "allow": ("ok", "No censor triggers.", "The text would pass."),
    "warn": ("warn", "Would warn.", "The text would pass, and the agent would be warned."),
    "block": ("block", "Would block.", "The text would be blocked."),
}
# A longer address is refused by servers on the way.
MAX_ADDRESS_CHARACTERS = 2_000


agent_censors = memory_list(
    MemoryList(
        title="Censors",
        noun="censor",
        about="texts that trigger a warning or a block",
        empty="A censor warns about a text or blocks it. Agents create censors from failures; people add rules that"
        " must never be broken.",
        numbered=True,
        model=Censor,
        filter=CensorFilter,
        narrow=CensorQuerySet.strictest_first,
        actions=(
            Action("Test bench", "agent_censor_bench", "try", VIEW),
            Action("Add censor", "agent_censor_add", "new", "memory.add_censor"),
        ),
        row=Title(
            lambda censor: Truncator(censor.pattern).chars(160),
            lambda censor: [("neutral", "by meaning")] if censor.match == Censor.Match.SEMANTIC else [],
            detail="reason",
            is_code=lambda censor: censor.match == Censor.Match.REGEX,
        ),
        columns=(
            Column("Severity", look="memory/_severity_badge.html"),
            Column("Domain", "domain", empty="everywhere"),
            Column("Triggered", "activation_count", "times"),
            Column("False positives", "false_positive_count", "count"),
            Column("Last", "last_activated_at", "time"),
            Column("By", "author_name"),
            Column("State", look="memory/_censor_state.html"),
        ),
    )
)
"""The censors, strictest first."""


@require_safe
def agent_censor(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """One censor: its pattern, and how often it was right."""
    scope = persona_scope(request, slug, VIEW)
    censor: Censor = scope.row(scope.memory.censors, pk, "censor")
    context = memory_context(
        request,
        scope,
        censor,
        may_change=scope.by.may("memory.change_censor"),
        false_share=_false_share(censor),
        remark=RemarkForm(),
    )
    return render(request, "memory/censor.html", context)


def _false_share(censor: Censor) -> int | None:
    """Percent of activations that a person found mistaken."""
    if not censor.activation_count:
        return None
    return min(100, round(100 * censor.false_positive_count / censor.activation_count))


@require_http_methods(["GET", "HEAD", "POST"])
def agent_censor_add(request: HttpRequest, slug: str) -> HttpResponse:
    """Make a censor."""
    by = principal_of(request)
    by.require("memory.add_censor")
    agent = agent_get(slug, by)
    form = CensorForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        fields: dict[str, Any] = {**form.cleaned_data}
        if fields["match"] != Censor.Match.SEMANTIC:
            # The field stands for a meaning only; a pattern that leaves it filled means nothing by it.
            fields["similarity_threshold"] = None
        try:
            censor = censor_create(agent=agent, by=by, **fields)
        except Invalid as error:
            form_refuse(form, error)
        except (Conflict, NotAllowed) as error:
            form.add_error(None, error.detail)
        else:
            messages.success(request, "The censor was created and is in force.")
            return redirect("agent_censor", slug=slug, pk=censor.pk)
    context = {"agent": agent, "form": form, "default_threshold": default_threshold()}
    return render(request, "memory/censor_add.html", context, status=422 if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def agent_censor_edit(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """Change a censor, retire it or bring it back."""
    scope = persona_scope(request, slug, VIEW)
    scope.by.require("memory.change_censor")
    censor: Censor = scope.row(scope.memory.censors.select_related("agent"), pk, "censor")
    initial = {name: getattr(censor, name) for name in CensorEditForm.base_fields if name != "message"}
    form = CensorEditForm(request.POST if request.method == "POST" else None, initial=initial)
    if censor.match != Censor.Match.SEMANTIC:
        del form.fields["similarity_threshold"]
    if request.method == "POST" and form.is_valid():
        try:
            censor_update(censor=censor, by=scope.by, **form.cleaned_data)
        except Invalid as error:
            form_refuse(form, error)
        except NotAllowed as error:
            form.add_error(None, error.detail)
        else:
            messages.success(request, "The censor was saved.")
            return redirect(reverse("agent_censor", args=[slug, pk]) + scope.suffix)
    context = base_context(request, scope, censor=censor, form=form)
    return render(request, "memory/censor_edit.html", context, status=422 if form.errors else 200)


@require_POST
def agent_censor_false_positive(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """Count that a match was mistaken."""
    scope = persona_scope(request, slug, VIEW)
    scope.by.require("memory.change_censor")
    censor: Censor = scope.row(scope.memory.censors.select_related("agent"), pk, "censor")
    form = RemarkForm(request.POST)
    if form.is_valid():
        censor_false_positive(censor=censor, by=scope.by, message=form.cleaned_data["reason"])
        messages.success(request, "The false positive was recorded.")
    else:
        messages.error(request, "The remark is too long. Nothing was recorded.")
    return redirect(reverse("agent_censor", args=[slug, pk]) + scope.suffix)


@require_http_methods(["GET", "HEAD", "POST"])
def agent_censor_bench(request: HttpRequest, slug: str) -> HttpResponse:
    """Try a text against the actor's censors. Counts nothing, so it may be tried as often as one likes."""
    by = principal_of(request)
    by.require(VIEW)
    agent = agent_get(slug, by)
    fields = request.POST if request.method == "POST" else request.GET
    form = BenchForm(fields if "text" in fields else None)
    context: dict[str, Any] = {"agent": agent, "form": form, "persona": Persona.ACTOR}
    if form.is_bound and form.is_valid():
        text = form.cleaned_data["text"]
        try:
            outcome, censors = censor_check(
                text=text, agent=agent, by=by, count=False, domain=form.cleaned_data["domain"]
            )
        except Invalid as error:
            form_refuse(form, error)
        else:
            context["bench"] = {
                "outcome": outcome,
                "verdict": VERDICTS[outcome.verdict],
                "tried": len(censors),
                "marks": highlight_matches(text, outcome.matches),
                "matches": [
                    (number, match, censors[match.rule.id], SEVERITY_KINDS[match.rule.severity])
                    for number, match in enumerate(outcome.matches, 1)
                ],
                "missed": [(missed, censors[missed.rule.id]) for missed in outcome.timed_out],
                "may_report": by.may("memory.change_censor"),
            }
    status = 422 if form.errors else 200
    if request.htmx:  # type: ignore[attr-defined]
        response = render(request, "memory/_bench_result.html", context, status=status)
        query = urlencode({name: fields.get(name, "") for name in ("text", "domain")})
        address = f"{reverse('agent_censor_bench', args=[slug])}?{query}"
        response["HX-Push-Url"] = address if len(address) <= MAX_ADDRESS_CHARACTERS else "false"
        return response
    return render(request, "memory/censor_bench.html", context, status=status)

"""Censors of an agent, and the bench on which texts are tested against them."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.text import Truncator

from identity.models import Agent, Persona
from identity.principal import Principal
from memory.censoring.censor_matching import default_threshold, highlight_matches
from memory.models import Censor, CensorQuerySet
from memory.selectors.filters import CensorFilter
from memory.services.censors import censor_check, censor_create, censor_false_positive, censor_update
from nousweb.console.common import (
    FORM,
    POST,
    Action,
    Column,
    Title,
    act,
    agent_page,
    author_words,
    form_page,
    form_refuse,
)
from nousweb.console.memory.forms import BenchForm, CensorEditForm, CensorForm, RemarkForm
from nousweb.console.memory.page_context import (
    MemoryList,
    PersonaScope,
    base_context,
    memory_context,
    memory_list,
    memory_page,
)
from nousweb.lib.errors import Conflict, Invalid, NotAllowed

VIEW, CHANGE = "memory.view_censor", "memory.change_censor"
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
        about="Texts that trigger a warning or a block.",
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
            lambda censor: censor.reason or Truncator(censor.pattern).chars(160),
            lambda censor: [("neutral", "by meaning")] if censor.match == Censor.Match.SEMANTIC else [],
            detail=lambda censor: censor.pattern if censor.reason else "",
            has_code=lambda censor: censor.match == Censor.Match.REGEX,
            is_code=lambda censor: not censor.reason and censor.match == Censor.Match.REGEX,
        ),
        columns=(
            Column("Severity", look="memory/_severity_badge.html"),
            Column("Domain", "domain", empty="everywhere"),
            Column("Triggered", "activation_count", "times"),
            Column(
                "False positives",
                "false_positive_count",
                "count",
                is_usual=lambda censor: not censor.false_positive_count,
            ),
            Column("By", lambda row: author_words(row)),
            Column("State", lambda censor: "retired", is_usual=lambda censor: censor.active),
            Column("Last triggered", "last_activated_at", "time", is_last=True),
        ),
    )
)
"""The censors, strictest first."""


@memory_page(VIEW, of=Censor, past=True)
def agent_censor(request: HttpRequest, scope: PersonaScope, censor: Censor) -> HttpResponse:
    """One censor: its pattern, and how often it was right."""
    count = censor.activation_count
    context = memory_context(
        request,
        scope,
        censor,
        may_change=scope.by.may(CHANGE),
        # Percent of activations that a person found mistaken.
        false_share=min(100, round(100 * censor.false_positive_count / count)) if count else None,
        remark=RemarkForm(),
    )
    return render(request, "memory/censor.html", context)


@agent_page("memory.add_censor", methods=FORM)
def agent_censor_add(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Make a censor."""

    def create(fields: dict[str, Any]) -> Censor:
        if fields["match"] != Censor.Match.SEMANTIC:
            # The field stands for a meaning only; a pattern that leaves it filled means nothing by it.
            fields["similarity_threshold"] = None
        return censor_create(agent=agent, by=by, **fields)

    return form_page(
        request,
        "memory/censor_add.html",
        CensorForm(request.POST or None),
        create,
        done="The censor was created and is in force.",
        back=lambda censor: reverse("agent_censor", args=[agent.slug, censor.pk]),
        context={"agent": agent, "default_threshold": default_threshold()},
        refusals=(Conflict, NotAllowed),
    )


@memory_page(VIEW, CHANGE, of=Censor, methods=FORM)
def agent_censor_edit(request: HttpRequest, scope: PersonaScope, censor: Censor) -> HttpResponse:
    """Change a censor, retire it or bring it back."""
    initial = {name: getattr(censor, name) for name in CensorEditForm.base_fields if name != "message"}
    form = CensorEditForm(request.POST if request.method == "POST" else None, initial=initial)
    if censor.match != Censor.Match.SEMANTIC:
        del form.fields["similarity_threshold"]
    return form_page(
        request,
        "memory/censor_edit.html",
        form,
        lambda fields: censor_update(censor=censor, by=scope.by, **fields),
        done="The censor was saved.",
        back=scope.url,
        context=base_context(request, scope, censor=censor),
        refusals=(Conflict, NotAllowed),
    )


@memory_page(VIEW, CHANGE, of=Censor, methods=POST)
def agent_censor_false_positive(request: HttpRequest, scope: PersonaScope, censor: Censor) -> HttpResponse:
    """Count that a match was mistaken."""
    form = RemarkForm(request.POST)

    def report() -> None:
        if not form.is_valid():
            raise Invalid("The remark is too long. Nothing was recorded.")
        censor_false_positive(censor=censor, by=scope.by, message=form.cleaned_data["reason"])

    return act(request, report, scope.url(censor), "The false positive was recorded.")


@agent_page(VIEW, methods=FORM)
def agent_censor_bench(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Try a text against the actor's censors. Counts nothing, so it may be tried as often as one likes."""
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
                "may_report": by.may(CHANGE),
            }
    status = 422 if form.errors else 200
    if request.htmx:  # type: ignore[attr-defined]
        response = render(request, "memory/_bench_result.html", context, status=status)
        query = urlencode({name: fields.get(name, "") for name in ("text", "domain")})
        address = f"{reverse('agent_censor_bench', args=[agent.slug])}?{query}"
        response["HX-Push-Url"] = address if len(address) <= MAX_ADDRESS_CHARACTERS else "false"
        return response
    return render(request, "memory/censor_bench.html", context, status=status)

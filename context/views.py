"""The console's home, and its pages about what agents are told."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_safe

from context.budget import ContextBudget
from context.models import ContextRun
from context.request import MAX_INPUT_CHARACTERS, ContextRequest
from context.selectors import Overview, overview, worker_health
from context.services.context import ContextResult, context_assemble
from identity.selectors import agent_get
from identity.services.proposals import REVIEW
from identity.web import form_refuse, principal_of
from nousweb.lib.charts import Segment, stacked_bar
from nousweb.lib.errors import Invalid, NotFound

ASSEMBLE = "context.assemble_context"
VIEW_RUN = "context.view_contextrun"
RUNS_SHOWN = 20
# A longer address is refused by servers on the way.
MAX_ADDRESS_CHARACTERS = 2_000


class PreviewForm(forms.Form):
    input = forms.CharField(
        max_length=MAX_INPUT_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 4, "placeholder": "What a person or another agent says to it"}),
        label="Input",
    )
    session = forms.CharField(max_length=200, required=False, initial="preview", label="Session")


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """What waits, what changed, how the agents are."""
    by = principal_of(request)
    shown: Overview = overview(by)
    return render(
        request,
        "context/home.html",
        {"overview": shown, "worker": worker_health(), "may_review": by.may(REVIEW)},
    )


@require_http_methods(["GET", "HEAD", "POST"])
def agent_context(request: HttpRequest, slug: str) -> HttpResponse:
    """What the agent would be told now. Leaves no trace, so it may be tried as often as one likes."""
    by = principal_of(request)
    by.require(ASSEMBLE)
    agent = agent_get(slug)
    given = request.POST if request.method == "POST" else request.GET
    form = PreviewForm(given if "input" in given else None, initial={"session": "preview"})
    result: ContextResult | None = None
    if form.is_bound and form.is_valid():
        try:
            result = context_assemble(
                agent=agent,
                request=ContextRequest(form.cleaned_data["session"] or "preview", form.cleaned_data["input"]),
                by=by,
                log=False,
            )
        except Invalid as error:
            form_refuse(form, error)
    shown: dict[str, Any] = {"agent": agent, "form": form, "result": result}
    if result:
        assembly = result.prepared.assembly
        shown |= _prompt_parts(assembly.tokens, result.sections)
        shown["prompt"] = assembly.system_prompt
    if request.htmx:  # type: ignore[attr-defined]
        response = render(request, "context/_preview_result.html", shown)
        query = urlencode({name: given.get(name, "") for name in ("input", "session")})
        address = f"{reverse('agent_context', args=[slug])}?{query}"
        response["HX-Push-Url"] = address if len(address) <= MAX_ADDRESS_CHARACTERS else "false"
        return response
    shown["may_see_runs"] = by.may(VIEW_RUN)
    if shown["may_see_runs"]:
        shown["runs"] = (
            ContextRun.objects.filter(agent=agent)
            .only("id", "persona", "session_id", "tokens", "duration_ms", "principal_name", "created_at", "agent")
            .annotate(beginning=Left("input", 160))[:RUNS_SHOWN]
        )
    return render(request, "context/preview.html", shown)


@require_safe
def agent_context_run(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """What was sent in one logged run, as it was."""
    by = principal_of(request)
    by.require(VIEW_RUN)
    agent = agent_get(slug)
    run = ContextRun.objects.filter(agent=agent, pk=pk).first()
    if run is None:
        raise NotFound("There is no such run. Runs are deleted when their retention ends.")
    return render(
        request,
        "context/run.html",
        {
            "agent": agent,
            "run": run,
            "again": urlencode({"input": run.input[:MAX_ADDRESS_CHARACTERS], "session": run.session_id}),
            "prompt": run.system_prompt,
            **_prompt_parts(run.tokens, run.sections),
        },
    )


def _prompt_parts(tokens: int, sections: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The token bar and the table beside it."""
    total = ContextBudget().total
    segments: list[Segment] = stacked_bar(
        [(section["label"], section["tokens"], f"seg-{place % 8 + 1}") for place, section in enumerate(sections)],
        width=1000,
        height=12,
        capacity=total,
    )
    return {
        "segments": segments,
        "rows": [
            {
                "label": section["label"],
                "tier": section["tier"],
                "tokens": section["tokens"],
                "truncated": section["truncated"],
                # Not "items": a template would find the dict's own method.
                "shown": section["items"],
                "items_shown": len(section["items"]),
                "share": round(100 * section["tokens"] / total),
                "segment": segment,
            }
            for section, segment in zip(sections, segments, strict=True)
        ],
        "tokens": tokens,
        "budget": total,
        "share": round(100 * tokens / total),
    }

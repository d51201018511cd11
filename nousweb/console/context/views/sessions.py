"""The runs of one session in the order of time: inputs, prompts, and changes from one to the next."""

from dataclasses import dataclass

from django.db.models.functions import Left, Length
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from context.history.session_runs import PromptStep, prompt_step, session_place
from context.models import ASSEMBLE, VIEW_RUN, ContextRun
from identity.selectors import agent_get
from nousweb.console.common.pagination import query_without, request_page
from nousweb.console.common.view_helpers import principal_of
from nousweb.lib.errors import NotFound

RUNS_PER_PAGE = 20
"""Each is read with all of its prompt, which is long."""
COLUMNS = (
    "id", "agent_id", "persona", "session_id", "created_at", "sections", "tokens", "counted_tokens", "counted_by",
    "frame", "outcome", "outcome_note", "responded_at", "duration_ms", "principal_name", "as_of", "censors",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One run, the run before it in the session, and how its prompt differs from that one's."""

    run: ContextRun
    previous: ContextRun | None
    step: PromptStep | None


@require_safe
def agent_context_session(request: HttpRequest, slug: str) -> HttpResponse:
    """The timeline of the session that ?session= names. Raises NotFound where none of its runs is kept."""
    by = principal_of(request)
    by.require(VIEW_RUN)
    agent = agent_get(slug, by)
    session = request.GET.get("session", "")
    if not session:
        return redirect("agent_context_runs", slug=slug)
    runs = ContextRun.objects.visible_to(by).filter(agent=agent, session_id=session)
    # Prompts of one persona are no steps of the other's.
    personas = list(runs.order_by("persona").values_list("persona", flat=True).distinct())
    if not personas:
        raise NotFound("This session has no runs. Runs are deleted when their retention ends.")
    persona = request.GET.get("persona", "")
    persona = persona if persona in personas else personas[0]
    runs = runs.filter(persona=persona).only(*COLUMNS)
    runs = runs.annotate(beginning=Left("input", 400), answer=Left("response", 400), answer_length=Length("response"))
    page = request_page(request, runs, "created_at", latest_first=False, size=RUNS_PER_PAGE)
    first = session_place(page.rows[0], by).previous if page.rows else None
    rows = []
    for previous, run in zip([first, *page.rows], page.rows, strict=False):
        rows.append(TimelineRow(run, previous, prompt_step(previous, run) if previous else None))
    return render(
        request,
        "context/session.html",
        {
            "agent": agent,
            "session": session,
            "rows": rows,
            "page": page,
            "persona": persona,
            "personas": personas,
            "query": query_without(request),
            "may_assemble": by.may(ASSEMBLE),
        },
    )

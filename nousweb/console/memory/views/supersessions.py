"""The list of supersessions of an agent's facts, and undoing one."""

from datetime import UTC, datetime, timedelta

from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from memory.models import FactChange
from memory.services.reviews.states import REVIEW
from memory.services.reviews.undo import supersession_undo
from nousweb.console.common.pagination import query_without, request_page
from nousweb.console.memory.persona_scope import persona_scope
from nousweb.lib.errors import DomainError, NotFound
from nousweb.lib.textdiff import diff_texts

WAYS = {"": "Anybody", "judge": "By the judge", "rule": "By the rules", "person": "By a person"}


@require_safe
def agent_supersessions(request: HttpRequest, slug: str) -> HttpResponse:
    """Every fact that took another one's place, latest first."""
    scope = persona_scope(request, slug, "memory.view_factchange")
    changes = FactChange.objects.filter(action=FactChange.Action.SUPERSEDED, fact__in=scope.memory.facts)
    fields = {
        name: request.GET.get(name, "").replace("\x00", "")[:200] for name in ("subject", "way", "since", "until")
    }
    if fields["subject"]:
        changes = changes.filter(Q(fact__subject__icontains=fields["subject"]))
    by_judge = Q(evidence__has_key="judge")
    if fields["way"] == "judge":
        changes = changes.filter(by_judge)
    elif fields["way"] == "person":
        changes = changes.filter(author_kind="person")
    elif fields["way"] == "rule":
        changes = changes.exclude(author_kind="person").exclude(by_judge)
    if since := _day(fields["since"]):
        changes = changes.filter(at__gte=since)
    if until := _day(fields["until"]):
        changes = changes.filter(at__lt=until + timedelta(days=1))
    page = request_page(request, changes.select_related("fact", "other__source_event"), "at")
    rows = [
        (change, diff_texts(change.fact.content, change.other.content if change.other else ""), _undoable(change))
        for change in page.rows
    ]
    return render(
        request,
        "memory/supersessions.html",
        {
            "agent": scope.agent,
            "shown": scope,
            "rows": rows,
            "page": page,
            "query": query_without(request),
            "given": fields,
            "ways": WAYS.items(),
            "is_filtered": any(fields.values()),
            "may_undo": scope.by.may(REVIEW),
        },
    )


@require_POST
def agent_supersession_undo(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Let a superseded fact hold again, as a new change."""
    scope = persona_scope(request, slug, REVIEW)
    changes = FactChange.objects.filter(action=FactChange.Action.SUPERSEDED, fact__in=scope.memory.facts)
    change = scope.row(changes.select_related("fact__agent"), pk, "supersession")
    try:
        if not _undoable(change):
            raise NotFound("This supersession has been undone already.")
        supersession_undo(fact=change.fact, by=scope.by, reason=request.POST.get("reason", ""))
        messages.success(request, "The old fact was restored. Both facts are active now.")
    except DomainError as error:
        messages.error(request, error.detail)
    return redirect(f"{reverse('agent_supersessions', args=[slug])}?{query_without(request)}")


def _undoable(change: FactChange) -> bool:
    return not change.fact.active and change.fact.superseded_by_id == change.other_id


def _day(raw: str) -> datetime | None:
    try:
        return datetime.strptime(raw, "%Y-%m-%d").replace(tzinfo=UTC) if raw else None
    except ValueError:
        return None

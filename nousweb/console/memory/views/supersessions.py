"""The list of supersessions of an agent's facts, and undoing one."""

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from memory.models import FactChange
from memory.selectors.filters import SupersessionFilter
from memory.services.reviews.states import REVIEW
from memory.services.reviews.undo import supersession_undo
from nousweb.console.common.pagination import query_without
from nousweb.console.memory.memory_list import MemoryList, memory_list
from nousweb.console.memory.persona_scope import PersonaScope, persona_scope
from nousweb.lib.errors import DomainError, NotFound
from nousweb.lib.textdiff import diff_texts


def _superseded(scope: PersonaScope) -> QuerySet[FactChange]:
    return FactChange.objects.filter(action=FactChange.Action.SUPERSEDED, fact__in=scope.memory.facts)


agent_supersessions = memory_list(
    MemoryList(
        title="Supersessions",
        noun="supersession",
        empty="Supersessions appear here when a rule, the judge or a person replaces an older fact with a newer one.",
        moment="at",
        is_exported=False,
        template="memory/supersessions.html",
        model=FactChange,
        filter=SupersessionFilter,
        select=_superseded,
        narrow=lambda changes: changes.select_related("fact", "other__source_event"),
        more=lambda request, scope, rows: {
            "rows": [
                (
                    change,
                    diff_texts(change.fact.content, change.other.content if change.other else ""),
                    _undoable(change),
                )
                for change in rows
            ],
            "may_undo": scope.by.may(REVIEW),
        },
    )
)
"""Every fact that took another one's place, latest first."""


@require_POST
def agent_supersession_undo(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Let a superseded fact hold again, as a new change."""
    scope = persona_scope(request, slug, REVIEW)
    change = scope.row(_superseded(scope).select_related("fact__agent"), pk, "supersession")
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

"""Bulk changes of facts from the lists of memory health."""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse

from context.feedback.health_findings import FINDINGS
from context.models import VIEW_RUN
from memory.models import Fact
from nousweb.console.common import MAX_SELECTED, POST, attempt_each, tell_each, uuids_of
from nousweb.console.memory.page_context import PersonaScope, memory_page
from nousweb.console.memory.views.fact_changes import FACT_ACTIONS
from nousweb.lib.errors import NotFound

DONE = {"confirm": "Confirmed", "invalidate": "Marked as wrong", "restore": "Restored"}
"""By action: the confirmation for many facts; only facts marked as wrong can be restored from here."""


@memory_page("memory.view_fact", VIEW_RUN, methods=POST)
def agent_health_bulk(request: HttpRequest, scope: PersonaScope, finding: str) -> HttpResponse:
    """Confirm the selected facts, mark them as wrong, or restore them; each that refuses is named and stops none."""
    fields = request.GET.copy()
    fields.update(request.POST)
    action = fields.get("action", "")
    if finding not in FINDINGS or action not in DONE:
        raise NotFound("Unknown list or action.")
    what = FACT_ACTIONS[action]
    scope.by.require(what.permission, scope.agent)
    reason = {"reason": fields.get("reason", "")}
    done, refused = attempt_each(
        _selected(scope, fields), lambda fact: what.run(fact, scope.by, reason), lambda fact: f"“{fact}”"
    )
    offers_undo = done and action == "invalidate"
    said = [f"{DONE[action]}: {_facts(len(done))}."] if done and not offers_undo else []
    tell_each(request, said, refused, "" if done else "Nothing was selected.")
    page = reverse("agent_health_list", args=[scope.agent.slug, finding]) + scope.suffix
    if offers_undo:
        query = urlencode([("done", fact.pk) for fact in done])
        return redirect(f"{page}{'&' if scope.suffix else '?'}{query}")
    return redirect(page)


def invalidation_undo_offer(request: HttpRequest, scope: PersonaScope, finding: str) -> dict[str, Any] | None:
    """The facts just marked as wrong, from the address, and the address to undo that."""
    keys = uuids_of(request.GET.getlist("done")[:MAX_SELECTED])
    wrong = [fact.pk for fact in scope.memory.facts.filter(pk__in=keys, invalidated_at__isnull=False)] if keys else []
    if not wrong:
        return None
    query = [("action", "restore"), *(("fact", key) for key in wrong)]
    query += [("persona", "subconscious")] if scope.both else []
    may = scope.by.may(FACT_ACTIONS["restore"].permission)
    url = f"{reverse('agent_health_bulk', args=[scope.agent.slug, finding])}?{urlencode(query)}"
    word = f"{DONE['invalidate']}:"
    return {"word": word, "what": _facts(len(wrong)), "url": url if may else "", "many": len(wrong) > 1}


def _selected(scope: PersonaScope, fields: QueryDict) -> list[Fact]:
    keys = uuids_of(fields.getlist("fact")[:MAX_SELECTED])
    return list(scope.memory.facts.filter(pk__in=keys).select_related("agent").order_by("recorded_at", "pk"))


def _facts(number: int) -> str:
    return f"{number} fact{'' if number == 1 else 's'}"

"""Integrity: whether the log matches its seals, the unsealed rows, and the seals themselves."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render

from identity.models import LogHole, LogSeal, LogVerification
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.policy.sealed_tables import SEALED_TABLES, VIEW
from identity.principal import Principal
from identity.services.seals.export import (
    findings_seen,
    log_problem,
    seal_export,
    sealed_until,
    sees_all,
    unsealed_rows_count,
)
from identity.services.seals.sealer import HASHED
from identity.services.seals.verification import verification_request
from nousweb.console.common import (
    PAGE_SIZE,
    POST,
    ExportRows,
    ListExport,
    act,
    export_format,
    list_export,
    page,
    query_without,
)
from nousweb.lib.keyset_page import keyset_page

NAMES = (*HASHED, "hash")
SEALS = ListExport("Seals", tuple((name, partial(lambda name, row: seal_export(row)[name], name)) for name in NAMES))
BATCH = 500
MAX_HOLES = 20
STATUS_BADGES = {"waiting": "neutral", "running": "accent", "done": "ok", "failed": "block"}


@page(VIEW, fresh=True)
def integrity(request: HttpRequest, by: Principal) -> HttpResponseBase:
    """The findings of the last verification, unsealed rows, tombstones with their receipts, and the seals, latest
    first."""
    seals = LogSeal.objects.visible_to(by)
    if export_format(request):
        rows = ExportRows(seals.count(), False, _batches(seals))
        return list_export(request, SEALS, rows, both=by.may(VIEW_SUBCONSCIOUS))
    found = seals.annotate(hole_count=Count("holes"))
    page = keyset_page(
        found,
        moment="sealed_at",
        size=PAGE_SIZE,
        key="serial",
        after=request.GET.get("after", ""),
        before=request.GET.get("before", ""),
    )
    holes = LogHole.objects.filter(seal__in=seals).select_related("seal")
    context = {
        "page": page,
        "rows": [(seal, label_of(seal.kind)) for seal in page.rows],
        "query": query_without(request),
        "unsealed": unsealed_rows_count(by),
        "until": sealed_until(),
        "hole_count": holes.count(),
        "holes": [(hole, label_of(hole.seal.kind)) for hole in holes[:MAX_HOLES]],
        "problem": log_problem() if sees_all(by) else "",
        "state": _state(by),
    }
    return render(request, "identity/integrity.html", context)


@page(VIEW, fresh=True)
def integrity_state(request: HttpRequest, by: Principal) -> HttpResponse:
    """The part of the page that changes while the worker checks."""
    return render(request, "identity/_integrity_state.html", {"state": _state(by)})


@page(methods=POST)
def integrity_verify(request: HttpRequest, by: Principal) -> HttpResponse:
    """Ask for a verification, which the worker makes."""
    done = "The verification starts in the background within a minute."
    return act(request, lambda: verification_request(by=by), "integrity", done)


def label_of(kind: str) -> str:
    """The label of a kind of sealed rows."""
    table = SEALED_TABLES.get(kind)
    return table.label if table else kind


def _state(by: Principal) -> dict[str, Any]:
    last = LogVerification.objects.first()
    if last is None:
        return {"verification": None, "may_verify": by.agents is None}
    findings = findings_seen(last, by)
    is_working = last.status in (LogVerification.Status.WAITING, LogVerification.Status.RUNNING)
    problems = last.problems if sees_all(by) else len(findings)
    return {
        "verification": last,
        "badge": "block" if problems else STATUS_BADGES[last.status],
        "findings": findings,
        "problems": problems,
        "is_working": is_working,
        "percent": min(100, round(100 * last.serial / last.last_serial)) if last.last_serial else 0,
        "shows_counts": sees_all(by),
        "may_verify": by.agents is None and not is_working,
    }


def _batches(seals: QuerySet[LogSeal]) -> Iterator[Sequence[LogSeal]]:
    """The seals, the first one first, as a file that is kept outside has them."""
    last = 0
    while found := list(seals.filter(serial__gt=last).order_by("serial")[:BATCH]):
        yield found
        last = found[-1].serial

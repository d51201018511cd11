"""Exporting an agent as a file: start, progress, stop, download."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.selectors import agent_get
from memory.models import ExportRun
from memory.transfer.export_runs import expires_at, export_discard, export_file, export_start, export_stop
from memory.transfer.import_runs import IMPORT
from nousweb.console.common.view_helpers import change_and_tell, principal_of
from nousweb.lib.errors import Conflict, Invalid, NotFound

LATEST = 10
STATUS_KINDS = {"running": "accent", "done": "ok", "stopped": "warn", "failed": "block", "deleted": "neutral"}


class ExportForm(forms.Form):
    """The memory to export, and whether to include the audit trail."""

    persona = forms.ChoiceField(
        required=False,
        choices=[("", "Both"), (Persona.ACTOR, "Without the memory of the subconscious")],
        label="Whose memory",
    )
    with_audit = forms.BooleanField(required=False, label="With its audit trail")


@dataclass(frozen=True, slots=True)
class ExportPage:
    """The page of an export; `percent` is an estimate."""

    run: ExportRun
    expires_at: datetime

    @property
    def is_working(self) -> bool:
        return self.run.status == ExportRun.Status.RUNNING

    @property
    def has_file(self) -> bool:
        return self.run.status == ExportRun.Status.DONE

    @property
    def percent(self) -> int:
        return min(99, 100 * self.run.lines // max(self.run.expected, 1))

    @property
    def status_kind(self) -> str:
        return STATUS_KINDS[self.run.status]


def export_page(run: ExportRun) -> ExportPage:
    """An export as its page shows it."""
    return ExportPage(run, expires_at(run))


def latest_exports(agent: Agent) -> list[ExportRun]:
    """The latest exports of an agent."""
    return list(ExportRun.objects.filter(agent=agent)[:LATEST])


CHANGES = {
    "stop": (export_stop, "The export stops."),
    "discard": (export_discard, "The file was deleted."),
}


@require_POST
def agent_exports(request: HttpRequest, slug: str) -> HttpResponse:
    """Start an export."""
    by, agent = _asked(request, slug)
    form = ExportForm(request.POST)
    try:
        if not form.is_valid():
            raise Invalid("persona must be actor, or empty for both.", field="persona")
        run = export_start(agent=agent, by=by, **form.cleaned_data)
    except (Conflict, Invalid) as error:
        messages.error(request, error.detail)
        return redirect("agent_imports", slug)
    return redirect(run)


@never_cache
@require_safe
def agent_export(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """One export: how far it is, and its file."""
    run = _run(request, slug, pk)
    return render(request, "memory/export.html", {"agent": run.agent, "run": run, "shown": export_page(run)})


@never_cache
@require_safe
def agent_export_state(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """The part of the page that changes while the worker works."""
    run = _run(request, slug, pk)
    return render(request, "memory/_export_state.html", {"run": run, "shown": export_page(run)})


@never_cache
@require_safe
def agent_export_file(request: HttpRequest, slug: str, pk: UUID) -> HttpResponseBase:
    """The file, as JSON Lines."""
    run = _run(request, slug, pk)
    try:
        path = export_file(run=run, by=principal_of(request))
        name = f"{slug}-{run.created_at:%Y-%m-%d}.jsonl"
        return FileResponse(path.open("rb"), as_attachment=True, filename=name, content_type="application/jsonl")
    except (Conflict, FileNotFoundError) as error:
        messages.error(request, str(getattr(error, "detail", "The file of this export no longer exists.")))
        return redirect(run)


@require_POST
def agent_export_change(request: HttpRequest, slug: str, pk: UUID, change: str) -> HttpResponse:
    """Stop an export, or delete its file."""
    run = _run(request, slug, pk)
    if change not in CHANGES:
        raise NotFound("Unknown action.")
    service, said = CHANGES[change]
    change_and_tell(request, lambda: service(run=run, by=principal_of(request)), said)
    return redirect(run)


def _asked(request: HttpRequest, slug: str) -> tuple[Principal, Agent]:
    by = principal_of(request)
    by.require(IMPORT)
    by.require(VIEW_SUBCONSCIOUS)
    return by, agent_get(slug, by)


def _run(request: HttpRequest, slug: str, pk: UUID) -> ExportRun:
    _, agent = _asked(request, slug)
    run = ExportRun.objects.filter(agent=agent, pk=pk).select_related("agent").first()
    if run is None:
        raise NotFound("There is no such export.")
    return run

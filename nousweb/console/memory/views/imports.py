"""Importing a file into an agent's memory: upload, check, start, stop, result."""

from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.selectors import agent_get
from memory.models import ImportRun
from memory.transfer.import_runs import (
    IMPORT,
    MAX_FILE_BYTES,
    MAX_PART_BYTES,
    run_create,
    run_discard,
    run_receive,
    run_start,
    run_stop,
)
from nousweb.console.common.pagination import request_page
from nousweb.console.common.view_helpers import change_and_tell, form_refuse, principal_of
from nousweb.console.memory.export_forms import ExportForm, latest_exports
from nousweb.console.memory.import_forms import ImportForm, import_page, latest_imported
from nousweb.lib.errors import DomainError, Invalid, NotFound

CHANGES = {
    "start": (run_start, "The import continues in the background."),
    "stop": (run_stop, "The import stops. The memories that it has stored are kept."),
    "discard": (run_discard, "The uploaded file was deleted."),
}


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def agent_imports(request: HttpRequest, slug: str) -> HttpResponse:
    """The form and the imports so far. A script announces the file first (`size` and `name`) and sends it in parts."""
    by, agent = _asked(request, slug)
    form = ImportForm(
        request.POST if request.method == "POST" else None, request.FILES or None, by=by
    )  # fmt: skip
    in_parts = "size" in request.POST
    if request.method == "POST" and form.is_valid():
        try:
            run = _announced(request, agent, form, by, in_parts)
        except Invalid as error:
            form_refuse(form, error)
        else:
            if in_parts:
                part = reverse("agent_import_part", args=[slug, run.pk])
                return JsonResponse({"part": part, "page": run.get_absolute_url(), "bytes": MAX_PART_BYTES}, status=201)
            return redirect(run)
    if in_parts:
        return JsonResponse({"errors": [error for found in form.errors.values() for error in found]}, status=422)
    page = request_page(request, _visible(agent, by), "created_at")
    context = {"agent": agent, "form": form, "page": page, "runs": page.rows, "max_bytes": MAX_FILE_BYTES}
    if by.may(VIEW_SUBCONSCIOUS):
        context |= {"export_form": ExportForm(auto_id="export_%s"), "exports": latest_exports(agent)}
    return render(request, "memory/imports.html", context, status=422 if form.errors else 200)


@never_cache
@require_safe
def agent_import(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """One import: its preview, its progress, its result."""
    run = _run(request, slug, pk)
    return render(request, "memory/import.html", _context(run))


@never_cache
@require_safe
def agent_import_state(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """The part of the page that changes while the worker works."""
    return render(request, "memory/_import_state.html", _context(_run(request, slug, pk)))


@require_POST
def agent_import_part(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """Take the bytes of the body as those of the file from ?offset= on."""
    run = _run(request, slug, pk)
    offset = request.GET.get("offset", "")
    try:
        if not (offset.isascii() and offset.isdigit() and len(offset) < 13):
            raise Invalid("offset must be a number of bytes.", field="offset")
        run = run_receive(run=run, offset=int(offset), part=request.body, by=principal_of(request))
    except DomainError as error:
        return JsonResponse({"errors": [error.detail], "received": run.received_bytes}, status=error.status)
    return JsonResponse({"received": run.received_bytes, "status": run.status})


@require_POST
def agent_import_change(request: HttpRequest, slug: str, pk: UUID, change: str) -> HttpResponse:
    """Start or resume, stop, or discard an import."""
    run = _run(request, slug, pk)
    if change not in CHANGES:
        raise NotFound("Unknown action.")
    service, said = CHANGES[change]
    change_and_tell(request, lambda: service(run=run, by=principal_of(request)), said)
    return redirect(run)


def _asked(request: HttpRequest, slug: str) -> tuple[Principal, Agent]:
    by = principal_of(request)
    by.require(IMPORT)
    return by, agent_get(slug, by)


def _visible(agent: Agent, by: Principal) -> QuerySet[ImportRun]:
    personas = Persona.values if by.may(VIEW_SUBCONSCIOUS) else [Persona.ACTOR]
    return ImportRun.objects.filter(agent=agent, persona__in=personas).select_related("agent")


def _run(request: HttpRequest, slug: str, pk: UUID) -> ImportRun:
    by, agent = _asked(request, slug)
    run = _visible(agent, by).filter(pk=pk).first()
    if run is None:
        raise NotFound("There is no such import.")
    return run


def _announced(request: HttpRequest, agent: Agent, form: ImportForm, by: Principal, in_parts: bool) -> ImportRun:
    """The import of the file that the form brings, or announces."""
    upload = form.upload
    size = request.POST.get("size", "")
    if in_parts:
        name, length = request.POST.get("name", ""), int(size) if size.isascii() and size.isdigit() else 0
    elif upload is None:
        raise Invalid("Choose a file.", field="file")
    else:
        name, length = upload.name or "", upload.size or 0
    run = run_create(
        agent=agent,
        file_name=name,
        file_bytes=length,
        by=by,
        persona=form.cleaned_data.get("persona") or Persona.ACTOR,
        options=form.options(),
    )
    if not in_parts and upload is not None:
        sent = 0
        for part in upload.chunks(MAX_PART_BYTES):
            run = run_receive(run=run, offset=sent, part=part, by=by)
            sent += len(part)
    return run


def _context(run: ImportRun) -> dict[str, object]:
    context: dict[str, object] = {"agent": run.agent, "run": run, "shown": import_page(run)}
    if run.outcomes and run.status not in ImportRun.WORKING:
        context["latest"] = latest_imported(run)
    return context

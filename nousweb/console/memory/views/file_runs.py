"""Importing a file into an agent's memory, and exporting an agent as a file: start, progress, stop, result."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.db.models import QuerySet
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.defaultfilters import filesizeformat
from django.urls import reverse

from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.models import FileRun, ImportedMemory
from memory.policy import DEFAULT_CATEGORY
from memory.transfer.file_runs import (
    IMPORT,
    MAX_FILE_BYTES,
    MAX_PART_BYTES,
    Kind,
    expires_at,
    export_file,
    export_start,
    import_create,
    import_receive,
    import_start,
    run_discard,
    run_stop,
)
from memory.transfer.readers import FORMATS
from nousweb.console.common import (
    FORM,
    POST,
    Column,
    ListPage,
    Title,
    act,
    agent_page,
    author_words,
    memory_url,
    refused_on,
)
from nousweb.lib.errors import Conflict, DomainError, Invalid, existing

LATEST_MEMORIES = 8
LATEST_EXPORTS = 10
NAME_CHARACTERS = 40
ITEM_NAMES = {"changeproposal": "proposal"}
KIND_NAMES = {"fact": "facts", "event": "events", "identity": "proposals for the identity"}
STATUS_KINDS = {
    "uploading": "neutral", "checking": "accent", "ready": "accent", "refused": "block", "running": "accent",
    "stopped": "warn", "done": "ok", "failed": "block", "discarded": "neutral",
}  # fmt: skip
LIST = ListPage(
    title="Import and export",
    noun="import",
    empty="A file from another tool is checked first, and imported when you start it.",
    is_exported=False,
    template="memory/imports.html",
    row=Title("file_name"),
    columns=(
        Column("State", FileRun.get_status_display),
        Column("Size", lambda run: filesizeformat(run.file_bytes)),
        Column("By", lambda row: author_words(row)),
        Column("Uploaded", "created_at", "time"),
    ),
)
OUTCOMES = dict(ImportedMemory.Outcome.choices)


class ImportForm(forms.Form):
    """A file and the choices that hold for all of it."""

    file = forms.FileField(
        required=False,
        label="File",
        help_text=f"JSON, JSON lines, or the zip archive of a chat export; at most {MAX_FILE_BYTES >> 20} MB.",
    )
    format = forms.ChoiceField(
        required=False,
        choices=[("", "Detect automatically"), *((name, one.title) for name, one in FORMATS.items())],
        label="Format",
    )
    persona = forms.ChoiceField(choices=Persona.choices, label="Import into the memory of")
    category = forms.CharField(
        required=False, max_length=50, initial=DEFAULT_CATEGORY, label="Category for facts without one"
    )
    project = forms.CharField(
        required=False, max_length=100, label="Project", help_text="Key, if the memories belong to one."
    )
    task = forms.CharField(
        required=False, max_length=100, label="Task", help_text="Key, if the memories belong to one."
    )
    user = forms.CharField(
        required=False, max_length=100, label="User", help_text="Key of the user that they are about; * for everybody."
    )
    only = forms.CharField(
        required=False,
        max_length=200,
        label="Import only",
        help_text="One user, namespace, agent or conversation; empty for all.",
    )
    skip_refused = forms.BooleanField(
        required=False,
        label="Leave out what cannot be imported",
        help_text="Otherwise an error rejects the whole file.",
    )

    def __init__(self, *args: Any, by: Principal, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not by.may(VIEW_SUBCONSCIOUS):
            del self.fields["persona"]

    def options(self) -> dict[str, Any]:
        """The choices as `run_create` takes them."""
        given = self.cleaned_data
        options = {name: given[name] for name in ("format", "project", "task", "user", "only") if given[name]}
        options["category"] = given["category"] or DEFAULT_CATEGORY
        return options | {"skip_refused": given["skip_refused"]}


class ExportForm(forms.Form):
    """The memory to export, and whether to include the audit trail."""

    persona = forms.ChoiceField(
        required=False,
        choices=[("", "Both"), (Persona.ACTOR, "Without the memory of the subconscious")],
        label="Whose memory",
    )
    with_audit = forms.BooleanField(required=False, label="With its audit trail")


def import_figures(run: FileRun) -> dict[str, object]:
    """What a file holds and what became of it, as the page of an import shows it: lists of numbers, each with its words
    and further lines.

    `left_seconds` is an estimate, None without one.
    """
    survey, started = run.survey, bool(run.position or run.outcomes)
    began = run.status == FileRun.Status.RUNNING and run.share > 0.01 and run.work_seconds > 1
    before = (
        {}
        if started
        else {kind: f"; {number:,} {_before(run.changed.get(kind))}" for kind, number in run.known.items() if number}
    )
    became = sorted((*name.split(" ", 1), number) for name, number in run.outcomes.items())
    known = sum(run.known.values()) if started else 0
    skipped = sorted(survey.get("skipped", {}).items(), key=lambda pair: -pair[1])
    refused = survey.get("refused", 0)
    return {
        "left_seconds": round(run.work_seconds * (1 - run.share) / run.share) if began else None,
        "found": [
            (number, f"{KIND_NAMES[kind]}{before.get(kind, '')}", survey.get("examples", {}).get(kind, ()))
            for kind, number in survey.get("counts", {}).items()
        ],
        "left": [
            *((number, f"skipped: {why}", ()) for why, number in skipped),
            *([(refused, "refused:", survey.get("refusals", ()))] if refused else ()),
        ],
        "became": [
            *((number, f"{KIND_NAMES[kind]}: {OUTCOMES[outcome].lower()}", ()) for kind, outcome, number in became),
            *([(known, _before(sum(run.changed.values()), " in their source"), ())] if known else ()),
        ],
        "latest": latest_imported(run) if run.outcomes and not run.is_working else [],
    }


def _before(changed: int | None, where: str = "") -> str:
    return "imported before" + (f", {changed:,} of them have changed{where} since then" if changed else "")


def latest_imported(run: FileRun) -> list[tuple[str, str, str]]:
    """The last imported objects of a file: type, name in the source, and address."""
    rows: QuerySet[ImportedMemory] = ImportedMemory.objects.filter(
        agent=run.agent, persona=run.persona, system=run.system, file=run.file_name
    ).exclude(item_id="")
    return [
        (
            ITEM_NAMES.get(row.item_type, row.item_type),
            row.source_id[:NAME_CHARACTERS],
            reverse("proposal", args=[row.item_id])
            if row.item_type == "changeproposal"
            else memory_url(run.agent.slug, row.item_type, row.item_id),
        )
        for row in rows.order_by("-id")[:LATEST_MEMORIES]
    ]


CHANGES = {
    (Kind.IMPORT, "start"): (import_start, "The import continues in the background."),
    (Kind.IMPORT, "stop"): (run_stop, "The import stops. The memories that it has stored are kept."),
    (Kind.IMPORT, "discard"): (run_discard, "The uploaded file was deleted."),
    (Kind.EXPORT, "stop"): (run_stop, "The export stops."),
    (Kind.EXPORT, "discard"): (run_discard, "The file was deleted."),
}


@agent_page(IMPORT, methods=FORM, fresh=True)
def agent_imports(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The form and the imports so far. A script announces the file first (`size` and `name`) and sends it in parts."""
    form = ImportForm(
        request.POST if request.method == "POST" else None, request.FILES or None, by=by
    )  # fmt: skip
    in_parts = "size" in request.POST
    if request.method == "POST" and form.is_valid():
        with refused_on(form):
            run = _announced(request, agent, form, by, in_parts)
            if in_parts:
                part = reverse("agent_import_part", args=[agent.slug, run.pk])
                return JsonResponse({"part": part, "page": run.get_absolute_url(), "bytes": MAX_PART_BYTES}, status=201)
            return redirect(run)
    if in_parts:
        return JsonResponse({"errors": [error for found in form.errors.values() for error in found]}, status=422)
    runs = LIST.page(request, _visible(agent, by, Kind.IMPORT))
    context = {"agent": agent, **LIST.context(request, runs), "upload_form": form, "max_bytes": MAX_FILE_BYTES}
    if by.may(VIEW_SUBCONSCIOUS):
        exports = list(_visible(agent, by, Kind.EXPORT)[:LATEST_EXPORTS])
        context |= {"export_form": ExportForm(auto_id="export_%s"), "exports": exports}
    return render(request, LIST.template, context, status=422 if form.errors else 200)


@agent_page(IMPORT, VIEW_SUBCONSCIOUS, methods=POST)
def agent_exports(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Start an export."""
    form = ExportForm(request.POST)
    try:
        if not form.is_valid():
            raise Invalid("persona must be actor, or empty for both.", field="persona")
        run = export_start(agent=agent, by=by, **form.cleaned_data)
    except (Conflict, Invalid) as error:
        messages.error(request, error.detail)
        return redirect("agent_imports", agent.slug)
    return redirect(run)


@agent_page(IMPORT, fresh=True)
def file_run(
    request: HttpRequest, by: Principal, agent: Agent, pk: UUID, kind: str, template: str = "memory/file_run.html"
) -> HttpResponse:
    """The preview, the progress and the result of an import or an export, or with another template a part of it."""
    run = _run(by, agent, pk, kind)
    shown = {
        "percent": int(run.share * 100),
        "status_kind": STATUS_KINDS[run.status],
        "may_start": run.kind == Kind.IMPORT and run.status in FileRun.STARTABLE,
        "may_download": run.kind == Kind.EXPORT and run.status == FileRun.Status.DONE,
        "may_discard": run.has_file and not run.is_working,
        "expires_at": expires_at(run),
    }
    shown |= import_figures(run) if run.kind == Kind.IMPORT else {}
    return render(request, template, {"agent": run.agent, "run": run, "shown": shown})


@agent_page(IMPORT, fresh=True)
def agent_export_file(request: HttpRequest, by: Principal, agent: Agent, pk: UUID) -> HttpResponseBase:
    """The file, as JSON Lines."""
    run = _run(by, agent, pk, Kind.EXPORT)
    try:
        path = export_file(run=run, by=by)
        name = f"{agent.slug}-{run.created_at:%Y-%m-%d}.jsonl"
        return FileResponse(path.open("rb"), as_attachment=True, filename=name, content_type="application/jsonl")
    except (Conflict, FileNotFoundError) as error:
        messages.error(request, str(getattr(error, "detail", "The file of this export no longer exists.")))
        return redirect(run)


@agent_page(IMPORT, methods=POST)
def agent_import_part(request: HttpRequest, by: Principal, agent: Agent, pk: UUID) -> HttpResponse:
    """Take the bytes of the body as those of the file from ?offset= on."""
    run = _run(by, agent, pk, Kind.IMPORT)
    offset = request.GET.get("offset", "")
    try:
        if not (offset.isascii() and offset.isdigit() and len(offset) < 13):
            raise Invalid("offset must be a number of bytes.", field="offset")
        run = import_receive(run=run, offset=int(offset), part=request.body, by=by)
    except DomainError as error:
        return JsonResponse({"errors": [error.detail], "received": run.received_bytes}, status=error.status)
    return JsonResponse({"received": run.received_bytes, "status": run.status})


@agent_page(IMPORT, methods=POST)
def file_run_change(
    request: HttpRequest, by: Principal, agent: Agent, pk: UUID, change: str, kind: str
) -> HttpResponse:
    """Start or resume an import, or stop a run, or delete its file."""
    run = _run(by, agent, pk, kind)
    service, done = existing(CHANGES.get((Kind(kind), change)), "Unknown action.")
    return act(request, lambda: service(run=run, by=by), run, done)


def _visible(agent: Agent, by: Principal, kind: str) -> QuerySet[FileRun]:
    personas = [*Persona.values, ""] if by.may(VIEW_SUBCONSCIOUS) else [Persona.ACTOR]
    return FileRun.objects.filter(agent=agent, kind=kind, persona__in=personas).select_related("agent")


def _run(by: Principal, agent: Agent, pk: UUID, kind: str) -> FileRun:
    if kind == Kind.EXPORT:
        by.require(VIEW_SUBCONSCIOUS)
    return get_object_or_404(_visible(agent, by, kind), pk=pk)


def _announced(request: HttpRequest, agent: Agent, form: ImportForm, by: Principal, in_parts: bool) -> FileRun:
    """The import of the file that the form brings, or announces."""
    upload: UploadedFile | None = form.cleaned_data.get("file")
    size = request.POST.get("size", "")
    if in_parts:
        name, length = request.POST.get("name", ""), int(size) if size.isascii() and size.isdigit() else 0
    elif upload is None:
        raise Invalid("Choose a file.", field="file")
    else:
        name, length = upload.name or "", upload.size or 0
    run = import_create(
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
            run = import_receive(run=run, offset=sent, part=part, by=by)
            sent += len(part)
    return run

"""Imports and exports that people start in the console; the worker does them in the background.

An import is uploaded, checked, and stored in slices; it can be stopped and resumed. An export is written in one go, for
what it holds is of one moment, and downloaded.
"""

import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.jobs import job_queue
from memory.models import FileRun
from memory.policy import DEFAULT_CATEGORY
from memory.services.erasure import Erasure
from memory.transfer.agent_export import agent_export
from memory.transfer.import_dry_run import ImportRequest, choices_check
from nousweb.lib import Conflict, Invalid, NotAllowed, clock, text_check

IMPORT = "memory.import_memory"
MAX_FILE_BYTES = 256 << 20
MAX_PART_BYTES = 4 << 20
KEEP_UPLOADS = timedelta(days=7)
"""An uploaded file that nobody imports is deleted after so long."""
KEEP_EXPORTS = timedelta(hours=24)
"""The file of an export can be downloaded for so long."""
LEFT = timedelta(hours=2)
"""An export that no worker has come to for so long is given up."""
FOLDER = "files"

Kind, Status = FileRun.Kind, FileRun.Status


@agent_transaction()
def import_create(
    *,
    agent: Agent,
    file_name: str,
    file_bytes: int,
    by: Principal,
    persona: str = Persona.ACTOR,
    options: Mapping[str, Any] | None = None,
) -> FileRun:
    """Announce a file of `file_bytes` that is to be imported; only people. `options` are choices of an ImportRequest.

    Raises NotAllowed, or Invalid, naming the field.
    """
    run = _draft(Kind.IMPORT, agent, persona, by, status=Status.UPLOADING, options=dict(options or {}))
    name = PureWindowsPath(PurePosixPath(file_name).name).name
    run.file_name, run.file_bytes = text_check("file", name, 255, required=True), file_bytes
    if not 0 < file_bytes <= MAX_FILE_BYTES:
        raise Invalid(
            "This file is empty."
            if file_bytes <= 0
            else f"A file holds at most {MAX_FILE_BYTES >> 20} MB here; `nous importmemory` takes any.",
            field="file",
        )
    choices_check(request_of(run))
    run.save(force_insert=True)
    _record(run, "create", by)
    return run


@agent_transaction(of="run")
def import_receive(*, run: FileRun, offset: int, part: bytes, by: Principal) -> FileRun:
    """Take bytes of the file from `offset` on; with the last of them the check begins.

    Bytes that were sent before are taken again. Raises Conflict, Invalid or NotAllowed.
    """
    run = _locked(run, by)
    if run.status != Status.UPLOADING:
        raise Conflict("This file is already complete.")
    if not 0 <= offset <= run.received_bytes:
        raise Conflict(f"Continue the upload at byte {run.received_bytes}.")
    if not part or len(part) > MAX_PART_BYTES or offset + len(part) > run.file_bytes:
        raise Invalid(
            f"A part must have at most {MAX_PART_BYTES:,} bytes, and must not exceed the announced size.", field="file"
        )
    _part_write(file_path(run.pk), offset, part)
    run.received_bytes = offset + len(part)
    if run.received_bytes == run.file_bytes:
        job_continue(run)
    _move(run, Status.CHECKING if run.received_bytes == run.file_bytes else Status.UPLOADING)
    return run


@agent_transaction(of="run")
def import_start(*, run: FileRun, by: Principal) -> FileRun:
    """Let the worker import what was checked, or go on with what was stopped or failed. Raises Conflict, NotAllowed."""
    run = _locked(run, by)
    _possible_check(run, run.kind == Kind.IMPORT and run.status in FileRun.STARTABLE, "started")
    run.error = ""
    job_continue(run)
    _move(run, Status.RUNNING if run.survey else Status.CHECKING)
    _record(run, "start", by)
    return run


@agent_transaction()
def export_start(*, agent: Agent, by: Principal, persona: str = "", with_audit: bool = False) -> FileRun:
    """Let the worker write a file of an agent, as `agent_export` does; only people.

    Raises Conflict while another one of the agent is being written, Invalid, or NotAllowed.
    """
    run = _draft(Kind.EXPORT, agent, persona, by, status=Status.RUNNING, options={"with_audit": with_audit})
    agent_export(agent=agent, by=by, with_audit=with_audit, persona=persona)
    if FileRun.objects.filter(agent=agent, kind=Kind.EXPORT, status=Status.RUNNING).exists():
        raise Conflict("An export of this agent is already running.")
    job_continue(run)
    run.save(force_insert=True)
    _record(run, "start", by)
    return run


@agent_transaction(of="run")
def export_file(*, run: FileRun, by: Principal) -> Path:
    """The file of an export that is done, for a person who downloads it. Raises Conflict, NotAllowed."""
    run = _locked(run, by)
    path = file_path(run.pk)
    if (run.kind, run.status) != (Kind.EXPORT, Status.DONE) or expires_at(run) <= clock.now() or not path.is_file():
        raise Conflict("The file of this export no longer exists. Start another export.")
    _record(run, "download", by)
    return path


@agent_transaction(of="run")
def run_stop(*, run: FileRun, by: Principal) -> FileRun:
    """Let the worker stop; what an import has stored stays. Raises Conflict, NotAllowed."""
    run = _locked(run, by)
    _possible_check(run, run.is_working, "stopped")
    _move(run, Status.STOPPED)
    _record(run, "stop", by)
    return run


@agent_transaction(of="run")
def run_discard(*, run: FileRun, by: Principal) -> FileRun:
    """Delete the file; what an import has stored stays. Raises Conflict, NotAllowed."""
    run = _locked(run, by)
    _possible_check(run, run.has_file and not run.is_working, "discarded")
    _move(run, Status.DISCARDED)
    _record(run, "discard", by)
    return run


@transaction.atomic
def runs_expire() -> int:
    """Delete the files that have had their time, and those of agents that are gone; returns how many files are left
    over."""
    now = clock.now()
    old = Q(kind=Kind.EXPORT, status=Status.DONE, changed_at__lt=now - KEEP_EXPORTS)
    old |= Q(kind=Kind.IMPORT, changed_at__lt=now - KEEP_UPLOADS) & ~Q(status__in=FileRun.WORKING)
    for run in FileRun.objects.with_file().filter(old).select_for_update(of=("self",)):
        _move(run, Status.DISCARDED)
    left = FileRun.objects.filter(kind=Kind.EXPORT, status=Status.RUNNING, changed_at__lt=now - LEFT)
    for run in left.select_for_update(of=("self",)):
        _move(run, Status.FAILED, "No worker wrote the file. Start another export.")
    names = {str(key) for key in FileRun.objects.with_file().values_list("pk", flat=True)}
    folder = Path(settings.DATA_DIR) / FOLDER
    orphaned = [path for path in folder.iterdir() if path.stem not in names] if folder.is_dir() else []
    for path in orphaned:
        path.unlink(missing_ok=True)
    return len(orphaned)


def runs_erase(erasure: Erasure) -> Mapping[str, int]:
    """Delete files that may hold what is erased: exports, and imports that were cut short. Of an erased agent, all."""
    runs = FileRun.objects.with_file().filter(agent=erasure.agent)
    if erasure.of_agent:
        for key in runs.values_list("pk", flat=True):
            transaction.on_commit(partial(file_delete, key))
        return {}
    held = runs.filter(Q(kind=Kind.EXPORT) | Q(status__in=(Status.STOPPED, Status.FAILED)))
    for run in held.select_for_update(of=("self",)):
        again = "Upload the file again." if run.kind == Kind.IMPORT else "Start another export."
        _move(run, Status.STOPPED if run.is_working else Status.DISCARDED, f"Data of this agent was erased. {again}")
    return {}


def request_of(run: FileRun) -> ImportRequest:
    """The options of an import."""
    return ImportRequest(
        path=file_path(run.pk), name=run.file_name, persona=run.persona,
        **{"category": DEFAULT_CATEGORY, **run.options, **({"format": run.system} if run.system else {})},
    )  # fmt: skip


def expires_at(run: FileRun) -> datetime:
    """Until when the file of an export that is done can be downloaded."""
    return run.changed_at + KEEP_EXPORTS


def file_path(key: UUID) -> Path:
    """Where the file of a run is, or would be."""
    return Path(settings.DATA_DIR) / FOLDER / str(key)


def file_delete(key: UUID) -> None:
    """Delete the file of a run, also one that is half written."""
    for path in (file_path(key), part_of(file_path(key))):
        path.unlink(missing_ok=True)


def part_of(path: Path) -> Path:
    """Where a file is while it is written."""
    return path.with_suffix(".part")


def file_open(path: Path, flags: int) -> int:
    """A descriptor of a file that only the product's user can read, in a folder of such files."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, flags | os.O_CREAT, 0o600)


def _part_write(path: Path, offset: int, part: bytes) -> None:
    """Write bytes of a file at `offset`. Raises Conflict if earlier bytes are missing, and OSError."""
    with os.fdopen(file_open(path, os.O_RDWR), "r+b") as file:
        if file.seek(0, os.SEEK_END) < offset:
            raise Conflict("Bytes before these are missing; upload the file again.")
        file.seek(offset)
        file.write(part)
        file.truncate()


def _move(run: FileRun, status: str, error: str = "") -> None:
    """Give a locked run another status. Of a file that it needs no longer, only counts are kept."""
    run.status, run.error, run.changed_at = status, error or run.error, clock.now()
    if not run.has_file:
        run.survey |= {"examples": {}}
        transaction.on_commit(partial(file_delete, run.pk))
    run.save()


def job_continue(run: FileRun) -> None:
    """Queue the next job of a run."""
    run.slice += 1
    name, persona = f"{run.kind}_run", run.persona or Persona.SUBCONSCIOUS
    job_queue(name, agent=run.agent, persona=persona, subject=run, key=f"{name}:{run.pk}:{run.slice}")


def _draft(kind: str, agent: Agent, persona: str, by: Principal, **given: Any) -> FileRun:
    author = {"author_kind": by.kind, "author_id": by.id, "author_name": by.name}
    return _allowed(FileRun(kind=kind, agent=agent, persona=persona, **author, **given), by)


def _locked(run: FileRun, by: Principal) -> FileRun:
    return _allowed(FileRun.objects.select_for_update(of=("self",)).select_related("agent").get(pk=run.pk), by)


def _allowed(run: FileRun, by: Principal) -> FileRun:
    if not by.is_person:
        raise NotAllowed("Only a signed-in person may do this; no token can.")
    by.require(IMPORT, run.agent)
    if run.kind == Kind.EXPORT or run.persona != Persona.ACTOR:
        by.require(VIEW_SUBCONSCIOUS, run.agent)
    return run


def _possible_check(run: FileRun, possible: bool, what: str) -> None:
    if not possible:
        raise Conflict(f"This {run.kind} is {run.get_status_display().lower()}: it cannot be {what}.")


def _record(run: FileRun, verb: str, by: Principal) -> None:
    """Audit what a person does with a run. An export is of the whole agent, whose record is of no persona."""
    of_import = {"file": run.file_name, "bytes": run.file_bytes}
    of_export = {"persona": run.persona, "audit": run.options.get("with_audit")}
    audit_record(
        by=by, action=f"memory_{run.kind}.{verb}", target=run.agent, agent=run.agent,
        persona=run.persona if run.kind == Kind.IMPORT else "",
        after={**(of_import if run.kind == Kind.IMPORT else of_export), run.kind: str(run.pk)},
    )  # fmt: skip

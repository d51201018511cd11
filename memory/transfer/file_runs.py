"""Imports and exports that people start in the console; the worker does them in the background.

An import is uploaded, checked, and stored in slices; it can be stopped and resumed. An export is written in one go, for
what it holds is of one moment, and downloaded.
"""

import os
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import fields
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q

from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import STARTED, Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.jobs import job_queue
from memory.models import FileRun, Job
from memory.policy import DEFAULT_CATEGORY
from memory.services.erasure import Erasure
from memory.transfer.agent_export import agent_export
from memory.transfer.export_tables import AUDIT_TABLE, TABLES, rows_of
from memory.transfer.import_dry_run import ImportRequest, Survey, choices_check
from memory.transfer.import_memory import (
    ImportReport,
    Progress,
    entries_import,
    import_record,
    memories_preview,
    survey_check,
)
from nousweb.lib import Conflict, DomainError, Invalid, NotAllowed, clock, text_check

IMPORT = "memory.import_memory"
MAX_FILE_BYTES = 256 << 20
MAX_PART_BYTES = 4 << 20
KEEP_UPLOADS = timedelta(days=7)
"""An uploaded file that nobody imports is deleted after so long."""
KEEP_EXPORTS = timedelta(hours=24)
"""The file of an export can be downloaded for so long."""
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
    run.error, run.counted_at = "", run.counted_at or clock.now()
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
    names = {str(key) for key in FileRun.objects.with_file().values_list("pk", flat=True)}
    folder = Path(settings.DATA_DIR) / FOLDER
    orphaned = [path for path in folder.iterdir() if path.stem not in names] if folder.is_dir() else []
    for path in orphaned:
        path.unlink(missing_ok=True)
    return len(orphaned)


def runs_give_up() -> int:
    """End the runs whose job is given up, which would be told as running for ever; returns how many."""
    waiting = Job.objects.exclude(status__in=(Job.Status.DEAD, Job.Status.DONE))
    gone = [
        run
        for run in FileRun.objects.filter(status__in=FileRun.WORKING)
        if not waiting.filter(key=job_key(run)).exists()
    ]
    for run in gone:
        _finish(run, Status.FAILED, error="The worker gave up after several attempts. Its log says why.")
        _file_settle(run.pk)
    return len(gone)


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
    persona = run.persona or Persona.SUBCONSCIOUS
    job_queue(f"{run.kind}_run", agent=run.agent, persona=persona, subject=run, key=job_key(run))


def job_key(run: FileRun) -> str:
    """The key of the job that works on a run now."""
    return f"{run.kind}_run:{run.pk}:{run.slice}"


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


log = structlog.get_logger(__name__)

SLICE_SECONDS = 60.0
"""One job of an import works for about so long, well inside the worker's limit, and queues the next one."""
EXPORT_SECONDS = 90.0
PROGRESS_SECONDS = 1.0


class RunStopped(Exception):
    """The work ends here: its time is over, or a person or an erasure stopped it."""


def run_work(key: UUID, *, seconds: float = SLICE_SECONDS) -> bool:
    """Work on a run, outside of any transaction; on an import for about so long. Returns whether there is more to do.

    What stops it from outside, such as a worker that is killed, costs an import at most one transaction; an export
    begins again.
    """
    run = FileRun.objects.select_related("agent").filter(pk=key, status__in=FileRun.WORKING).first()
    if run is None:
        return False
    work = _check if run.status == Status.CHECKING else _import if run.kind == Kind.IMPORT else _export
    try:
        work(run, time.monotonic() + seconds)
    except RunStopped:
        pass
    except DomainError as error:
        _finish(run, Status.REFUSED if run.status == Status.CHECKING else Status.FAILED, error=error.detail[:4_000])
    except OSError as error:
        log.warning("file_run_failed", run=str(run.pk), error=type(error).__name__)
        _finish(run, Status.FAILED, error=DISK_ERRORS[Kind(run.kind)])
    left = _file_settle(key)
    return left is not None and left.is_working and left.slice == run.slice


def _file_settle(key: UUID) -> FileRun | None:
    """The run as it is now, if it still is; a file that it no longer needs is deleted."""
    left = FileRun.objects.filter(pk=key).first()
    if left is None or not left.has_file:
        file_delete(key)
    return left


DISK_ERRORS = {
    Kind.IMPORT: "The uploaded file cannot be read. Upload it again.",
    Kind.EXPORT: "The file cannot be written. Check the disk of the data folder.",
}


def slice_continue(key: UUID) -> None:
    """Queue the next job of an import that is not done, in the transaction that ends this one."""
    run = FileRun.objects.select_for_update(of=("self",)).select_related("agent").filter(pk=key).first()
    if run is not None and run.is_working:
        job_continue(run)
        run.save(update_fields=["slice"])


def _check(run: FileRun, deadline: float) -> None:
    def watch(progress: Progress) -> None:
        _update(run, share=progress.share)

    request = request_of(run)
    report = memories_preview(agent=run.agent, request=request, by=_worker(run), watch=watch)
    # Not by asdict, which makes a Counter of pairs.
    survey = {field.name: getattr(report.survey, field.name) for field in fields(Survey)}
    run.survey = survey | {"counts": dict(report.survey.counts), "skipped": dict(report.survey.skipped)}
    known, changed = dict(report.known), dict(report.changed)
    _update(run, share=1.0, system=report.survey.format, survey=run.survey, known=known, changed=changed)
    survey_check(report.survey, request)
    _finish(run, Status.READY)


def _import(run: FileRun, deadline: float) -> None:
    survey = Survey(**run.survey)
    survey.counts, survey.skipped = Counter(survey.counts), Counter(survey.skipped)
    outcomes = Counter({tuple(name.split(" ", 1)): count for name, count in run.outcomes.items()})
    report = ImportReport(survey, outcomes)
    if run.position or run.outcomes:
        report.known, report.changed = Counter(run.known), Counter(run.changed)
    last = time.monotonic()

    def watch(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        done: dict[str, Any] = {"share": min(progress.share, 1.0), "work_seconds": F("work_seconds") + (now - last)}
        forward = progress.position != run.position
        if forward:
            # Kept together, so that a slice that is cut short counts nothing twice.
            run.position = progress.position
            done |= {"position": run.position, "known": dict(report.known), "changed": dict(report.changed)}
            done["counted_at"] = clock.now()
            done["outcomes"] = {f"{kind} {outcome}": count for (kind, outcome), count in report.outcomes.items()}
        _update(run, **done)
        last = now
        if forward and now > deadline:
            raise RunStopped

    request, by = request_of(run), _worker(run)
    entries_import(
        agent=run.agent, request=request, by=by, report=report,
        begin=run.position, uncounted=run.counted_at, watch=watch,
    )  # fmt: skip
    import_record(agent=run.agent, request=request, by=by, report=report)
    _finish(run, Status.DONE, share=1.0)


def _export(run: FileRun, deadline: float) -> None:
    path, with_audit = file_path(run.pk), run.options["with_audit"]
    tables = (*TABLES, AUDIT_TABLE) if with_audit else TABLES
    expected = 2 + sum(rows_of(model, run.agent_id, run.persona).count() for model in tables)
    began, count = time.monotonic(), 0
    saved = began
    export = agent_export(agent=run.agent, by=_worker(run), with_audit=with_audit, persona=run.persona)
    descriptor = file_open(part_of(path), os.O_WRONLY | os.O_TRUNC)
    # The lines are read in one transaction, which would keep to itself how far they are, and ends before what follows.
    with (
        os.fdopen(descriptor, "w", encoding="utf-8") as file,
        ThreadPoolExecutor(1) as beside,
        closing(export) as lines,
    ):
        for line in lines:
            file.write(line)
            count += 1
            now = time.monotonic()
            if now - saved < PROGRESS_SECONDS:
                continue
            saved = now
            if now - began > EXPORT_SECONDS:
                raise Conflict("This agent is too large to be exported here. Use the command nous exportagent.")
            beside.submit(_progress_save, run, min(count / expected, 0.99)).result()
        size = file.tell()
    part_of(path).rename(path)
    _finish(run, Status.DONE, share=1.0, position=count, file_bytes=size)


def _progress_save(run: FileRun, share: float) -> None:
    try:
        _update(run, share=share)
    finally:
        connection.close()


def _update(run: FileRun, **changed: Any) -> None:
    """Write how far it has come. Raises RunStopped when it was stopped, another job goes on with it, or it is gone."""
    rows = FileRun.objects.filter(pk=run.pk, status=run.status, slice=run.slice)
    if not rows.update(changed_at=clock.now(), **changed):
        raise RunStopped


def _finish(run: FileRun, status: str, **changed: Any) -> None:
    """End the work of this job, unless it was stopped before."""
    if status not in FileRun.WITH_FILE[Kind(run.kind)]:
        changed["survey"] = run.survey | {"examples": {}}
    with suppress(RunStopped):
        _update(run, status=status, **changed)


def _worker(run: FileRun) -> Principal:
    return Principal.of_system(f"{STARTED}{run.author_name}", channel=run.kind)

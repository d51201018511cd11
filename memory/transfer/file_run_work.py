"""The worker's part of imports and exports that people start in the console."""

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import fields
from typing import Any
from uuid import UUID

import structlog
from django.db import connection
from django.db.models import F

from identity.principal import STARTED, Principal
from memory.models import FileRun
from memory.transfer.agent_export import agent_export
from memory.transfer.export_tables import AUDIT_TABLE, TABLES, rows_of
from memory.transfer.file_runs import Kind, Status, file_delete, file_open, file_path, job_continue, part_of, request_of
from memory.transfer.import_dry_run import Survey
from memory.transfer.import_memory import (
    ImportReport,
    Progress,
    entries_import,
    import_record,
    memories_preview,
    survey_check,
)
from nousweb.lib import Conflict, DomainError, clock

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
    left = FileRun.objects.filter(pk=key).first()
    if left is None or not left.has_file:
        file_delete(key)
    return left is not None and left.is_working and left.slice == run.slice


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
            done["outcomes"] = {f"{kind} {outcome}": count for (kind, outcome), count in report.outcomes.items()}
        _update(run, **done)
        last = now
        if forward and now > deadline:
            raise RunStopped

    request, by = request_of(run), _worker(run)
    entries_import(agent=run.agent, request=request, by=by, report=report, begin=run.position, watch=watch)
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

"""Imports that people start in the console: uploaded, checked, run by the worker in slices, stopped, resumed."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from functools import partial
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import F

from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.jobs import job_queue
from memory.models import ImportRun
from memory.policy import DEFAULT_CATEGORY
from memory.services.erasure import Erasure
from memory.transfer.import_dry_run import ImportRequest, Survey, choices_check
from memory.transfer.import_files import delete_orphaned_files, file_delete, part_write, run_path
from memory.transfer.import_memory import (
    ImportPaused,
    ImportReport,
    Progress,
    entries_import,
    import_record,
    memories_preview,
    survey_check,
)
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, DomainError, Invalid, NotAllowed
from nousweb.lib.validation import text_check

log = structlog.get_logger(__name__)

IMPORT = "memory.import_memory"
MAX_FILE_BYTES = 256 << 20
MAX_PART_BYTES = 4 << 20
SLICE_SECONDS = 60.0
"""One job works for about so long, well inside the worker's limit, and queues the next one."""
KEEP_FILES = timedelta(days=7)
"""A file that nobody starts or goes on with is deleted after so long."""
JOB = "import_run"

Status = ImportRun.Status


class RunStopped(ImportPaused):
    """The slice ends here: its time is over, or a person stopped the import."""


@agent_transaction()
def run_create(
    *,
    agent: Agent,
    file_name: str,
    file_bytes: int,
    by: Principal,
    persona: str = Persona.ACTOR,
    options: Mapping[str, Any] | None = None,
) -> ImportRun:
    """Announce a file of `file_bytes` that is to be imported; only people. `options` are choices of an ImportRequest.

    Raises NotAllowed, or Invalid, naming the field.
    """
    _right_check(agent, persona, by)
    name = PureWindowsPath(PurePosixPath(file_name).name).name
    name = text_check("file", name, 255, required=True)
    if not 0 < file_bytes <= MAX_FILE_BYTES:
        raise Invalid(
            "This file is empty."
            if file_bytes <= 0
            else f"A file holds at most {MAX_FILE_BYTES >> 20} MB here; `nous importmemory` takes any.",
            field="file",
        )
    run = ImportRun(
        agent=agent, persona=persona, file_name=name, file_bytes=file_bytes, options=dict(options or {}),
        author_kind=by.kind, author_id=by.id, author_name=by.name,
    )  # fmt: skip
    choices_check(request_of(run))
    run.save(force_insert=True)
    _record(run, "memory_import.create", by)
    return run


@agent_transaction(of="run")
def run_receive(*, run: ImportRun, offset: int, part: bytes, by: Principal) -> ImportRun:
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
    part_write(run.pk, offset, part)
    run.received_bytes = offset + len(part)
    if run.received_bytes == run.file_bytes:
        run.status = Status.CHECKING
        _queue(run)
    _save(run)
    return run


@agent_transaction(of="run")
def run_start(*, run: ImportRun, by: Principal) -> ImportRun:
    """Let the worker import what was checked, or go on with what was stopped or failed. Raises Conflict, NotAllowed."""
    run = _locked(run, by)
    if run.status not in (Status.READY, Status.STOPPED, Status.FAILED):
        raise Conflict(f"This import is {run.get_status_display().lower()}: it cannot be started.")
    checked = bool(run.survey)
    run.status, run.error = (Status.RUNNING if checked else Status.CHECKING), ""
    _queue(run)
    _save(run)
    _record(run, "memory_import.start", by)
    return run


@agent_transaction(of="run")
def run_stop(*, run: ImportRun, by: Principal) -> ImportRun:
    """Let the worker stop after what it is storing just now; what is stored stays. Raises Conflict, NotAllowed."""
    run = _locked(run, by)
    if run.status not in ImportRun.WORKING:
        raise Conflict(f"This import is {run.get_status_display().lower()}: it cannot be stopped.")
    run.status = Status.STOPPED
    _save(run)
    _record(run, "memory_import.stop", by)
    return run


@agent_transaction(of="run")
def run_discard(*, run: ImportRun, by: Principal) -> ImportRun:
    """Delete the file of an import; what it stored stays. Raises Conflict, NotAllowed."""
    run = _locked(run, by)
    if run.status not in ImportRun.WITH_FILE or run.status in ImportRun.WORKING:
        raise Conflict(f"This import is {run.get_status_display().lower()}: it cannot be discarded.")
    _end(run, Status.DISCARDED)
    _record(run, "memory_import.discard", by)
    return run


def run_work(key: UUID, *, seconds: float = SLICE_SECONDS) -> bool:
    """Work on an import for about so long, outside of any transaction; whether there is more to do.

    What stops it from outside, such as a worker that is killed, costs at most one transaction: it is gone on with.
    """
    run = ImportRun.objects.select_related("agent").filter(pk=key, status__in=ImportRun.WORKING).first()
    if run is None:
        return False
    began = time.monotonic()
    work = _check if run.status == Status.CHECKING else _import
    try:
        return work(run, began + seconds)
    except RunStopped:
        return ImportRun.objects.filter(pk=run.pk, slice=run.slice, status__in=ImportRun.WORKING).exists()
    except DomainError as error:
        _finish(run, Status.REFUSED if run.status == Status.CHECKING else Status.FAILED, error.detail)
    except OSError as error:
        log.warning("import_file_unreadable", run=str(run.pk), error=type(error).__name__)
        _finish(run, Status.FAILED, "The uploaded file cannot be read. Upload it again.")
    return False


def runs_expire() -> int:
    """Delete the files of imports that nobody goes on with, and of agents that are gone; returns how many."""
    old = ImportRun.objects.filter(status__in=ImportRun.WITH_FILE, changed_at__lt=clock.now() - KEEP_FILES)
    for run in old.exclude(status__in=ImportRun.WORKING):
        _end(run, Status.DISCARDED)
    return delete_orphaned_files(ImportRun.objects.filter(status__in=ImportRun.WITH_FILE).values_list("pk", flat=True))


def imports_stop(erasure: Erasure) -> Mapping[str, int]:
    """Delete the files of imports that were cut short: they hold what is erased. Those of an erased agent all go."""
    runs = ImportRun.objects.filter(agent=erasure.agent, status__in=ImportRun.WITH_FILE)
    if erasure.of_agent:
        for key in runs.values_list("pk", flat=True):
            transaction.on_commit(partial(file_delete, key))
        return {}
    for run in runs.filter(status__in=(Status.STOPPED, Status.FAILED)).select_for_update(of=("self",)):
        run.error = "Data of this agent was erased. Upload the file again."
        _end(run, Status.DISCARDED)
    return {}


def request_of(run: ImportRun) -> ImportRequest:
    """The options of the import of a run."""
    return ImportRequest(
        path=run_path(run.pk), name=run.file_name, persona=run.persona,
        **{"category": DEFAULT_CATEGORY, **run.options, **({"format": run.system} if run.system else {})},
    )  # fmt: skip


def _check(run: ImportRun, deadline: float) -> bool:
    def watch(progress: Progress) -> None:
        _update(run, Status.CHECKING, share=progress.share)

    request = request_of(run)
    report = memories_preview(agent=run.agent, request=request, by=_worker(run), watch=watch)
    run.system, run.survey = report.survey.format, _survey(report.survey)
    run.known, run.changed = dict(report.known), dict(report.changed)
    survey_check(report.survey, request)
    _update(
        run, Status.CHECKING, status=Status.READY, share=1.0, system=run.system, survey=run.survey, known=run.known,
        changed=run.changed,
    )  # fmt: skip
    return False


def _import(run: ImportRun, deadline: float) -> bool:
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
            done |= {"position": run.position, "outcomes": _outcomes(report), "known": dict(report.known)}
            done["changed"] = dict(report.changed)
        _update(run, Status.RUNNING, **done)
        last = now
        if forward and now > deadline:
            raise RunStopped

    request, by = request_of(run), _worker(run)
    entries_import(agent=run.agent, request=request, by=by, report=report, begin=run.position, watch=watch)
    import_record(agent=run.agent, request=request, by=by, report=report)
    _finish(run, Status.DONE)
    return False


def _survey(survey: Survey) -> dict[str, Any]:
    # Not by asdict, which makes a Counter of pairs.
    kept = {field.name: getattr(survey, field.name) for field in fields(Survey)}
    return kept | {"counts": dict(survey.counts), "skipped": dict(survey.skipped)}


def _outcomes(report: ImportReport) -> dict[str, int]:
    return {f"{kind} {outcome}": count for (kind, outcome), count in report.outcomes.items()}


def _update(run: ImportRun, while_status: str, **changed: Any) -> None:
    """Write how far it has come. Raises RunStopped when a person stopped it, another job goes on with it, or it is
    gone."""
    rows = ImportRun.objects.filter(pk=run.pk, status=while_status, slice=run.slice)
    if not rows.update(changed_at=clock.now(), **changed):
        raise RunStopped


def _finish(run: ImportRun, status: str, error: str = "") -> None:
    run.refresh_from_db(fields=["status", "outcomes", "known", "changed", "share", "position", "work_seconds"])
    if run.status not in ImportRun.WORKING:
        return
    run.error = error[:4_000]
    if status == Status.DONE:
        run.share = 1.0
    if status in ImportRun.WITH_FILE:
        run.status = status
        _save(run)
    else:
        _end(run, status)


def _end(run: ImportRun, status: str) -> None:
    """It needs its file no longer; of what the file held only counts are kept."""
    run.status = status
    if run.survey:
        run.survey = run.survey | {"examples": {}}
    _save(run)
    transaction.on_commit(partial(file_delete, run.pk))


def _save(run: ImportRun) -> None:
    run.changed_at = clock.now()
    run.save()


def _queue(run: ImportRun) -> None:
    run.slice += 1
    job_queue(JOB, agent=run.agent, persona=run.persona, subject=run, key=f"{JOB}:{run.pk}:{run.slice}")


def _locked(run: ImportRun, by: Principal) -> ImportRun:
    _right_check(run.agent, run.persona, by)
    return ImportRun.objects.select_for_update(of=("self",)).select_related("agent").get(pk=run.pk)


def _right_check(agent: Agent, persona: str, by: Principal) -> None:
    if not by.is_person:
        raise NotAllowed("Only a signed-in person may do this; no token can.")
    by.require(IMPORT, agent)
    if persona != Persona.ACTOR:
        by.require(VIEW_SUBCONSCIOUS, agent)


def _worker(run: ImportRun) -> Principal:
    return Principal.of_system(f"started by {run.author_name}", channel="import")


def _record(run: ImportRun, action: str, by: Principal) -> None:
    audit_record(
        by=by, action=action, target=run.agent, agent=run.agent, persona=run.persona,
        after={"file": run.file_name, "bytes": run.file_bytes, "import": str(run.pk)},
    )  # fmt: skip


def slice_continue(key: UUID) -> None:
    """Queue the next job of an import that is not done, in the transaction that ends this one."""
    run = ImportRun.objects.select_for_update(of=("self",)).select_related("agent").filter(pk=key).first()
    if run is not None and run.status in ImportRun.WORKING:
        _queue(run)
        ImportRun.objects.filter(pk=run.pk).update(slice=run.slice)

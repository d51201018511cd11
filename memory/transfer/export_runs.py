"""Exports that people start in the console: created, written by the worker, downloaded, deleted.

What is erased of an agent must not stay in a file of it, so an erasure deletes its files and stops what is being
written.
"""

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection, transaction

from identity.models import Agent
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.jobs import job_queue
from memory.models import ExportRun
from memory.services.erasure import Erasure
from memory.transfer.agent_export import agent_export
from memory.transfer.export_tables import AUDIT_TABLE, TABLES, rows_of
from memory.transfer.import_runs import IMPORT
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, DomainError, NotAllowed

log = structlog.get_logger(__name__)

FOLDER = "exports"
JOB = "export_run"
KEEP = timedelta(hours=24)
"""A file that is done can be downloaded for so long."""
LEFT = timedelta(hours=2)
"""What no worker has come to for so long is given up."""
MOST_SECONDS = 90.0
"""One job writes all of a file, for what it holds is of one moment; well inside the worker's limit."""
PROGRESS_SECONDS = 1.0

Status = ExportRun.Status


class ExportStopped(Exception):
    """Nobody waits for the file any longer, or it would hold what was erased meanwhile."""


@agent_transaction()
def export_start(*, agent: Agent, by: Principal, persona: str = "", with_audit: bool = False) -> ExportRun:
    """Let the worker write a file of an agent, as `agent_export` does; only people.

    Raises Conflict while another one of the agent is being written, Invalid, or NotAllowed.
    """
    _right_check(agent, by)
    agent_export(agent=agent, by=by, with_audit=with_audit, persona=persona)
    if ExportRun.objects.filter(agent=agent, status=Status.RUNNING).exists():
        raise Conflict("An export of this agent is already running.")
    run = ExportRun.objects.create(
        agent=agent, persona=persona, with_audit=with_audit, expected=_expected(agent, persona, with_audit),
        author_kind=by.kind, author_id=by.id, author_name=by.name,
    )  # fmt: skip
    job_queue(JOB, agent=agent, persona=persona or "subconscious", subject=run, key=f"{JOB}:{run.pk}")
    _record(run, "memory_export.start", by)
    return run


@agent_transaction(of="run")
def export_stop(*, run: ExportRun, by: Principal) -> ExportRun:
    """Stop writing a file. Raises Conflict, NotAllowed."""
    return _end(run, Status.RUNNING, Status.STOPPED, "stop", by)


@agent_transaction(of="run")
def export_discard(*, run: ExportRun, by: Principal) -> ExportRun:
    """Delete a file that is done before its time. Raises Conflict, NotAllowed."""
    return _end(run, Status.DONE, Status.DELETED, "discard", by)


@agent_transaction(of="run")
def export_file(*, run: ExportRun, by: Principal) -> Path:
    """The file of an export that is done, for a person who downloads it. Raises Conflict, NotAllowed."""
    run = _locked(run, by)
    path = export_path(run.pk)
    if run.status != Status.DONE or expires_at(run) <= clock.now() or not path.is_file():
        raise Conflict("The file of this export no longer exists. Start another export.")
    _record(run, "memory_export.download", by)
    return path


def expires_at(run: ExportRun) -> datetime:
    """Until when a file that is done can be downloaded."""
    return run.changed_at + KEEP


def export_path(key: UUID) -> Path:
    """Where the file of an export is, or would be."""
    return Path(settings.DATA_DIR) / FOLDER / str(key)


def export_work(key: UUID) -> None:
    """Write the file of an export, outside of any transaction. One that was cut short begins again."""
    run = ExportRun.objects.select_related("agent").filter(pk=key, status=Status.RUNNING).first()
    if run is None:
        return
    try:
        lines, size = _written(run)
    except ExportStopped:
        _delete(key)
        return
    except DomainError as error:
        _fail(run, error.detail)
    except OSError as error:
        log.warning("export_file_unwritable", run=str(key), error=type(error).__name__)
        _fail(run, "The file cannot be written. Check the disk of the data folder.")
    else:
        if not _update(run, status=Status.DONE, lines=lines, expected=lines, file_bytes=size):
            _delete(key)


def exports_expire() -> int:
    """Delete the files that have had their time, and those of agents that are gone; returns how many."""
    ExportRun.objects.filter(status=Status.DONE, changed_at__lt=clock.now() - KEEP).update(status=Status.DELETED)
    left = ExportRun.objects.filter(status=Status.RUNNING, changed_at__lt=clock.now() - LEFT)
    left.update(status=Status.FAILED, error="No worker wrote the file. Start another export.", changed_at=clock.now())
    kept = set(ExportRun.objects.filter(status__in=(Status.DONE, Status.RUNNING)).values_list("pk", flat=True))
    folder = Path(settings.DATA_DIR) / FOLDER
    gone = [path for path in folder.iterdir() if path.stem not in map(str, kept)] if folder.is_dir() else []
    for path in gone:
        path.unlink(missing_ok=True)
    return len(gone)


def exports_erase(erasure: Erasure) -> Mapping[str, int]:
    """Delete the files of an agent of which something is erased, and stop what is being written."""
    runs = ExportRun.objects.filter(agent=erasure.agent)
    keys = list(runs.filter(status__in=(Status.DONE, Status.RUNNING)).values_list("pk", flat=True))
    why = "Data of this agent was erased. Start another export."
    runs.filter(status=Status.RUNNING).update(status=Status.STOPPED, error=why, changed_at=clock.now())
    runs.filter(status=Status.DONE).update(status=Status.DELETED, error=why, changed_at=clock.now())
    for key in keys:
        transaction.on_commit(partial(_delete, key))
    return {}


def _written(run: ExportRun) -> tuple[int, int]:
    """Write the file; how many lines and bytes it has. Raises ExportStopped, DomainError, OSError."""
    path = export_path(run.pk)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    by = Principal.of_system(f"started by {run.author_name}", channel="export")
    began, count = time.monotonic(), 0
    saved = began
    export = agent_export(agent=run.agent, by=by, with_audit=run.with_audit, persona=run.persona)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
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
            if now - began > MOST_SECONDS:
                raise Conflict("This agent is too large to be exported here. Use the command nous exportagent.")
            if not beside.submit(_progress_save, run, count).result():
                raise ExportStopped
        size = file.tell()
    part.rename(path)
    return count, size


def _progress_save(run: ExportRun, lines: int) -> bool:
    try:
        return _update(run, lines=lines)
    finally:
        connection.close()


def _update(run: ExportRun, **changed: Any) -> bool:
    """Write how far it has come; whether anybody still waits for it."""
    rows = ExportRun.objects.filter(pk=run.pk, status=Status.RUNNING)
    return bool(rows.update(changed_at=clock.now(), **changed))


def _fail(run: ExportRun, error: str) -> None:
    _update(run, status=Status.FAILED, error=error[:4_000])
    _delete(run.pk)


def _delete(key: UUID) -> None:
    export_path(key).unlink(missing_ok=True)
    export_path(key).with_suffix(".part").unlink(missing_ok=True)


def _end(run: ExportRun, status: Status, to: Status, verb: str, by: Principal) -> ExportRun:
    run = _locked(run, by)
    if run.status != status:
        raise Conflict(f"This export is {run.get_status_display().lower()} already.")
    run.status, run.changed_at = to, clock.now()
    run.save(update_fields=["status", "changed_at"])
    _record(run, f"memory_export.{verb}", by)
    transaction.on_commit(partial(_delete, run.pk))
    return run


def _locked(run: ExportRun, by: Principal) -> ExportRun:
    _right_check(run.agent, by)
    return ExportRun.objects.select_for_update(of=("self",)).select_related("agent").get(pk=run.pk)


def _right_check(agent: Agent, by: Principal) -> None:
    if not by.is_person:
        raise NotAllowed("Only a signed-in person may do this; no token can.")
    by.require(IMPORT, agent)
    by.require(VIEW_SUBCONSCIOUS, agent)


def _expected(agent: Agent, persona: str, with_audit: bool) -> int:
    tables = (*TABLES, AUDIT_TABLE) if with_audit else TABLES
    return 2 + sum(rows_of(model, agent.pk, persona).count() for model in tables)


def _record(run: ExportRun, action: str, by: Principal) -> None:
    audit_record(
        by=by, action=action, target=run.agent, agent=run.agent,
        after={"export": str(run.pk), "persona": run.persona, "audit": run.with_audit},
    )  # fmt: skip

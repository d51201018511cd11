"""Screening of stored texts: scan those that were stored before the screening rules existed or before they changed.

A person or a command requests a screening; the worker does it in parts. Texts that match are quarantined as new texts
are, with one review for each distinct text. To screen a text twice has no further effect.
"""

import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.db import models, transaction
from django.db.models import Q

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.jobs import message_send
from memory.models import Censor, LongTermEntry, LoopSummary, Screening, Trust, WorkingMemory
from memory.services.quarantine.memories import (
    BY,
    TRUSTED,
    event_text,
    memory_names,
    memory_text,
    open_quarantine_review,
    quarantine_entries,
    quarantine_imported_row,
    quarantine_memory,
    quarantine_working_text,
    scan_agent_text,
    scan_memory,
)
from memory.services.reviews.quarantine_resolution import QUARANTINE_MODELS, event_put, item_lock, loops_resummarise
from memory.services.trust import screening_class
from nousweb.lib import Conflict, NotAllowed, clock
from nousweb.lib.injection.scan import RULES_NAME, scan_text

BATCH = 200
WORK_SECONDS = 45.0
"""Duration of one part, well below the worker's time limit."""
LOST_AFTER = timedelta(minutes=3)
"""A part without progress for this long belongs to a worker that has ended; another worker continues."""
EVENT, WORKING = "event", "working"

Status = Screening.Status


def screening_due() -> bool:
    """Whether the stored texts have not yet been screened by the current rules."""
    return not Screening.objects.filter(rules=RULES_NAME, status=Status.DONE).exists()


@transaction.atomic
def screening_request(*, by: Principal) -> Screening:
    """Request a screening of all stored texts. Raises NotAllowed, and Conflict while a screening is open."""
    by.require("memory.change_job")
    if by.agents is not None:
        raise NotAllowed(
            "Screening reads the texts of all agents, so only people with access to all agents can start it."
        )
    if Screening.objects.select_for_update().filter(status__in=Screening.OPEN).exists():
        raise Conflict("A screening is already running.")
    run = Screening.objects.create(rules=RULES_NAME, author_kind=by.kind, author_id=by.id, author_name=by.name)
    message_send("memory.tasks.continue_screening")
    audit_record(by=by, action="screening.start", target=run, agent=None, label="Stored texts")
    return run


def screening_continue(*, seconds: float = WORK_SECONDS) -> int:
    """Continue the open screening for about `seconds`; returns the number of memories that it scanned."""
    run = Screening.objects.filter(status__in=Screening.OPEN).order_by("pk").first()
    if run is None:
        return 0
    now = clock.now()
    free = Q(worked_at=None) | Q(worked_at__lt=now - LOST_AFTER)
    if not Screening.objects.filter(free, pk=run.pk, status__in=Screening.OPEN).update(worked_at=now):
        return 0
    # Load the progress of the part before this one.
    run.refresh_from_db()
    if run.status == Status.WAITING or run.rules != RULES_NAME:
        run.status, run.started_at, run.rules, run.place = Status.RUNNING, now, RULES_NAME, []
        run.checked, run.quarantined, run.total = 0, 0, sum(rows.count() for rows in _texts().values())
    begun, end = run.checked, time.monotonic() + seconds
    for kind, batch in _batches(run.place):
        run.quarantined += sum(_screen(kind, row) for row in batch)
        run.checked += len(batch)
        run.place, run.worked_at = [kind, str(batch[-1].pk)], clock.now()
        run.save()
        if time.monotonic() > end:
            break
    else:
        _end(run)
    run.worked_at = None
    run.save()
    return run.checked - begun


@transaction.atomic
def _end(run: Screening) -> None:
    run.status, run.finished_at = Status.DONE, clock.now()
    audit_record(
        by=BY, action="screening.end", target=run, agent=None, label="Stored texts",
        after={"rules": run.rules, "checked": run.checked, "quarantined": run.quarantined},
    )  # fmt: skip


def imported_screen(agent: Agent) -> None:
    """Screen what an imported agent has besides its searched memories: censors, working memory, summaries of loops."""
    for censor in Censor.objects.filter(agent=agent).select_related("agent"):
        quarantine_imported_row(censor)
    for working in WorkingMemory.objects.filter(agent=agent).select_related("agent"):
        if _scan_working_memory(working):
            _quarantine_working_texts(agent=agent, key=working.pk)
    for loop in LoopSummary.objects.filter(agent=agent).exclude(summary=""):
        if scan_text(loop.summary, screening_class(Trust.TOOL, "loop")):
            LoopSummary.objects.filter(agent=agent, pk=loop.pk).update(summary="")


def _texts() -> Mapping[str, models.QuerySet[Any]]:
    """The rows to scan, by memory type, each in the order of its key."""
    models_by_kind = QUARANTINE_MODELS.items()
    return {
        **{kind: model._default_manager.select_related("agent").order_by("pk") for kind, model in models_by_kind},
        EVENT: LongTermEntry.objects.select_related("event__agent").order_by("pk"),
        WORKING: WorkingMemory.objects.select_related("agent").order_by("pk"),
    }


def _batches(place: list[str]) -> Iterator[tuple[str, list[Any]]]:
    """The rows after `place` (memory type and key; empty for the start), in batches with their memory type."""
    texts = _texts()
    kinds = list(texts)
    at, after = place or (kinds[0], "")
    for kind in kinds[kinds.index(at) :]:
        rows = texts[kind]
        while batch := list((rows.filter(pk__gt=after) if after else rows)[:BATCH]):
            yield kind, batch
            after = str(batch[-1].pk)
        after = ""


def _screen(kind: str, row: Any) -> int:
    """Scan one row, on a match again under its agent's lock; returns the number of its newly quarantined texts."""
    if kind == WORKING:
        return _quarantine_working_texts(agent=row.agent, key=row.pk) if _scan_working_memory(row) else 0
    if kind == EVENT:
        event = row.event
        if row.origin == Trust.PERSON:
            return 0
        match, _ = scan_agent_text(event.agent, row.persona, event_text(event), row.origin, memory_names(event))
        return 0 if match is None else _quarantine_event(agent=event.agent, key=row.pk)
    return _quarantine_memory(agent=row.agent, kind=kind, key=row.pk) if scan_memory(row) else 0


@agent_transaction()
def _quarantine_memory(*, agent: Agent, kind: str, key: Any) -> int:
    row = item_lock(agent.pk, kind, key)
    match = scan_memory(row) if row is not None else None
    if match is None:
        return 0
    was_quarantined = row.quarantined
    if not was_quarantined:
        quarantine_memory(row, at=clock.now())
    # A memory that was quarantined before may have no review: too many were pending then.
    open_quarantine_review(agent, row.persona, [(kind, str(row.pk))], memory_text(row), match)
    return int(not was_quarantined)


@agent_transaction()
def _quarantine_event(*, agent: Agent, key: Any) -> int:
    entry = item_lock(agent.pk, EVENT, key)
    if entry is None:
        return 0
    was_quarantined = entry.quarantined
    for _, text, match in quarantine_entries([entry]):
        if not was_quarantined:
            event_put(entry, origin=entry.origin, quarantined=True)
            loops_resummarise(agent.pk, entry.persona, [entry.event_id])
            audit_record(
                by=BY, action="memory.hold", target=entry.event, agent=agent, before={"quarantined": False},
                after={"quarantined": True},
            )  # fmt: skip
        open_quarantine_review(agent, entry.persona, [(EVENT, str(entry.event_id))], text, match)
        return int(not was_quarantined)
    return 0


@agent_transaction()
def _quarantine_working_texts(*, agent: Agent, key: Any) -> int:
    rows = WorkingMemory.objects.select_for_update(of=("self",)).select_related("agent")
    working = rows.filter(agent=agent, pk=key).first()
    if working is None:
        return 0
    matches = _scan_working_memory(working)
    for name, text, match in matches:
        open_quarantine_review(agent, working.persona, [(WORKING, f"{working.pk}:{name}")], text, match)
        quarantine_working_text(agent.pk, f"{working.pk}:{name}")
        audit_record(
            by=BY,
            action="memory.hold",
            target=working,
            agent=agent,
            before={"quarantined": False},
            after={"quarantined": True},
        )
    return len(matches)


def _scan_working_memory(working: WorkingMemory) -> list[tuple[str, str, Any]]:
    """The texts of a session's working memory that match: id, text and match of each."""
    texts = [
        (str(one["id"]), str(one["text"])) for one in (*working.items, *working.open_threads) if not one.get(TRUSTED)
    ]
    texts += [(part, text) for part, text in (("task", working.task), ("frame", working.frame)) if text]
    matches = []
    for name, text in texts:
        match, _ = scan_agent_text(working.agent, working.persona, text, Trust.AGENT)
        if match is not None:
            matches.append((name, text, match))
    return matches

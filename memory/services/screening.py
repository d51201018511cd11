"""Reading stored texts again by the rules of the gate: those that came before it, or before its rules changed.

People or a command ask for it, the worker reads in parts. What is found is held back as a new text is, and one question
is asked of people for each text. What was read before is found as it was left, so nothing comes of reading it twice.
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
from memory.censoring.injection_table import RULES_NAME
from memory.jobs.messages import message_send
from memory.models import LongTermEntry, Screening, Trust, WorkingMemory
from memory.services.holds import (
    BY,
    event_words,
    events_hold,
    finding_of,
    hold_ask,
    hold_set,
    memory_finding,
    said_by,
)
from memory.services.index_writer import index_remove
from memory.services.reviews.held import STORES, loop_resummarise
from memory.services.working_holds import entry_hold
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, NotAllowed

CHANGE = "memory.change_job"
BATCH = 200
WORK_SECONDS = 45.0
"""One part reads for about so long, well inside the worker's limit."""
LOST_AFTER = timedelta(minutes=3)
"""A part that has said nothing for so long was left by a worker that is gone."""
EVENT, WORKING = "event", "working"

Status = Screening.Status


def screening_due() -> bool:
    """Whether stored texts have not been read by the rules of today."""
    return not Screening.objects.filter(rules=RULES_NAME, status=Status.DONE).exists()


@transaction.atomic
def screening_ask(*, by: Principal) -> Screening:
    """Ask for all stored texts to be read again. Raises NotAllowed, and Conflict while they are being read."""
    by.require(CHANGE)
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
    """Go on with the reading that waits or has begun, for about so long; returns how many memories it read."""
    run = Screening.objects.filter(status__in=Screening.OPEN).order_by("pk").first()
    if run is None:
        return 0
    now = clock.now()
    free = Q(worked_at=None) | Q(worked_at__lt=now - LOST_AFTER)
    if not Screening.objects.filter(free, pk=run.pk, status__in=Screening.OPEN).update(worked_at=now):
        return 0
    # What another part did, before this one took over.
    run.refresh_from_db()
    if run.status == Status.WAITING or run.rules != RULES_NAME:
        run.status, run.started_at, run.rules, run.place = Status.RUNNING, now, RULES_NAME, []
        run.checked, run.held, run.total = 0, 0, sum(rows.count() for rows in _texts().values())
    begun, end, more = run.checked, time.monotonic() + seconds, True
    for kind, batch in _batches(run.place):
        run.held += sum(_read(kind, row) for row in batch)
        run.checked += len(batch)
        run.place, run.worked_at = [kind, str(batch[-1].pk)], clock.now()
        run.save()
        if time.monotonic() > end:
            break
    else:
        more = False
    run.worked_at = None
    if not more:
        _end(run)
    run.save()
    return run.checked - begun


@transaction.atomic
def _end(run: Screening) -> None:
    run.status, run.finished_at = Status.DONE, clock.now()
    audit_record(
        by=BY, action="screening.end", target=run, agent=None, label="Stored texts",
        after={"rules": run.rules, "checked": run.checked, "held": run.held},
    )  # fmt: skip


def _texts() -> Mapping[str, models.QuerySet[Any]]:
    """What is read, by kind, each in the order of its key."""
    return {
        **{kind: model._default_manager.select_related("agent").order_by("pk") for kind, model in STORES.items()},
        EVENT: LongTermEntry.objects.select_related("event__agent").order_by("pk"),
        WORKING: WorkingMemory.objects.select_related("agent").order_by("pk"),
    }


def _batches(place: list[str]) -> Iterator[tuple[str, list[Any]]]:
    """What comes after `place`, some at a time."""
    texts = _texts()
    kinds = list(texts)
    at, after = place or (kinds[0], "")
    for kind in kinds[kinds.index(at) :]:
        rows = texts[kind]
        while batch := list((rows.filter(pk__gt=after) if after else rows)[:BATCH]):
            yield kind, batch
            after = str(batch[-1].pk)
        after = ""


def _read(kind: str, row: Any) -> int:
    """How many texts of a row are held back that were not: first read as it is, then under the lock of its agent."""
    if kind == WORKING:
        return _working_hold(agent=row.agent, key=row.pk) if _working_found(row) else 0
    if kind == EVENT:
        event = row.event
        if row.origin == Trust.PERSON or not finding_of(event.agent, row.persona, event_words(event), row.origin)[0]:
            return 0
        return _event_hold(agent=event.agent, key=row.pk)
    return _memory_hold(agent=row.agent, kind=kind, key=row.pk) if memory_finding(row) else 0


@agent_transaction()
def _memory_hold(*, agent: Agent, kind: str, key: Any) -> int:
    rows = STORES[kind]._default_manager.select_for_update(of=("self",), no_key=True).select_related("agent")
    row: Any = rows.filter(agent=agent, pk=key).first()
    found = memory_finding(row) if row is not None else None
    if found is None:
        return 0
    was_held = row.held
    if not was_held:
        hold_set(row, at=clock.now())
    # Of what is held back already, people may not have been asked: too many questions waited.
    hold_ask(agent, row.persona, [(kind, str(row.pk))], said_by(row), found)
    return int(not was_held)


@agent_transaction()
def _event_hold(*, agent: Agent, key: Any) -> int:
    entries = LongTermEntry.objects.select_for_update(of=("self",), no_key=True).select_related("event__agent")
    entry = entries.filter(agent=agent, pk=key).first()
    if entry is None:
        return 0
    was_held = entry.held
    for _, said, found in events_hold([entry], None):
        if not was_held:
            entry.save(update_fields=["held"])
            index_remove(entry.agent_id, entry.persona, EVENT, [str(entry.event_id)])
            loop_resummarise(entry)
            audit_record(
                by=BY, action="memory.hold", target=entry.event, agent=agent, before={"held": False},
                after={"held": True},
            )  # fmt: skip
        hold_ask(agent, entry.persona, [(EVENT, str(entry.event_id))], said, found)
        return int(not was_held)
    return 0


@agent_transaction()
def _working_hold(*, agent: Agent, key: Any) -> int:
    rows = WorkingMemory.objects.select_for_update(of=("self",)).select_related("agent")
    working = rows.filter(agent=agent, pk=key).first()
    if working is None:
        return 0
    held = _working_found(working)
    for name, text, found in held:
        hold_ask(agent, working.persona, [(WORKING, f"{working.pk}:{name}")], text, found)
        entry_hold(agent.pk, f"{working.pk}:{name}")
        audit_record(
            by=BY, action="memory.hold", target=working, agent=agent, before={"held": False}, after={"held": True}
        )
    return len(held)


def _working_found(working: WorkingMemory) -> list[tuple[str, str, Any]]:
    """The texts of a session's mind that are to be held back: name, text, and what was found."""
    texts = [(str(one["id"]), str(one["text"])) for one in (*working.items, *working.open_threads)]
    if working.task:
        texts.append(("task", working.task))
    read = [(name, text, finding_of(working.agent, working.persona, text, Trust.AGENT)[0]) for name, text in texts]
    return [(name, text, found) for name, text, found in read if found is not None]

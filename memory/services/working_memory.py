"""Working memory: the items of an agent during one session.

Every service locks the session first, so that of many calls at once none loses what another wrote.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import WorkingMemory, key_check, user_write_check
from memory.policy import (
    MAX_FRAME_CHARACTERS,
    MAX_OPEN_THREADS,
    MAX_REMARK_CHARACTERS,
    MAX_SESSION_CHARACTERS,
    MAX_THREAD_CHARACTERS,
    MAX_WORKING_ITEMS,
)
from memory.services.quarantine.memories import TRUSTED, screen_working_text
from nousweb.lib import Conflict, NotFound, clock, text_check, unit_check, whole_check, word_check
from nousweb.lib.transactions import transaction_lock

DEFAULT_CAPACITY = 20

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WorkingMemoryChange:
    """The result of a change: the working memory, the new item (None for a change of settings), and evicted items."""

    working: WorkingMemory
    item: Entry | None
    evicted: list[Entry]


@agent_transaction()
def working_set(
    *,
    agent: Agent,
    session_id: str,
    by: Principal,
    task: str = "",
    frame: str = "",
    capacity: int = DEFAULT_CAPACITY,
    project: str = "",
    task_key: str = "",
    user: str = "",
) -> WorkingMemoryChange:
    """Set a session's task, frame and capacity (1 to 100 items). Items over the capacity are evicted; threads stay.

    With the keys of a project or a task, only prompts for these include the working memory. Each user has a session of
    their own under the same name, and those of no user are everybody's.
    """
    task = text_check("task", task, MAX_REMARK_CHARACTERS)
    frame = word_check("frame", text_check("frame", frame, MAX_FRAME_CHARACTERS)) if frame else ""
    whole_check("capacity", capacity, 1, MAX_WORKING_ITEMS)
    project, task_key = key_check("project", project), key_check("task_key", task_key)
    by.require_project(project)
    working = _lock(agent, session_id, by, project, user=user)
    working.capacity = capacity
    working.project, working.task_key = project, task_key
    working.quarantined_entries = [
        entry for entry in working.quarantined_entries if entry["part"] not in ("task", "frame")
    ]
    working.task = working.frame = ""
    for part, text in (("frame", frame), ("task", task)):
        entry = {"id": part, "text": text}
        if not text or by.is_person or not screen_working_text(working, part, entry):
            setattr(working, part, text)
    evicted = _evict(working)
    keys = {name: key for name, key in (("project", project), ("task_key", task_key), ("user", working.user)) if key}
    after = {"task": task, "frame": frame, "capacity": capacity, "evicted": len(evicted), **keys}
    _save(working, by, "working.set", after)
    return WorkingMemoryChange(working, None, evicted)


@agent_transaction()
def working_item_add(
    *,
    agent: Agent,
    session_id: str,
    text: str,
    by: Principal,
    type: str = "note",
    relevance: float = 0.5,
    user: str = "",
) -> WorkingMemoryChange:
    """Add an item; `relevance` is in [0, 1].

    Over the capacity, the least relevant item is evicted, of several the oldest. That can be the new item.
    """
    item: Entry = {
        "id": uuid4().hex,
        "type": word_check("type", type),
        "text": text_check("text", text, MAX_REMARK_CHARACTERS, required=True),
        "relevance": unit_check("relevance", relevance),
        "added_at": clock.now().isoformat(),
    }
    working = _lock(agent, session_id, by, user=user)
    if by.is_person:
        item[TRUSTED] = True
    if by.is_person or not screen_working_text(working, "item", item):
        working.items = [*working.items, item]
    evicted = _evict(working)
    _save(working, by, "working.item_add", {"item": item["id"], "evicted": [gone["id"] for gone in evicted]})
    return WorkingMemoryChange(working, item, evicted)


@agent_transaction()
def working_item_remove(*, agent: Agent, session_id: str, item_id: str, by: Principal, user: str = "") -> WorkingMemory:
    """Remove an item. Raises NotFound."""
    working = _lock(agent, session_id, by, user=user, make=False)
    working.items = _without(working.items, item_id, "item")
    _save(working, by, "working.item_remove", {"item": item_id})
    return working


@agent_transaction()
def working_thread_open(
    *, agent: Agent, session_id: str, text: str, by: Principal, user: str = ""
) -> tuple[WorkingMemory, Entry]:
    """Open a thread: something to come back to. Raises Conflict if MAX_OPEN_THREADS are open."""
    thread: Entry = {
        "id": uuid4().hex,
        "text": text_check("text", text, MAX_THREAD_CHARACTERS, required=True),
        "added_at": clock.now().isoformat(),
    }
    working = _lock(agent, session_id, by, user=user)
    if len(working.open_threads) >= MAX_OPEN_THREADS:
        raise Conflict(f"{MAX_OPEN_THREADS} threads are open; close one first.")
    if by.is_person:
        thread[TRUSTED] = True
    if by.is_person or not screen_working_text(working, "thread", thread):
        working.open_threads = [*working.open_threads, thread]
    _save(working, by, "working.thread_open", {"thread": thread["id"]})
    return working, thread


@agent_transaction()
def working_thread_close(
    *, agent: Agent, session_id: str, thread_id: str, by: Principal, user: str = ""
) -> WorkingMemory:
    """Close a thread. Raises NotFound if it is not open."""
    working = _lock(agent, session_id, by, user=user, make=False)
    working.open_threads = _without(working.open_threads, thread_id, "thread")
    _save(working, by, "working.thread_close", {"thread": thread_id})
    return working


@agent_transaction()
def working_clear(*, agent: Agent, session_id: str, by: Principal, user: str = "") -> WorkingMemory:
    """Clear a session's working memory except its capacity. Raises NotFound if there is none."""
    working = _lock(agent, session_id, by, user=user, make=False)
    after = {"items": len(working.items), "threads": len(working.open_threads)}
    working.task, working.frame, working.items, working.open_threads = "", "", [], []
    working.quarantined_entries = []
    if by.writes_project("") and len(_rows(agent, working.session_id, by, working.user)) == 1:
        working.project = working.task_key = ""
    _save(working, by, "working.clear", {"removed": after})
    return working


def session_of(rows: Iterable[WorkingMemory], by: Principal, project: str | None = None) -> WorkingMemory | None:
    """The working memory that `by` means, of those of a session: that of `project`, else one that it can write, else
    one that it can read; of several the oldest, so that nobody's takes the place of another's. None without any."""
    readable = [row for row in rows if by.reads_project(row.project)]
    order = [(row.project != project, not by.writes_project(row.project), row.pk, row) for row in readable]
    return min(order)[-1] if order else None


def _lock(
    agent: Agent, session_id: str, by: Principal, project: str | None = None, *, user: str = "", make: bool = True
) -> WorkingMemory:
    """The locked row of a user's session of the persona of `by`; created if there is none that `by` can write, unless
    `make` is false."""
    by.require("memory.change_workingmemory", agent)
    session_id = text_check("session_id", session_id, MAX_SESSION_CHARACTERS, required=True)
    transaction_lock(f"session:{agent.pk}:{by.persona}:{session_id}")
    user = user_write_check(agent, by, user)
    working = session_of(_rows(agent, session_id, by, user), by, project)
    if make and (working is None or not by.writes_project(working.project)):
        by.require_project(project or "")
        return WorkingMemory.objects.create(
            agent=agent, persona=by.persona, session_id=session_id, project=project or "", user=user
        )
    if working is None:
        raise NotFound("This session has no working memory.")
    by.require_project(working.project)
    return working


def _rows(agent: Agent, session_id: str, by: Principal, user: str) -> list[WorkingMemory]:
    rows = WorkingMemory.objects.select_for_update(of=("self",)).select_related("agent")
    return list(rows.filter(agent=agent, persona=by.persona, session_id=session_id, user=user).order_by("pk"))


def _evict(working: WorkingMemory) -> list[Entry]:
    """Remove the items over the capacity, the least relevant and then the oldest first; returns them."""
    # Items are in the order of insertion, so a stable sort puts the oldest of equals first.
    leaving = sorted(working.items, key=lambda item: item["relevance"])[: max(len(working.items) - working.capacity, 0)]
    gone = {item["id"] for item in leaving}
    working.items = [item for item in working.items if item["id"] not in gone]
    return leaving


def _without(entries: list[Entry], key: str, noun: str) -> list[Entry]:
    kept = [entry for entry in entries if entry["id"] != key]
    if len(kept) == len(entries):
        raise NotFound(f"There is no such {noun} in this session.")
    return kept


def _save(working: WorkingMemory, by: Principal, action: str, after: Entry) -> None:
    by.require_project(working.project)
    working.updated_at = clock.now()
    working.save()
    audit_record(by=by, action=action, target=working, agent=working.agent, after=after)

"""What is held back of a session's working memory: kept beside it until a person has read it."""

from typing import Any

from memory.censoring.injection import text_screen
from memory.models import Trust, WorkingMemory
from memory.services.holds import finding_of, hold_ask

NEAR = 3
"""A text is read together with so many before it, so that none is parted to be missed."""

Entry = dict[str, Any]


def part_screen(working: WorkingMemory, part: str, entry: Entry) -> bool:
    """Hold back a text that has just come into a session's mind, where it needs that; whether it is held back.

    `part` is "item", "thread" or "task". The row is locked; the caller saves it.
    """
    said = str(entry["text"])
    _, allowed = finding_of(working.agent, working.persona, said, Trust.AGENT)
    if allowed:
        return False
    before = [str(one["text"]) for one in (*working.items, *working.open_threads)][-NEAR:]
    # What was allowed alone says nothing of what comes after it.
    together = [text for text in before if text_screen(text, Trust.AGENT) is None]
    for text in (said, " ".join([*together, said])):
        found, _ = finding_of(working.agent, working.persona, text, Trust.AGENT)
        if found is not None:
            working.held_entries = [*working.held_entries, {**entry, "part": part}]
            hold_ask(working.agent, working.persona, [("working", f"{working.pk}:{entry['id']}")], text, found)
            return True
    return False


def entry_release(agent_id: int, key: str) -> bool:
    """Take a text that was held back into the session's mind; False where it is gone."""
    working, entry = _held(agent_id, key)
    if working is None or entry is None:
        return False
    working.held_entries = [one for one in working.held_entries if one["id"] != entry["id"]]
    plain = {name: value for name, value in entry.items() if name != "part"}
    if entry["part"] == "item":
        working.items = [*working.items, plain]
    elif entry["part"] == "thread":
        working.open_threads = [*working.open_threads, plain]
    else:
        working.task = entry["text"]
    working.save(update_fields=["held_entries", "items", "open_threads", "task"])
    return True


def entry_hold(agent_id: int, key: str) -> None:
    """Hold back again a text that was taken in mind."""
    working, known = _held(agent_id, key)
    if working is None or known is not None:
        return
    name = key.partition(":")[2]
    for part, entries in (("item", working.items), ("thread", working.open_threads)):
        for entry in entries:
            if entry["id"] == name:
                working.held_entries = [*working.held_entries, {**entry, "part": part}]
    if name == "task" and working.task:
        working.held_entries = [*working.held_entries, {"id": "task", "text": working.task, "part": "task"}]
        working.task = ""
    working.items = [entry for entry in working.items if entry["id"] != name]
    working.open_threads = [entry for entry in working.open_threads if entry["id"] != name]
    working.save(update_fields=["held_entries", "items", "open_threads", "task"])


def _held(agent_id: int, key: str) -> tuple[WorkingMemory | None, Entry | None]:
    session, _, name = key.partition(":")
    rows = WorkingMemory.objects.select_for_update(of=("self",), no_key=True)
    working = rows.filter(agent=agent_id, pk=int(session)).first()
    held = working.held_entries if working is not None else []
    return working, next((one for one in held if one["id"] == name), None)

"""Quarantine of texts of working memory: they are stored beside it (`held_entries`) until a person has read them."""

from typing import Any

from memory.models import Trust, WorkingMemory
from memory.services.quarantine.memories import open_quarantine_review, scan_agent_text
from nousweb.lib.injection.scan import scan_text

SCANNED_TOGETHER = 3
"""A text is also scanned together with this many texts before it, since an instruction can be split over several."""

Entry = dict[str, Any]


def screen_working_text(working: WorkingMemory, part: str, entry: Entry) -> bool:
    """Scan a new text of a session's working memory, and quarantine it on a match; returns whether it is quarantined.

    `part` is "item", "thread" or "task". The row is locked; the caller saves it.
    """
    new = str(entry["text"])
    _, allowed = scan_agent_text(working.agent, working.persona, new, Trust.AGENT)
    if allowed:
        return False
    before = [str(other["text"]) for other in (*working.items, *working.open_threads)][-SCANNED_TOGETHER:]
    # People allowed a text that matches by itself; that does not apply to the texts after it, so it is left out.
    unmatched = [text for text in before if scan_text(text, Trust.AGENT) is None]
    for text in (new, " ".join([*unmatched, new])):
        match, _ = scan_agent_text(working.agent, working.persona, text, Trust.AGENT)
        if match is not None:
            working.held_entries = [*working.held_entries, {**entry, "part": part}]
            open_quarantine_review(
                working.agent, working.persona, [("working", f"{working.pk}:{entry['id']}")], text, match
            )
            return True
    return False


def release_working_text(agent_id: int, key: str) -> bool:
    """Move a quarantined text into the session's working memory; False if it no longer exists."""
    working, entry = _quarantined_entry(agent_id, key)
    if working is None or entry is None:
        return False
    working.held_entries = [other for other in working.held_entries if other["id"] != entry["id"]]
    released = {name: value for name, value in entry.items() if name != "part"}
    if entry["part"] == "item":
        working.items = [*working.items, released]
    elif entry["part"] == "thread":
        working.open_threads = [*working.open_threads, released]
    else:
        working.task = entry["text"]
    working.save(update_fields=["held_entries", "items", "open_threads", "task"])
    return True


def quarantine_working_text(agent_id: int, key: str) -> None:
    """Quarantine a text that is in a session's working memory. `key` is "<id of the row>:<id of the text>"."""
    working, quarantined = _quarantined_entry(agent_id, key)
    if working is None or quarantined is not None:
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


def _quarantined_entry(agent_id: int, key: str) -> tuple[WorkingMemory | None, Entry | None]:
    session, _, name = key.partition(":")
    rows = WorkingMemory.objects.select_for_update(of=("self",), no_key=True)
    working = rows.filter(agent=agent_id, pk=int(session)).first()
    entries = working.held_entries if working is not None else []
    return working, next((entry for entry in entries if entry["id"] == name), None)

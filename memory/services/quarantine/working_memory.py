"""Quarantine of texts of working memory: `quarantined_entries` has them until a person has read them."""

from typing import Any

from identity.models import AuditEvent
from memory.models import Trust, WorkingMemory
from memory.persona import PersonaMemory
from memory.services.quarantine.memories import is_allowed, open_quarantine_review, scan_agent_text
from nousweb.lib.injection.pieces import scan_cached, scan_pieces
from nousweb.lib.injection.scan import InjectionMatch

TRUSTED = "trusted"
"""Marks an item or an open thread that a person wrote or allowed."""

Entry = dict[str, Any]


def screen_working_text(working: WorkingMemory, part: str, entry: Entry) -> bool:
    """Scan a new text of a session's working memory, and quarantine it on a match; returns whether it is quarantined.

    `part` is "item", "thread", "task" or "frame". The row is locked; the caller saves it.
    """
    new = str(entry["text"])
    match, allowed = scan_agent_text(working.agent, working.persona, new, Trust.AGENT)
    about = new
    if match is None and not allowed and (match := _match_with_others(working, new, part)):
        about = f"{new}\n{match.sentence}"
        allowed = is_allowed(working.agent, working.persona, about)
    if allowed:
        entry[TRUSTED] = True
    if match is None or allowed:
        return False
    working.quarantined_entries = [*working.quarantined_entries, {**entry, "part": part}]
    open_quarantine_review(working.agent, working.persona, [("working", f"{working.pk}:{entry['id']}")], about, match)
    return True


def _match_with_others(working: WorkingMemory, new: str, part: str) -> InjectionMatch | None:
    """The match of a new text joined with the other texts and keys of the session: an instruction can be split."""
    named = ". ".join(filter(None, (working.session_id, working.project, working.task_key)))
    if match := scan_cached(f"{named}.\n{new}", Trust.AGENT):
        return match
    texts = [] if part == "task" else [working.task]
    texts += [str(other["text"]) for other in (*working.items, *working.open_threads) if not other.get(TRUSTED)]
    # A new task is read before the items, any other text after them.
    texts = [new, *texts] if part == "task" else [*texts, new]
    place = texts.index(new)
    found = scan_pieces(texts, [Trust.AGENT if text else "" for text in texts])
    return next((one.match for one in found if len(one.places) > 1 and place in one.places), None)


def is_task_trusted(view: PersonaMemory, session_id: str, task: str) -> bool:
    """Whether the task of a session needs no screening: it is harmless, or a person wrote or allowed it."""
    if scan_cached(task, Trust.AGENT) is None:
        return False
    if is_allowed(view.agent, view.persona, task):
        return True
    row = WorkingMemory.objects.filter(agent=view.agent, persona=view.persona, session_id=session_id).first()
    written = AuditEvent.objects.of_object("workingmemory", row.pk if row else "").filter(agent=view.agent)
    return written.filter(action="working.set", author_kind="person", after__task=task).exists()


def release_working_text(agent_id: int, key: str) -> bool:
    """Move a quarantined text into the session's working memory; False if it no longer exists."""
    working, entry = _quarantined_entry(agent_id, key)
    if working is None or entry is None:
        return False
    working.quarantined_entries = [other for other in working.quarantined_entries if other["id"] != entry["id"]]
    released = {**{name: value for name, value in entry.items() if name != "part"}, TRUSTED: True}
    if entry["part"] == "item":
        working.items = [*working.items, released]
    elif entry["part"] == "thread":
        working.open_threads = [*working.open_threads, released]
    elif entry["part"] == "frame":
        working.frame = entry["text"]
    else:
        working.task = entry["text"]
    working.save(update_fields=["quarantined_entries", "items", "open_threads", "task", "frame"])
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
                working.quarantined_entries = [*working.quarantined_entries, {**entry, "part": part}]
    for part in ("task", "frame"):
        if name == part and getattr(working, part):
            working.quarantined_entries = [
                *working.quarantined_entries,
                {"id": part, "text": getattr(working, part), "part": part},
            ]
            setattr(working, part, "")
    working.items = [entry for entry in working.items if entry["id"] != name]
    working.open_threads = [entry for entry in working.open_threads if entry["id"] != name]
    working.save(update_fields=["quarantined_entries", "items", "open_threads", "task", "frame"])


def _quarantined_entry(agent_id: int, key: str) -> tuple[WorkingMemory | None, Entry | None]:
    session, _, name = key.partition(":")
    rows = WorkingMemory.objects.select_for_update(of=("self",), no_key=True)
    working = rows.filter(agent=agent_id, pk=int(session)).first()
    entries = working.quarantined_entries if working is not None else []
    return working, next((entry for entry in entries if entry["id"] == name), None)

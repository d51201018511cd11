"""Holding back what reads like an instruction to the agent, until a person has read it.

It is decided in the transaction of the write, by words alone (`memory.censoring.injection`). What is held back is
stored and inactive: it has no row of the index, stands in no prompt, and no token reads it. One question is asked of
people for each text; what they answered holds for the same words again.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from identity.models import Agent
from identity.principal import Principal
from identity.services.audit import audit_record
from memory.censoring.injection import Finding, folded, text_screen
from memory.models import Censor, Event, Fact, FactChange, LongTermEntry, MemoryReview, Trust
from memory.policy import MAX_HELD_ITEMS_PER_REVIEW, MAX_WAITING_HOLDS
from memory.services.index_writer import index_remove
from memory.services.reviews.opening import review_open
from memory.services.reviews.records import review_reopen
from memory.types import words_of
from nousweb.lib import clock

BY = Principal.of_system("screening")
Kind = MemoryReview.Kind
Status = MemoryReview.Status
Resolution = MemoryReview.Resolution


def hold_about(agent_id: int, persona: str, text: str) -> str:
    """What a question about a text is about: the same for the same words, however they are spaced or capitalised."""
    said = hashlib.sha256(" ".join(folded(text).split()).encode()).hexdigest()
    return f"held:{agent_id}:{persona}:{said}"


def finding_of(agent: Agent, persona: str, text: str, trust: str) -> tuple[Finding | None, bool]:
    """What keeps a text of an agent's persona from prompts, None for nothing; and whether a person has allowed the same
    words."""
    found = text_screen(text, trust)
    if found is None:
        return None, False
    return (None, True) if _allowed(agent, persona, text) else (found, False)


def _allowed(agent: Agent, persona: str, text: str) -> bool:
    """Whether a person has allowed these words."""
    about = hold_about(agent.pk, persona, text)
    allowed = MemoryReview.objects.filter(agent=agent, about=about, status=Status.RESOLVED)
    return allowed.filter(resolution=Resolution.ALLOW).exists()


def memory_finding(memory: Any) -> Finding | None:
    """What keeps a memory from prompts. One that a person has allowed, in the same words, is trusted as theirs from
    then on; the caller stores that. People's own words are never held back."""
    if memory.trust == Trust.PERSON:
        return None
    said, trust = said_by(memory), memory.trust
    found = text_screen(said, trust) or text_screen(said_by(memory, " "), trust)
    if found is None:
        return None
    if _allowed(memory.agent, memory.persona, said):
        memory.origin = Trust.PERSON.value
        return None
    return found


def said_by(memory: Any, between: str = ".\n") -> str:
    """All that a memory says, as one text: field by field, or read on from one to the next, so that what is parted
    between them is found as well."""
    if isinstance(memory, Censor):
        return between.join(words for words in (memory.pattern, memory.reason, memory.domain) if words)
    return between.join(words for words in words_of(memory) if words)


def memory_screen(memory: Any, by: Principal) -> bool:
    """Hold back a memory that has just been stored or changed, where it needs that; whether it is held back.

    Called in the transaction of the write, before its row of the index is put. The row is locked or new.
    """
    if by.is_person or memory.held:
        return bool(memory.held)
    before = memory.origin
    found = memory_finding(memory)
    if memory.origin != before:
        memory.save(update_fields=["origin"])
    if found is None:
        return False
    hold_set(memory)
    hold_ask(memory.agent, memory.persona, [(type_name(memory), str(memory.pk))], said_by(memory), found)
    return True


def hold_set(memory: Any, *, at: datetime | None = None) -> None:
    """Take a memory out of prompts, searches and what tokens read, with its record. `at` is when, for one that was in
    use until then."""
    before = {"held": False, "active": memory.active}
    memory.held = True
    if memory.active:
        memory.active, memory.retired_at = False, at or _retired_at(memory)
    memory.save(update_fields=["held", "active", "retired_at"])
    if isinstance(memory, Fact):
        FactChange.objects.create(
            agent_id=memory.agent_id,
            fact=memory,
            action=FactChange.Action.HELD,
            at=memory.retired_at or clock.now(),
            before={"active": before["active"]},
            author_kind=BY.kind,
            author_id=BY.id,
            author_name=BY.name,
        )
    if not isinstance(memory, Censor):
        index_remove(memory.agent_id, memory.persona, type_name(memory), [str(memory.pk)])
    audit_record(
        by=BY, action="memory.hold", target=memory, agent=memory.agent, before=before,
        after={"held": True, "active": False},
    )  # fmt: skip


def _retired_at(memory: Any) -> Any:
    """A new memory is held back before anybody could have read it, so it was never in use."""
    came = memory.recorded_at if isinstance(memory, Fact) else memory.created_at
    return came if memory._state.adding or came == getattr(memory, "updated_at", came) else max(came, clock.now())


def hold_ask(
    agent: Agent, persona: str, items: Iterable[tuple[str, str]], text: str, found: Finding
) -> MemoryReview | None:
    """Let people decide about memories of the same words; the question, old or new, or None where too many wait.

    The question tells tokens nothing of the words: only people see the memories that it names.
    """
    about = hold_about(agent.pk, persona, text)
    named = [list(item) for item in items]
    held = MemoryReview.objects.select_for_update(of=("self",), no_key=True).filter(agent=agent, about=about).first()
    if held is not None:
        if held.status == Status.EXPIRED:
            review_reopen(held)
        known = held.details.get("items", [])
        held.details = {**held.details, "items": [*known, *(one for one in named if one not in known)]}
        if len(held.details["items"]) <= MAX_HELD_ITEMS_PER_REVIEW:
            held.facts = _fact_ids(held.details["items"])
            held.save(update_fields=["details", "facts"])
        return held
    waiting = MemoryReview.objects.pending().filter(agent=agent, persona=persona, kind=Kind.HELD)
    if waiting.count() >= MAX_WAITING_HOLDS:
        return None
    return review_open(
        agent=agent,
        persona=persona,
        kind=Kind.HELD,
        about=about,
        by=BY,
        subject=named[0][0],
        facts=_fact_ids(named),
        details={"items": named, "codes": list(found.codes)},
        score=round(found.score, 1),
        reasons=[
            {"code": code, "words": words, "old": "", "new": ""}
            for code, words in zip(found.codes, found.words, strict=True)
        ],
    )


def _fact_ids(items: Iterable[Collection[str]]) -> list[str]:
    return [key for kind, key in items if kind == "fact"]


def type_name(memory: Any) -> str:
    """The name of a memory's type in a question: that of its model."""
    return str(memory._meta.model_name)


def events_hold(entries: Iterable[LongTermEntry], by: Principal | None) -> list[tuple[LongTermEntry, str, Finding]]:
    """Mark those of new entries whose events are to be held back; they are asked about once they are stored."""
    if by is not None and by.is_person:
        return []
    held = []
    for entry in entries:
        said = event_words(entry.event)
        found, allowed = finding_of(entry.event.agent, entry.persona, said, entry.origin)
        if allowed:
            entry.origin = Trust.PERSON.value
        if found is not None:
            entry.held = True
            held.append((entry, said, found))
    return held


def imported_screen(row: Any, by: Principal) -> None:
    """Hold back a row of an imported agent, where it needs that, and ask about what was held back where it came from.

    Of an event `row` is its long-term entry. The questions themselves do not travel.
    """
    if isinstance(row, LongTermEntry):
        was = row.held
        for entry, said, found in events_hold([row], None):
            if not was:
                entry.save(update_fields=["held"])
            hold_ask(entry.event.agent, entry.persona, [("event", str(entry.event_id))], said, found)
    elif row.held:
        if (why := memory_finding(row)) is not None:
            hold_ask(row.agent, row.persona, [(type_name(row), str(row.pk))], said_by(row), why)
    else:
        memory_screen(row, by)


def event_words(event: Event) -> str:
    """All that an event says: its content, and the texts of its metadata, which a search gives with it."""
    return " ".join([event.content, *_texts(event.metadata)])


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for name, one in value.items() for text in (str(name), *_texts(one))]
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return []

"""The memory type of events, searched by their long-term entries."""

import re
from collections.abc import Mapping
from typing import Any

from memory.layers.long_term_text import indexed_text
from memory.models import Event, EventKind, ItemType, LongTermEntry, LoopSummary, Scope
from memory.models.project_scope import tier_of
from memory.types.index_entry import IndexEntry
from memory.types.memory_type import OF_AGENT, MemoryType
from memory.types.standing_instructions import standing_of

_SPEAKER = re.compile(r"^([A-Z][\w.'-]*(?: [A-Z][\w.'-]*)?): ")


def _entry(entry: LongTermEntry) -> IndexEntry:
    event = entry.event
    text = indexed_text(event.content, entry.text, kind=event.kind, metadata=event.metadata)
    return IndexEntry(
        agent_id=entry.agent_id,
        persona=entry.persona,
        item_type=ItemType.EVENT,
        item_id=str(event.pk),
        text=text,
        happened_at=event.ts,
        recorded_at=event.recorded_at,
        kind=event.kind,
        scope=tier_of(Scope.GLOBAL, event.project, event.task),
        project=event.project,
        task=event.task,
        subject=_speaker(entry.text, event.metadata),
        loop_id=entry.loop_id,
        position=event.pk,
        importance=entry.importance,
        standing=standing_of(text) if event.kind == EventKind.USER_INPUT else "",
        trust=entry.trust,
        held=entry.held,
    )


def _speaker(text: str, metadata: Mapping[str, Any]) -> str:
    """Who said it: as the metadata say, else as the text does in front of its first colon."""
    named = metadata.get("speaker")
    if isinstance(named, str) and named.strip():
        return " ".join(named.split())[:200]
    found = _SPEAKER.match(text)
    return found[1] if found else ""


def _text(event: Event) -> str:
    return event.content


def _words(event: Event) -> tuple[str, ...]:
    return (event.content,)


EVENT = MemoryType(
    ItemType.EVENT,
    Event,
    _entry,
    _text,
    text_sql="content",
    words=_words,
    metadata_field="metadata",
    trust_sql=f"coalesce((SELECT origin FROM memory_longtermentry WHERE agent_id = {OF_AGENT}"  # noqa: S608
    " AND event_id = memory_event.id), 'agent')",
    indexed_model=LongTermEntry,
    indexed_key="event_id",
    tables=(LoopSummary,),
    tokens_may=("view", "add"),
    reviewers_may=(),
)

"""The memory types of what is said: events, searched by their long-term entries, and facts.

A standing instruction ("Always show the units when I ask about physics") or preference ("I prefer small libraries")
matters for tasks of its topic that share no word with it. Rules over English sentences recognise it. What they take
too much of costs little: it is looked at by meaning like anything else.
"""

import re
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from memory.layers.event_validation import indexed_text
from memory.models import (
    LOCATORS,
    Event,
    EventKind,
    Fact,
    ItemType,
    LongTermEntry,
    LoopSummary,
    Scope,
    ends_at,
    keys_of,
    tier_of,
)
from memory.policy import SOURCE_NAMES
from memory.types.memory_type import OF_AGENT, IndexEntry, MemoryType, fields_sql

_SPEAKER = re.compile(r"^([A-Z][\w.'-]*(?: [A-Z][\w.'-]*)?): ")
INSTRUCTION = "instruction"
PREFERENCE = "preference"
MAX_CHARACTERS = 20_000

_BEGINS = r"(?:^|[.!?\n:;]\s*|\band )(?:please,? |hey,? |so,? |also,? |\w+: )?"
_INSTRUCTION = re.compile(
    rf"{_BEGINS}(?:always|never|from now on|going forward|in (?:the )?future|every time|whenever|remember to"
    r"|do not ever|don['’]t ever|make sure (?:to|you|that you) (?:always|never))\b"
    r"|\b(?:always|never)\b[^.!?\n]{3,160}\bwhen(?:ever)? (?:i|we|you)\b"
    r"|\bi(?:['’]d like| want| need| expect) you to\b[^.!?\n]{0,80}\b(?:always|never|whenever|every time|from now on)\b"
    r"|\b(?:you (?:should|must)|please) (?:always|never)\b",
    re.I,
)
_PREFERENCE = re.compile(
    r"\bi(?:['’]d| would)?(?: \w+ly| much| still| also| do)? prefer\b|\b(?:as|like|since|because) i prefer"
    r"|\bmy (?:\w+ )?preferences?\b|\bi(?:['’]d| would) rather\b|\bi(?:['’]m| am) (?:more comfortable|happier) with\b"
    r"|\bi (?:always|usually|never|generally) (?:use|choose|go for|go with|write|work|eat|drink|take|avoid|buy)\b"
    r"|\bmy favou?rite\b|\bi (?:really )?(?:like|love|hate|dislike) (?:it when|to have|to keep)\b"
    r"|\bi want to (?:avoid|keep (?:it|things|everything))\b",
    re.I,
)


def standing_of(text: str) -> str:
    """INSTRUCTION, PREFERENCE or "" for a text that somebody says to an agent."""
    said = text[:MAX_CHARACTERS]
    if _INSTRUCTION.search(said):
        return INSTRUCTION
    return PREFERENCE if _PREFERENCE.search(said) else ""


def _event_entry(entry: LongTermEntry) -> IndexEntry:
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
        **keys_of(event),
        subject=_speaker(entry.text, event.metadata),
        loop_id=entry.loop_id,
        position=event.pk,
        importance=entry.importance,
        standing=standing_of(text) if event.kind == EventKind.USER_INPUT else "",
        trust=entry.trust,
        quarantined=entry.quarantined,
    )


def _speaker(text: str, metadata: Mapping[str, Any]) -> str:
    """The speaker of an event: `metadata.speaker`, otherwise the name before the first colon of the text."""
    named = metadata.get("speaker")
    if isinstance(named, str) and named.strip():
        return " ".join(named.split())[:200]
    found = _SPEAKER.match(text)
    return found[1] if found else ""


EVENT = MemoryType(
    ItemType.EVENT,
    Event,
    _event_entry,
    attrgetter("content"),
    text_sql="content",
    words=("content",),
    metadata_field="metadata",
    source_sql=fields_sql("metadata", SOURCE_NAMES),
    trust_sql=f"coalesce((SELECT origin FROM memory_longtermentry WHERE agent_id = {OF_AGENT}"  # noqa: S608
    " AND event_id = memory_event.id), 'agent')",
    indexed_model=LongTermEntry,
    indexed_key="event_id",
    tables=(LoopSummary,),
    tokens_may=("view", "add"),
    reviewers_may=(),
)


def _fact_entry(fact: Fact) -> IndexEntry:
    return IndexEntry(
        agent_id=fact.agent_id,
        persona=fact.persona,
        item_type=ItemType.FACT,
        item_id=str(fact.pk),
        text=fact.content,
        happened_at=fact.valid_from or fact.recorded_at,
        recorded_at=fact.recorded_at,
        kind=fact.kind,
        category=fact.category,
        scope=tier_of(fact.scope, fact.project, fact.task),
        **keys_of(fact),
        subject=fact.subject,
        tags=fact.tags,
        importance=fact.importance,
        active=fact.active,
        retired_at=fact.retired_at,
        valid_from=fact.valid_from,
        valid_until=ends_at(fact),
        standing=standing_of(fact.content),
        trust=fact.trust,
        quarantined=fact.quarantined,
    )


FACT = MemoryType(
    ItemType.FACT,
    Fact,
    _fact_entry,
    attrgetter("content"),
    text_sql="content",
    words=("subject", "attribute", "value", "content", "source", "tags"),
    about=(
        "subject",
        "category",
        "kind",
        "confidence",
        "source",
        "valid_from",
        "valid_until",
        "expires_at",
        "source_changed_at",
    ),
    source_sql=f"coalesce(nullif(source, ''), {fields_sql('source_ref', LOCATORS)})",
    subject_sql="(SELECT thing.name FROM memory_subjectalias AS spelling JOIN memory_subject AS thing"  # noqa: S608
    " ON thing.id = spelling.subject_id AND thing.agent_id = spelling.agent_id"
    f" WHERE spelling.agent_id = {OF_AGENT} AND spelling.id = subject_alias_id)",
    tokens_may=("view", "add"),
)

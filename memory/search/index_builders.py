"""What of each memory goes into the search index: one function a type, in one place."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from memory.lifecycle.policy import COMPACT_EPISODES
from memory.models import Decision, Episode, Fact, ItemType, LongTermEntry, Procedure, Scope
from nousweb.lib import clock

MAX_TEXT_CHARACTERS = 20_000
"""Indexed of one memory; embedding models read less still."""
_SPEAKER = re.compile(r"^([A-Z][\w.'-]*(?: [A-Z][\w.'-]*)?): ")


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One row of the index, before its embedding. `text` is what is searched and embedded."""

    agent_id: int
    persona: str
    item_type: str
    item_id: str
    text: str
    happened_at: datetime
    recorded_at: datetime
    kind: str = ""
    category: str = ""
    scope: str = Scope.GLOBAL
    subject: str = ""
    loop_id: str = ""
    position: int = 0
    tags: list[str] = field(default_factory=list)
    importance: float = 0.5
    active: bool = True
    retired_at: datetime | None = None


def _of_long_term(entry: LongTermEntry) -> IndexEntry:
    event = entry.event
    return IndexEntry(
        agent_id=entry.agent_id,
        persona=entry.persona,
        item_type=ItemType.EVENT,
        item_id=str(event.pk),
        text=entry.text,
        happened_at=event.ts,
        recorded_at=event.recorded_at,
        kind=event.kind,
        subject=_speaker(entry.text, event.metadata),
        loop_id=entry.loop_id,
        position=event.pk,
        importance=entry.importance,
    )


def _speaker(text: str, metadata: Mapping[str, Any]) -> str:
    """Who said it: as the metadata say, else as the text does in front of its first colon."""
    named = metadata.get("speaker")
    if isinstance(named, str) and named.strip():
        return " ".join(named.split())[:200]
    found = _SPEAKER.match(text)
    return found[1] if found else ""


def _of_fact(fact: Fact) -> IndexEntry:
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
        scope=fact.scope,
        subject=fact.subject,
        tags=fact.tags,
        importance=fact.importance,
        active=fact.active,
        retired_at=fact.retired_at,
    )


def _of_episode(episode: Episode) -> IndexEntry:
    told = _shortened(episode.summary, episode.ended_at) or episode.detail
    text = "\n".join(part for part in (episode.title, told, *episode.lessons) if part)
    return IndexEntry(
        agent_id=episode.agent_id,
        persona=episode.persona,
        item_type=ItemType.EPISODE,
        item_id=str(episode.pk),
        text=text,
        happened_at=episode.started_at,
        recorded_at=episode.created_at,
        kind="summary",
        category=episode.outcome,
        scope=episode.scope,
        tags=episode.tags,
        importance=episode.importance,
        active=episode.active,
        retired_at=episode.retired_at,
    )


def _shortened(summary: str, ended_at: datetime | None) -> str:
    """So much of a summary as search reads of an episode of that age."""
    if ended_at is None or not summary:
        return summary
    age = clock.now() - ended_at
    words = min((limit for since, limit in COMPACT_EPISODES if age >= since), default=0)
    parts = summary.split()
    return " ".join(parts[:words]) + " …" if words and len(parts) > words else summary


def _of_procedure(procedure: Procedure) -> IndexEntry:
    return IndexEntry(
        agent_id=procedure.agent_id,
        persona=procedure.persona,
        item_type=ItemType.PROCEDURE,
        item_id=str(procedure.pk),
        text="\n".join(part for part in (procedure.name, procedure.description, *procedure.steps) if part),
        happened_at=procedure.created_at,
        recorded_at=procedure.created_at,
        kind="procedure",
        category=procedure.domain,
        scope=procedure.scope,
        tags=procedure.tags,
        importance=procedure.importance,
        active=procedure.active,
        retired_at=procedure.retired_at,
    )


def _of_decision(decision: Decision) -> IndexEntry:
    return IndexEntry(
        agent_id=decision.agent_id,
        persona=decision.persona,
        item_type=ItemType.DECISION,
        item_id=str(decision.pk),
        text="\n".join(part for part in (decision.description, *decision.reasons, decision.outcome_note) if part),
        happened_at=decision.created_at,
        recorded_at=decision.created_at,
        kind="decision",
        category=decision.category,
        scope=decision.scope,
        tags=decision.tags,
        importance=decision.importance,
        active=decision.active,
        retired_at=decision.retired_at,
    )


_BUILDERS: dict[type, Callable[[Any], IndexEntry]] = {
    LongTermEntry: _of_long_term,
    Fact: _of_fact,
    Episode: _of_episode,
    Procedure: _of_procedure,
    Decision: _of_decision,
}
INDEXED_MODELS = tuple(_BUILDERS)


def entry_of(memory: LongTermEntry | Fact | Episode | Procedure | Decision) -> IndexEntry:
    """The index row of a memory."""
    entry = _BUILDERS[type(memory)](memory)
    return replace(entry, text=entry.text[:MAX_TEXT_CHARACTERS]) if len(entry.text) > MAX_TEXT_CHARACTERS else entry

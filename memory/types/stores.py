"""The memory types: events, searched by their long-term entries, facts, episodes, procedures, decisions and documents.

A standing instruction ("Always show the units when I ask about physics") or preference ("I prefer small libraries")
matters for tasks of its topic that share no word with it. Rules over English sentences recognise it. What they take
too much of costs little: it is looked at by meaning like anything else.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

from memory.layers.event_validation import indexed_text
from memory.models import (
    LOCATORS,
    Decision,
    Document,
    Episode,
    Event,
    EventKind,
    Fact,
    ItemType,
    LongTermEntry,
    LoopSummary,
    Procedure,
    Scope,
    ends_at,
    keys_of,
    tier_of,
)
from memory.policy import COMPACT_EPISODES, MAX_DOCUMENT_CHARACTERS, SOURCE_FIELDS, SOURCE_NAMES
from memory.types.memory_type import OF_AGENT, IndexEntry, MemoryType, fields_sql, lines, store_entry
from nousweb.lib import clock

_STEP = re.compile(r"([^.\[\]]+)|\[(\*|\d+)\]")
_SUBJECT_CHARACTERS = 200
_NAME_CHARACTERS = 100
"""Of the path to a part so many, the last, are its name."""


def _episode_entry(episode: Episode) -> IndexEntry:
    words = _shortened(episode.summary, episode.ended_at) or episode.detail
    return store_entry(
        episode,
        ItemType.EPISODE,
        lines(episode.title, words, *episode.lessons),
        happened_at=episode.started_at,
        kind="summary",
        category=episode.outcome,
    )


def _shortened(summary: str, ended_at: datetime | None) -> str:
    """So much of a summary as search reads of an episode of that age."""
    if ended_at is None or not summary:
        return summary
    age = clock.now() - ended_at
    words = min((limit for since, limit in COMPACT_EPISODES if age >= since), default=0)
    parts = summary.split()
    return " ".join(parts[:words]) + " …" if words and len(parts) > words else summary


def _episode_undo_change(episode: Episode, action: str, after: Mapping[str, Any]) -> Mapping[str, Any]:
    added = after.get("characters_added") if action == "episode.append" else None
    if not isinstance(added, int) or added <= 0:
        return {}
    # A line break separates appended text from the text before it.
    return {"detail": episode.detail[: max(len(episode.detail) - added, 0)].removesuffix("\n")}


def _episode_restore_as_of(episode: Episode, moment: datetime, undone: Collection[str]) -> None:
    """Remove an end that is later than `moment`, even if the audit trail has no record of it."""
    if episode.ended_at is not None and episode.ended_at > moment:
        episode.summary, episode.summary_kind, episode.lessons = "", Episode.SummaryKind.NONE, []
        episode.outcome, episode.ended_at = Episode.Outcome.UNKNOWN, None


EPISODE = MemoryType(
    ItemType.EPISODE,
    Episode,
    _episode_entry,
    lambda episode: lines(episode.title, episode.summary or episode.detail),
    text_sql="concat_ws(E'\\n', nullif(title, ''), coalesce(nullif(summary, ''), nullif(detail, '')))",
    words=("title", "detail", "summary", "lessons", "participants", "tags"),
    about=("title", "outcome", "lessons", "started_at", "ended_at"),
    undo_change=_episode_undo_change,
    restore_as_of=_episode_restore_as_of,
)


COUNTERS = ("activation_count", "success_count", "failure_count")


def _procedure_entry(procedure: Procedure) -> IndexEntry:
    text = lines(procedure.name, procedure.description, *procedure.steps)
    return store_entry(procedure, ItemType.PROCEDURE, text, kind="procedure", category=procedure.domain)


def _procedure_text(procedure: Procedure) -> str:
    """The procedure as it is read: its steps are numbered, and further lines of a step are indented."""
    steps = enumerate(filter(None, procedure.steps), 1)
    numbered = (f"{number}. {step}".replace("\n", "\n   ") for number, step in steps)
    return lines(procedure.name, procedure.description, *numbered)


def _procedure_undo_change(procedure: Procedure, action: str, after: Mapping[str, Any]) -> Mapping[str, Any]:
    if action not in ("procedure.activate", "procedure.report"):
        return {}
    return {name: max(after[name] - 1, 0) for name in COUNTERS if isinstance(after.get(name), int)}


PROCEDURE = MemoryType(
    ItemType.PROCEDURE,
    Procedure,
    _procedure_entry,
    _procedure_text,
    text_sql="concat_ws(E'\\n', nullif(name, ''), nullif(description, ''),"
    " (SELECT string_agg(replace(number || '. ' || step, E'\\n', E'\\n   '), E'\\n' ORDER BY number)"
    " FROM unnest(array_remove(steps, '')) WITH ORDINALITY AS numbered (step, number)))",
    words=("name", "description", "steps", "tags"),
    about=("name", "domain", "steps", "effectiveness"),
    about_sql={"effectiveness": "success_count / nullif(success_count + failure_count, 0)::float8"},
    undo_change=_procedure_undo_change,
)


def _decision_restore_as_of(decision: Decision, moment: datetime, undone: Collection[str]) -> None:
    """A review that has a date never shows before it, whatever the trail lacks."""
    if decision.reviewed_at is not None and decision.reviewed_at > moment:
        decision.reviewed_at = None
        if "decision.review" not in undone:
            decision.outcome, decision.outcome_note, decision.reviewed_by = Decision.Outcome.PENDING, "", ""


DECISION = MemoryType(
    ItemType.DECISION,
    Decision,
    lambda decision: store_entry(
        decision,
        ItemType.DECISION,
        lines(decision.description, *decision.reasons, decision.outcome_note),
        kind="decision",
        category=decision.category,
    ),
    attrgetter("description"),
    text_sql="description",
    words=("description", "context", "reasons", "outcome_note", "tags"),
    about=("category", "confidence", "stakes", "reasons", "outcome", "outcome_note"),
    restore_as_of=_decision_restore_as_of,
)


def _document_entry(document: Document) -> IndexEntry:
    named = store_entry(
        document, ItemType.DOCUMENT, document.text or document.key, kind="document", subject=_document_name(document)
    )
    if document.text:
        return named
    # What is not to be searched has a row that no search finds.
    return store_entry(document, ItemType.DOCUMENT, document.key, kind="document", active=False, retired_at=None,
                       valid_until=document.expires_at if document.active else None)  # fmt: skip


def _document_name(document: Document) -> str:
    """The key of the document, or "" if a program generated the key."""
    try:
        UUID(document.key)
    except ValueError:
        return document.key[:_SUBJECT_CHARACTERS]
    return ""


def document_text(value: Any, fields: Sequence[str] | None) -> str:
    """The text of a value for search and prompts: the parts that `fields` name ("title", "notes[*].text", "$" for all).

    A single text stands for itself; of several parts each has its name in front.
    """
    parts: list[tuple[str, str]] = []
    for field in ["$"] if fields is None else fields:
        found = [("", value)] if field in ("$", "") else [(field, part) for part in _at(value, _STEP.findall(field))]
        for name, part in found:
            parts.extend(_leaves(name, part))
    if len(parts) == 1:
        return parts[0][1]
    # Names repeat, so many short parts may say more than the value holds.
    return "\n".join(f"{name}: {said}" if name else said for name, said in parts)[:MAX_DOCUMENT_CHARACTERS]


def _at(value: Any, steps: Sequence[tuple[str, str]]) -> Iterator[Any]:
    if not steps:
        yield value
        return
    (name, place), rest = steps[0], steps[1:]
    if name and isinstance(value, dict) and name in value:
        yield from _at(value[name], rest)
    elif place == "*" and isinstance(value, list):
        for part in value:
            yield from _at(part, rest)
    elif place.isdecimal() and isinstance(value, list) and int(place) < len(value):
        yield from _at(value[int(place)], rest)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """The texts, numbers and the like in a value, each with the path to it."""
    if isinstance(value, dict):
        for key, part in sorted(value.items()):
            yield from _leaves(f"{name}.{key}"[-_NAME_CHARACTERS:] if name else key[-_NAME_CHARACTERS:], part)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(name, part)
    elif value is not None and (said := _said(value)):
        yield name, said


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip()


DOCUMENT = MemoryType(
    ItemType.DOCUMENT,
    Document,
    _document_entry,
    attrgetter("text"),
    text_sql="text",
    words=("namespace", "key", "text", "value", "tags"),
    about=("namespace", "key", "version", "source_changed_at"),
    source_sql=f"coalesce(nullif({fields_sql('source_ref', LOCATORS)}, ''), {fields_sql('value', SOURCE_FIELDS)})",
    tokens_may=("view", "add"),
)


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

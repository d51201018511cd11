"""The memory types of episodes, procedures, decisions and documents."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

from memory.models import LOCATORS, Decision, Document, Episode, ItemType, Procedure
from memory.policy import COMPACT_EPISODES, MAX_DOCUMENT_CHARACTERS, SOURCE_FIELDS
from memory.types.memory_type import IndexEntry, MemoryType, fields_sql, lines, store_entry
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

"""The memory type of episodes: the older a summary, the shorter the part that search reads."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from memory.models import Episode, ItemType
from memory.policy.episode_compaction import COMPACT_EPISODES
from memory.types.index_entry import IndexEntry, lines, store_entry
from memory.types.memory_type import MemoryType
from nousweb.lib import clock


def _entry(episode: Episode) -> IndexEntry:
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


def _text(episode: Episode) -> str:
    return lines(episode.title, episode.summary or episode.detail)


def _undo_change(episode: Episode, action: str, after: Mapping[str, Any]) -> Mapping[str, Any]:
    added = after.get("characters_added") if action == "episode.append" else None
    if not isinstance(added, int) or added <= 0:
        return {}
    # A line break separates appended text from the text before it.
    return {"detail": episode.detail[: max(len(episode.detail) - added, 0)].removesuffix("\n")}


def _restore_as_of(episode: Episode, moment: datetime, undone: Collection[str]) -> None:
    """Remove an end that is later than `moment`, even if the audit trail has no record of it."""
    if episode.ended_at is not None and episode.ended_at > moment:
        episode.summary, episode.summary_kind, episode.lessons = "", Episode.SummaryKind.NONE, []
        episode.outcome, episode.ended_at = Episode.Outcome.UNKNOWN, None


def _words(episode: Episode) -> tuple[str, ...]:
    return (episode.title, episode.detail, episode.summary, *episode.lessons, *episode.participants, *episode.tags)


EPISODE = MemoryType(
    ItemType.EPISODE,
    Episode,
    _entry,
    _text,
    text_sql="concat_ws(E'\\n', nullif(title, ''), coalesce(nullif(summary, ''), nullif(detail, '')))",
    words=_words,
    about=("title", "outcome", "lessons", "started_at", "ended_at"),
    undo_change=_undo_change,
    restore_as_of=_restore_as_of,
)

"""The text of an episode."""

from memory.models import Episode
from memory.persona import VIEWS
from memory.policy import MAX_DETAIL_CHARACTERS

EVENTS_READ = 500


def episode_words(episode: Episode) -> str:
    """The source of an extractive summary: the episode's detail, or else the contents of its events."""
    if episode.detail:
        return episode.detail
    events = VIEWS[episode.persona](episode.agent).transcript(episode)
    return "\n".join(events.values_list("content", flat=True)[:EVENTS_READ])


def episode_transcript(episode: Episode) -> str:
    """The transcript of an episode: its events in order, then its free text."""
    events = VIEWS[episode.persona](episode.agent).transcript(episode)
    parts: list[str] = []
    room = MAX_DETAIL_CHARACTERS * 2
    for kind, content in events.values_list("kind", "content").iterator(chunk_size=500):
        parts.append(f"{kind.replace('_', ' ')}: {content}" if kind else content)
        room -= len(content)
        if room < 0:
            break
    return "\n".join([*parts, episode.detail] if episode.detail else parts)

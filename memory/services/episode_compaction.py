"""Compact old episodes: search reads a shorter part of their summaries, which are kept whole.

Source: seed "Agentic Memory System".
"""

from identity.models import Agent, Persona
from memory.models import Episode
from memory.policy.episode_compaction import COMPACT_EPISODES
from memory.services.search_index.writer import index_put
from memory.types import entry_of
from nousweb.lib import clock

BATCH = 2_000


def episodes_compact(*, agent: Agent) -> int:
    """Index an agent's old episodes again, as short as their age has it; returns how many were looked at.

    At most BATCH of each persona, the latest first.
    """
    youngest = min(age for age, _ in COMPACT_EPISODES)
    old = Episode.objects.closed().filter(agent=agent, ended_at__lt=clock.now() - youngest).order_by("-ended_at")
    # So many of each persona, whatever the other has.
    closed = [episode for persona in Persona.values for episode in old.filter(persona=persona)[:BATCH]]
    entries = [entry for entry in map(entry_of, closed) if entry.text]
    # Rows whose text is the same keep their vectors.
    index_put(entries)
    return len(entries)

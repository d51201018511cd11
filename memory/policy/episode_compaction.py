"""The length of an episode's summary that search reads, by age."""

from datetime import timedelta

COMPACT_EPISODES = ((timedelta(days=30), 80), (timedelta(days=90), 40))
"""From which age on, by how many words of its summary search reads an episode; the summary itself is kept."""

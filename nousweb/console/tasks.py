"""What the worker does so that pages stay quick however much there is."""

import time

from context.feedback.figure_snapshots import large_memories
from context.feedback.memory_health import health_keep
from identity.models import Persona
from memory.persona import VIEWS
from nousweb.console.common.inbox_rank_cache import inbox_ranks_keep
from nousweb.console.home.memory_growth import growth_keep
from nousweb.console.home.reference_shares import usage_keep
from nousweb.console.memory.index_counts import index_counts_keep

ROUND_SECONDS = 60
"""After so long a round of counting begins with no further agent."""


def keep_inbox_ranks() -> int:
    """Place the items of a long inbox; returns how many."""
    return inbox_ranks_keep()


def keep_figures() -> int:
    """Count large memories for the pages that show their figures, those first whose figures are oldest, for at most
    ROUND_SECONDS; returns of how many agents."""
    begun, counted = time.monotonic(), 0
    for agent in large_memories():
        for persona, view in VIEWS.items():
            health_keep(view(agent, include_quarantined=True))
            index_counts_keep(view(agent, include_quarantined=True))
            growth_keep(agent, both=persona == Persona.SUBCONSCIOUS)
            usage_keep(agent, both=persona == Persona.SUBCONSCIOUS)
        counted += 1
        if time.monotonic() - begun > ROUND_SECONDS:
            break
    if counted:
        for persona in VIEWS:
            growth_keep(None, both=persona == Persona.SUBCONSCIOUS)
            usage_keep(None, both=persona == Persona.SUBCONSCIOUS)
    return counted

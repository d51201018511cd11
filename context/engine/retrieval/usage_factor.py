"""The value of memories so far: observed references, decayed, as a factor for the next search.

Source: seed 005.1, D3 and D5. Decayed in SQL, so that only the sums leave the database.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from identity.models import Agent
from nousweb.lib.prepared_statements import rows_prepared

HALF_LIFE_DAYS = 7.0
OLDEST_SECONDS = 10 * 365 * 86_400.0
"""An age beyond which a weight is nothing anyway, and PostgreSQL would refuse so small a number."""
MIN_OBSERVATIONS = 2
NEUTRAL = 1.0

_STATS = """
SELECT item_type, item_id, count(*),
       sum(weight) FILTER (WHERE referenced), sum(weight), max(weight)
FROM (
    SELECT item_type, item_id, referenced,
           exp(-ln(2.0::float8) / 86400 / %(half_life)s::float8
               * least(greatest(extract(epoch FROM %(now)s::timestamptz - at)::float8, 0), %(oldest)s::float8)
           ) AS weight
    FROM context_memoryusage
    WHERE agent_id = %(agent)s AND persona = %(persona)s AND counted AND at <= %(now)s::timestamptz
      AND (item_type, item_id) IN (SELECT * FROM unnest(%(types)s::text[], %(ids)s::text[]))
) AS observed
GROUP BY item_type, item_id
"""


@dataclass(frozen=True, slots=True)
class UsageStats:
    """Observations of one memory, the sums of their decayed weights (1 when fresh, 0.5 after 7 days), and the weight of
    the latest."""

    observations: int
    referenced: float
    total: float
    latest: float

    @property
    def score(self) -> float:
        """Decayed number of references."""
        return self.referenced

    @property
    def boost(self) -> float:
        """With NOUS_USAGE_BOOST at 100: 0.5 for never referenced, 1.0 for half the time, 1.5 for always.

        Less in proportion with a lower one; 1.0 before the second observation. All weights decay alike, so their share
        does not: the weight of the latest observation makes the factor fade toward 1.0.
        """
        if self.observations < MIN_OBSERVATIONS or self.total <= 0:
            return NEUTRAL
        return NEUTRAL + settings.USAGE_BOOST_PERCENT / 100 * self.latest * (self.referenced / self.total - 0.5)


def usage_stats(
    agent: Agent, persona: str, memories: Sequence[tuple[str, str]], *, now: datetime
) -> dict[tuple[str, str], UsageStats]:
    """Stats of the memories (type, id) that have any, in one query.

    Only prompts and answers of `persona` itself count, whoever owns the memory: otherwise the ranking of the actor's
    memories would reveal how the subconscious uses them.
    """
    if not memories:
        return {}
    rows = rows_prepared(
        _STATS,
        {
            "now": now,
            "half_life": HALF_LIFE_DAYS,
            "oldest": OLDEST_SECONDS,
            "agent": agent.pk,
            "persona": persona,
            "types": [memory_type for memory_type, _ in memories],
            "ids": [memory_id for _, memory_id in memories],
        },
    )
    return {
        (memory_type, memory_id): UsageStats(count, referenced or 0.0, total or 0.0, latest or 0.0)
        for memory_type, memory_id, count, referenced, total, latest in rows
    }

"""The ids of events: numbers of one persona of one agent, so that they tell nothing of what anybody else has written.

An id is AGENT · 2^36 + NUMBER · 2 + PERSONA, with 0 for the actor and 1 for the subconscious. So ids stay unique in
the whole database, lie below 2^53 for 131,000 agents, and rise with the numbers, which a persona's events get in the
order of their arrival. Ids from before lie below 2^36.
"""

from django.db import connection

from identity.models import Persona
from nousweb.lib.distribution import is_distributed
from nousweb.lib.errors import NotFound

AGENT_BITS = 36
PERSONA_BIT = {Persona.ACTOR.value: 0, Persona.SUBCONSCIOUS.value: 1}

# The agent's key is held, so that it is not erased meanwhile; both personas may hold it at once.
_RESERVE = """
INSERT INTO memory_eventsequence AS held (agent_id, persona, last)
SELECT id, %(persona)s, %(count)s FROM identity_agent WHERE id = %(agent)s FOR KEY SHARE
ON CONFLICT (agent_id, persona) DO UPDATE SET last = held.last + excluded.last
RETURNING last
"""
# Citus takes a statement that reads one table and writes another to all parts of both; there the foreign key holds it.
_RESERVE_ROUTED = """
INSERT INTO memory_eventsequence AS held (agent_id, persona, last) VALUES (%(agent)s, %(persona)s, %(count)s)
ON CONFLICT (agent_id, persona) DO UPDATE SET last = held.last + excluded.last
RETURNING last
"""


def event_ids_reserve(*, agent_id: int, persona: str, count: int) -> list[int]:
    """The next `count` ids of a persona's events, ascending. Needs a transaction.

    Until it ends, the next caller for the same persona waits, and nobody else does. Raises NotFound when there is no
    such agent any more.
    """
    with connection.cursor() as cursor:
        statement = _RESERVE_ROUTED if is_distributed() else _RESERVE
        cursor.execute(statement, {"agent": agent_id, "persona": persona, "count": count})
        row = cursor.fetchone()
    if row is None:
        raise NotFound("No such agent.")
    first = row[0] - count + 1
    return [event_id(agent_id, persona, first + place) for place in range(count)]


def event_id(agent_id: int, persona: str, number: int) -> int:
    """The id of a persona's event with this number, which counts from 1."""
    return (agent_id << AGENT_BITS) + number * 2 + PERSONA_BIT[persona]

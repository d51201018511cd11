"""Pins as the engine reads them; context/services/pins.py sets and removes them."""

from datetime import datetime

from context.models import ContextPin
from identity.models import Agent
from nousweb.lib.sql import Repeated

Pins = frozenset[tuple[str, str]]
"""Type and id of each pinned memory."""


_PINS = Repeated(
    lambda shape, agent: ContextPin.objects.filter(agent_id=agent).order_by().values_list("item_type", "item_id"),
    agent=-1,
)


def pins_of(agent: Agent, as_of: datetime | None = None) -> Pins:
    """What is pinned for an agent; with `as_of`, of what is pinned now, what was by then."""
    if as_of is None:
        return frozenset(_PINS.rows(None, agent=agent.pk))
    return frozenset(ContextPin.objects.filter(agent=agent, created_at__lte=as_of).values_list("item_type", "item_id"))

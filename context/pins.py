"""Pins as the engine reads them; context/services/pins.py sets and removes them."""

from datetime import datetime

from context.models import ContextPin
from identity.models import Agent

Pins = frozenset[tuple[str, str]]
"""Type and id of each pinned memory."""


def pins_of(agent: Agent, as_of: datetime | None = None) -> Pins:
    """What is pinned for an agent; with `as_of`, of what is pinned now, what was by then."""
    pins = ContextPin.objects.filter(agent=agent)
    if as_of:
        pins = pins.filter(created_at__lte=as_of)
    return frozenset(pins.values_list("item_type", "item_id"))

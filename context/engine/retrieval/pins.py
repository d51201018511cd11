"""Pins as the engine reads them; context/services/pins.py sets and removes them."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from context.engine.analysis.agent_data_loader import PreloadedRows, pins_query
from context.models import ContextPin
from identity.models import Agent, AuditEvent
from memory.models import ItemType
from memory.search.as_of import recorded_fields

Pins = frozenset[tuple[str, str]]
"""Type and id of each pinned memory."""


def pins_of_each(agents: Iterable[Agent]) -> dict[int, Pins]:
    """The current pins of several agents, in one query."""
    found: dict[int, set[tuple[str, str]]] = {agent.pk: set() for agent in agents}
    pinned = ContextPin.objects.filter(agent__in=found).order_by().values_list("agent", "item_type", "item_id")
    for agent_id, item_type, item_id in pinned:
        found[agent_id].add((item_type, item_id))
    return {agent_id: frozenset(pins) for agent_id, pins in found.items()}


def pins_of(agent: Agent, as_of: datetime | None = None, rows: PreloadedRows | None = None) -> Pins:
    """The pins of an agent; with `as_of`, those of that time, including pins that were removed since.

    `rows` are the rows of the agent that are loaded already.
    """
    if as_of is None:
        return frozenset((kind, key) for kind, key in (rows.pins if rows else pins_query(agent).rows()))
    # A pin that is removed leaves its row for the audit trail; what never was removed has been there since it was set.
    pinned = ContextPin.objects.filter(agent=agent, created_at__lte=as_of)
    held = set(pinned.values_list("item_type", "item_id"))
    trail = AuditEvent.objects.filter(agent=agent, action__in=("context.pin", "context.unpin"), at__lte=as_of)
    last: dict[tuple[str, str], bool] = {}
    for action, before, after in trail.order_by("id").values_list("action", "before", "after"):
        state = recorded_fields(after if action == "context.pin" else before)
        last[str(state.get("type", "")), str(state.get("id", ""))] = action == "context.pin"
    possible = {(kind, key) for (kind, key), is_pinned in last.items() if is_pinned and _is_item(kind, key)}
    return frozenset(held | possible)


def _is_item(item_type: str, item_id: str) -> bool:
    """Whether this could be a memory's type and id: a trail that came from elsewhere may say anything."""
    if item_type == ItemType.EVENT:
        return item_id.isascii() and item_id.isdecimal() and len(item_id) <= 18
    try:
        return item_type in ItemType.values and str(UUID(item_id)) == item_id
    except ValueError:
        return False

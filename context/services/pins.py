"""Pin and unpin memories: a pinned memory comes before all others of its section."""

from typing import Any
from uuid import UUID

from context.models import ContextPin
from identity.models import Agent, Persona
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from identity.services.versions import agent_lock
from memory.models import ItemType, SearchItem
from memory.persona import persona_memory
from memory.search.memory_loader import memories_load
from nousweb.lib import Conflict, Invalid, NotFound, existing

PIN = "context.add_contextpin"
UNPIN = "context.delete_contextpin"
MAX_PINS = 20
"""Maximum number of pins of one agent: memories that are always included take the room of relevant ones."""


@agent_transaction()
def context_pin(*, agent: Agent, item_type: str, item_id: str, by: Principal, persona: str | None = None) -> ContextPin:
    """Pin an active memory that `by` may read. Pinning it twice changes nothing.

    Raises Invalid for a type that cannot be pinned, NotFound for an unknown memory, Conflict beyond MAX_PINS.
    """
    by.require(PIN, agent)
    memory_check(agent=agent, item_type=item_type, item_id=item_id, by=by, persona=persona)
    agent = agent_lock(agent)
    pins = ContextPin.objects.filter(agent=agent)
    found = pins.filter(item_type=item_type, item_id=item_id).first()
    if found is not None:
        return found
    if pins.count() >= MAX_PINS:
        raise Conflict(f"At most {MAX_PINS} memories of an agent are pinned; remove a pin first.")
    pin = ContextPin.objects.create(
        agent=agent,
        item_type=item_type,
        item_id=item_id,
        author_kind=by.kind,
        author_id=by.id,
        author_name=by.name,
    )
    _record(pin, by, "context.pin", after={"type": item_type, "id": item_id})
    return pin


@agent_transaction()
def context_unpin(*, agent: Agent, item_type: str, item_id: str, by: Principal) -> None:
    """Remove a pin. Raises NotFound when there is none."""
    by.require(UNPIN, agent)
    pin = existing(
        ContextPin.objects.select_for_update().filter(agent=agent, item_type=item_type, item_id=item_id).first(),
        "This memory is not pinned.",
    )
    _record(pin, by, "context.unpin", before={"type": item_type, "id": item_id})
    pin.delete()


def memory_check(*, agent: Agent, item_type: str, item_id: str, by: Principal, persona: str | None = None) -> str:
    """The text of an active memory that `by` may read. Raises Invalid and NotFound."""
    item_check(item_type, item_id)
    found = memories_load(persona_memory(agent, by, persona), [(item_type, item_id)])
    if (item_type, item_id) not in found:
        raise NotFound("There is no such memory, or it is retired.")
    return found[item_type, item_id][0]


def item_check(item_type: str, item_id: str) -> None:
    """Raise Invalid or NotFound unless this could be a memory's type and id, in the form in which ids are kept."""
    if item_type not in ItemType.values:
        raise Invalid(f"A memory is one of {', '.join(ItemType.values)}, not {item_type[:60]!r}.", field="item_type")
    try:
        usual: str | None = str(int(item_id)) if item_type == ItemType.EVENT else str(UUID(item_id))
    except ValueError:
        usual = None
    # A 64-bit key has at most 19 digits, and the largest of them is refused with the rest.
    if usual != item_id or (item_type == ItemType.EVENT and not 0 < int(item_id) < 2**63):
        raise NotFound("There is no such memory.")


def _record(pin: ContextPin, by: Principal, action: str, **states: Any) -> None:
    held = SearchItem.objects.filter(agent=pin.agent, item_type=pin.item_type, item_id=pin.item_id)
    # Of a memory that is gone nobody can say any more whose it was.
    persona = held.values_list("persona", flat=True).first() or Persona.SUBCONSCIOUS
    audit_record(by=by, action=action, target=pin, agent=pin.agent, persona=persona, **states)

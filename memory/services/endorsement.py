"""People's procedures, decisions and the like: what a person wrote or decided, no token and no schedule rewrites.

Such a memory is `endorsed` once a person wrote, changed, reviewed or closed it; facts have their own rules
(`memory.services.facts.endorsement`).
"""

from identity.principal import Principal
from memory.models import Memory
from nousweb.lib.errors import Conflict


def memory_endorse(memory: Memory, by: Principal) -> None:
    """Make a memory people's where a person has just changed it; its row is locked."""
    if by.is_person and not memory.endorsed:
        memory.endorsed = True
        memory.save(update_fields=["endorsed"])


def memory_bind(memory: Memory, by: Principal) -> None:
    """Raise Conflict where `by` is no person and people wrote or decided `memory`, whose row is locked."""
    if memory.endorsed and not by.is_person:
        raise Conflict(f"People wrote or decided this {memory._meta.verbose_name}: only people can change it.")

"""Memories verified by people (procedures, decisions, episodes, documents): tokens and schedules cannot rewrite them.

A memory is `endorsed` once a person wrote, changed, reviewed or closed it. Facts have rules of their own
(`memory.services.facts.endorsement`).
"""

from identity.principal import Principal
from memory.models import Memory
from nousweb.lib.errors import Conflict


def memory_endorse(memory: Memory, by: Principal) -> None:
    """Mark a memory as verified by people if `by`, who has just changed it, is a person. Its row must be locked."""
    if by.is_person and not memory.endorsed:
        memory.endorsed = True
        memory.save(update_fields=["endorsed"])


def human_author_check(memory: Memory, by: Principal) -> None:
    """Raise Conflict if `memory` is verified by people and `by` is not a person. Its row must be locked."""
    if memory.endorsed and not by.is_person:
        raise Conflict(f"People wrote or decided this {memory._meta.verbose_name}: only people can change it.")

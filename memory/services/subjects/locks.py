"""Permission to change a subject, and its lock."""

from collections.abc import Collection
from uuid import UUID

from identity.principal import Principal
from memory.models import Subject, SubjectAlias
from memory.persona import change_check
from memory.services.facts.locks import learning_lock
from nousweb.lib.errors import Conflict, NotFound

VIEW = "memory.view_fact"
CHANGE = "memory.change_fact"
"""Subjects are seen by whoever sees facts, and changed by people who may change them; no token can."""


def subjects_lock(subject: Subject, *others: Subject, by: Principal) -> list[Subject]:
    """The subjects as they stand, locked until the transaction ends; whoever learns for this memory waits.

    Raises NotAllowed, NotFound for one that is gone or of another memory, Conflict for one that another has taken up.
    """
    change_check(subject, by, CHANGE)
    learning_lock(subject.agent, subject.persona)
    keys = [subject.pk, *(other.pk for other in others)]
    rows = Subject.objects.select_for_update(of=("self",), no_key=True).select_related("agent", "merged_into")
    rows = rows.filter(agent=subject.agent_id, persona=subject.persona, pk__in=keys)
    found = {row.pk: row for row in rows.order_by("pk")}
    if any(key not in found for key in keys):
        raise NotFound("There is no such subject.")
    for row in found.values():
        if row.merged_into is not None:
            raise Conflict(
                f"“{row.name}” has been merged into “{row.merged_into.name}”.", subject=str(row.merged_into_id)
            )
    return [found[key] for key in keys]


def aliases_of(subject: Subject, keys: Collection[UUID] | None = None) -> list[SubjectAlias]:
    """The spellings of a subject, the oldest first; only those in `keys`, if given."""
    rows = SubjectAlias.objects.filter(agent=subject.agent_id, subject=subject)
    return list(rows if keys is None else rows.filter(pk__in=keys))

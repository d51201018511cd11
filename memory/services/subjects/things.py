"""What facts are about, as the comparison of facts knows it."""

from collections.abc import Collection, Mapping
from uuid import UUID

from memory.comparison.snapshot import FactSnapshot, Thing
from memory.models import Fact, SubjectAlias


def pair_snapshots(old: Fact, new: Fact) -> tuple[FactSnapshot, FactSnapshot]:
    """Two facts of one agent as they are compared."""
    things = things_of(new.agent_id, [old, new])
    return snapshot_of(old, things), snapshot_of(new, things)


def snapshot_of(fact: Fact, things: Mapping[UUID, Thing]) -> FactSnapshot:
    """A fact as it is compared, with what it is about if `things` has it."""
    return FactSnapshot.of(fact, things.get(fact.subject_alias_id) if fact.subject_alias_id else None)


def things_of(agent_id: int, facts: Collection[Fact]) -> dict[UUID, Thing]:
    """What these facts are about, by their spelling, for the comparison: one statement, none where none names one."""
    keys = {fact.subject_alias_id for fact in facts if fact.subject_alias_id}
    if not keys:
        return {}
    subjects = SubjectAlias.objects.filter(agent=agent_id, pk__in=keys).values("subject")
    rows = SubjectAlias.objects.filter(agent=agent_id, subject__in=subjects).order_by("created_at", "pk")
    spellings: dict[UUID, list[str]] = {}
    held = []
    for pk, subject_id, name, spelling in rows.values_list("pk", "subject_id", "subject__name", "spelling"):
        spellings.setdefault(subject_id, []).append(spelling)
        held.append((pk, subject_id, name))
    return {pk: Thing(subject_id, name, tuple(spellings[subject_id])) for pk, subject_id, name in held if pk in keys}

"""Snapshots of facts for comparison, with their registered subjects."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from uuid import UUID

from memory.comparison.fact_snapshot import FactSnapshot, KnownSubject
from memory.models import Fact
from nousweb.lib.prepared_statements import rows_prepared


def pair_snapshots(old: Fact, new: Fact) -> tuple[FactSnapshot, FactSnapshot]:
    """Snapshots of two facts of one agent."""
    subjects = known_subjects_of(new.agent_id, [old, new])
    return snapshot_of(old, subjects), snapshot_of(new, subjects)


def snapshot_of(fact: Fact, subjects: Mapping[UUID, KnownSubject] = MappingProxyType({})) -> FactSnapshot:
    """Build the snapshot of a fact, stored or not, for comparison and for a judge; `subjects` are by alias id."""
    subject = subjects.get(fact.subject_alias_id) if fact.subject_alias_id else None
    moment = fact.valid_from or fact.recorded_at
    return FactSnapshot(
        fact.content, fact.subject, fact.category, moment, subject, fact.attribute, fact.value, fact.valid_from,
        fact.recorded_at,
    )  # fmt: skip


# Each table is read once, and not again for each row of another: the planner has no statistics of a memory that was
# filled a moment ago, and would read all subjects once for each of them.
_SPELLINGS = """
WITH named AS MATERIALIZED (
    SELECT alias.subject_id FROM memory_subjectalias AS alias
    WHERE alias.agent_id = %(agent)s AND alias.id = ANY (%(keys)s::uuid[])
), subject AS MATERIALIZED (
    SELECT subject.id, subject.name FROM memory_subject AS subject
    WHERE subject.agent_id = %(agent)s AND subject.id = ANY (ARRAY(SELECT subject_id FROM named))
)
SELECT alias.id, alias.subject_id, subject.name, alias.spelling
FROM memory_subjectalias AS alias JOIN subject ON subject.id = alias.subject_id
WHERE alias.agent_id = %(agent)s AND alias.subject_id = ANY (ARRAY(SELECT subject_id FROM named))
ORDER BY alias.created_at, alias.id
"""


def known_subjects_of(agent_id: int, facts: Collection[Fact]) -> dict[UUID, KnownSubject]:
    """The registered subjects of these facts with all of their aliases, by alias id. At most one statement."""
    keys = {fact.subject_alias_id for fact in facts if fact.subject_alias_id}
    if not keys:
        return {}
    spellings: dict[UUID, list[str]] = {}
    rows = []
    for pk, subject_id, name, spelling in rows_prepared(_SPELLINGS, {"agent": agent_id, "keys": [*keys]}):
        spellings.setdefault(subject_id, []).append(spelling)
        rows.append((pk, subject_id, name))
    return {
        pk: KnownSubject(subject_id, name, tuple(spellings[subject_id])) for pk, subject_id, name in rows if pk in keys
    }

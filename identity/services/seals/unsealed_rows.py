"""Rows that no seal covers: those that wait for one, and those that should have one."""

from typing import Any

from django.db import connection
from django.db.models import Max

from identity.models import LogHole, LogHorizon, LogLeaves, LogSeal
from identity.policy.sealed_tables import SEALED_TABLES, SealedTable
from identity.services.seals.findings import Report, SealFinding, of_unsealed
from identity.services.seals.pending_rows import FLOORS

_COUNTED = """
WITH {sealed} unsealed (key, agent_id, persona, below) AS MATERIALIZED ({rows})
(SELECT key, agent_id, persona, NULL::bigint FROM unsealed WHERE below ORDER BY key LIMIT 1000)
UNION ALL SELECT NULL, NULL, NULL, count(*) FROM unsealed WHERE NOT below
"""
_NUMBERED = """
SELECT t.id::text, {agent}, {persona}, t.id <= {floor} AS below FROM {table} t {join}
WHERE ({of_agent}) AND t.id::text NOT IN (
    SELECT unnest(l.keys) FROM identity_logleaves l WHERE l.kind = %(kind)s)
"""
_FLOOR = "%(floor)s"
_FLOOR_OF_CHAIN = "coalesce(last.floor, 0)"
_FLOORS = f"floors AS MATERIALIZED ({FLOORS}),"
_OF_CHAIN = "LEFT JOIN floors last ON last.agent_id = t.agent_id AND last.persona = t.persona"
_VERSIONS = """
SELECT t.id::text, {agent}, {persona}, EXISTS (
    SELECT 1 FROM {table} later WHERE later.agent_id = t.agent_id AND later.section = t.section
    AND later.version > t.version AND later.id::text IN (SELECT key FROM sealed)) AS below
FROM {table} t WHERE ({of_agent}) AND t.id::text NOT IN (SELECT key FROM sealed)
"""
_SEALED = "sealed AS (SELECT unnest(l.keys) AS key FROM identity_logleaves l WHERE l.kind = %(kind)s),"
_TWICE = """
SELECT key FROM (SELECT unnest(l.keys) AS key FROM identity_logleaves l WHERE l.kind = %(kind)s) every
GROUP BY key HAVING count(*) > 1 LIMIT 1000
"""
_OUT_OF_ORDER = """
SELECT one.id::text, one.agent_id, 'actor' FROM (
    SELECT t.id, t.agent_id, t.version, max(t.version) OVER (
        PARTITION BY t.agent_id, t.section ORDER BY l.seal_id, place.number
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM identity_logleaves l CROSS JOIN LATERAL unnest(l.keys) WITH ORDINALITY place(key, number)
    JOIN identity_identityversion t ON t.id::text = place.key
    WHERE l.kind = %(kind)s AND ({of_agent})) one
WHERE one.version < one.before
"""
_NOT_CURRENT = """
SELECT t.id::text, t.agent_id, 'actor', t.is_current FROM identity_identityversion t
JOIN (SELECT agent_id, section, max(version) AS version FROM identity_identityversion GROUP BY 1, 2) last
    ON last.agent_id = t.agent_id AND last.section = t.section
WHERE ({of_agent}) AND t.is_current <> (t.version = last.version)
"""


def unsealed_check(report: Report, agent_id: int | None = None) -> None:
    """Count the rows that wait for a seal, and find those below the floor, rows that stand in two seals, leaves without
    their seal, and versions that are sealed after later ones, or current though they are not the latest."""
    for table in SEALED_TABLES.values():
        for key, agent, persona, waiting in _rows(table, agent_id):
            if waiting is not None:
                report.tail += waiting
            else:
                report.add(of_unsealed(table, key, agent, persona, "was inserted among rows sealed before"))
        for (key,) in _fetch(_TWICE, table, agent_id):
            report.add(SealFinding("reordered", f"{table.label} {key} stands in two seals.", key=key))
    versions = SEALED_TABLES["identityversion"]
    for key, agent, persona in _fetch(_OUT_OF_ORDER, versions, agent_id):
        report.add(of_unsealed(versions, key, agent, persona, "was inserted among versions sealed before"))
    for key, agent, persona, current in _fetch(_NOT_CURRENT, versions, agent_id):
        what = "is current, but is not the latest of its section" if current else "is the latest, but is not current"
        report.add(SealFinding("edited", f"{versions.label} {key} {what}.", agent, persona, key))
    if agent_id is None:
        seals = set(LogLeaves.objects.exclude(seal__in=LogSeal.objects.values("serial")).values_list("seal", flat=True))
        seals |= set(LogHole.objects.exclude(seal__in=LogSeal.objects.values("serial")).values_list("seal", flat=True))
        for serial in sorted(seals):
            report.add(SealFinding("seal_missing", f"Seal {serial} is missing, but its leaves exist.", serial=serial))


def _rows(table: SealedTable, agent_id: int | None) -> list[Any]:
    """The keys of rows below the floor that are in no seal, and last the number of those that wait for one."""
    if not table.numbered:
        return _fetch(_COUNTED.replace("{sealed}", _SEALED).replace("{rows}", _VERSIONS), table, agent_id)
    if table.by_chain:
        rows = _NUMBERED.replace("{floor}", _FLOOR_OF_CHAIN).replace("{join}", _OF_CHAIN)
        return _fetch(_COUNTED.replace("{sealed}", _FLOORS).replace("{rows}", rows), table, agent_id)
    rows = _NUMBERED.replace("{floor}", _FLOOR)
    return _fetch(_COUNTED.replace("{sealed}", "").replace("{rows}", rows), table, agent_id)


def _fetch(statement: str, table: SealedTable, agent_id: int | None) -> list[Any]:
    of_agent = "true" if agent_id is None else f"{table.agent} = %(agent)s"
    parts = {"agent": table.agent, "persona": table.persona, "table": table.table, "join": table.join}
    values: dict[str, Any] = {"kind": table.name, "floor": _floor(table), "agent": agent_id}
    with connection.cursor() as cursor:
        cursor.execute(statement.format(**parts, of_agent=of_agent), values)
        return cursor.fetchall()


def _floor(table: SealedTable) -> int:
    """The key up to which every row of a table stands in a seal."""
    sealed = LogSeal.objects.filter(kind=table.name).aggregate(floor=Max("floor"))["floor"]
    horizon = LogHorizon.objects.filter(kind=table.name).values_list("floor", flat=True).first()
    return max(sealed or 0, horizon or 0)

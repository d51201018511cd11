"""Checks of a verification besides the sealed rows, and its findings as sentences.

The checks are of rows that no seal covers, and of the holes that erasures leave with their receipts.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Max

from identity.models import AuditEvent, LogHole, LogHorizon, LogLeaves, LogSeal
from identity.policy.changes import ERASURES
from identity.policy.sealed_tables import SEALED_TABLES, SealedTable
from identity.services.seals.sealer import FLOORS
from nousweb.lib.transactions import sql_rows

MAX_FINDINGS = 1_000
"""Maximum number of findings that are stored as sentences; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class SealFinding:
    """One problem: its code, a sentence, and the agent and persona concerned."""

    code: str
    sentence: str
    agent_id: int | None = None
    persona: str = ""
    key: str = ""
    serial: int = 0


@dataclass(slots=True)
class Report:
    """The result of a verification. `findings` are the first of `problems`; `tail` is the number of unsealed rows."""

    seals: int = 0
    rows: int = 0
    holes: int = 0
    tail: int = 0
    problems: int = 0
    findings: list[SealFinding] = field(default_factory=list)

    def add(self, finding: SealFinding) -> None:
        """Add a problem."""
        self.problems += 1
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(finding)


def of_row(code: str, seal: LogSeal, table: SealedTable, key: str, what: str) -> SealFinding:
    """A finding about a sealed row."""
    agent = f" of {seal.agent_slug}" if seal.agent_slug else ""
    sentence = f"{table.label} {key}{agent} {what} (seal {seal.serial} of {seal.sealed_at:%Y-%m-%d %H:%M} UTC)."
    return SealFinding(code, sentence, seal.agent_id, seal.persona, key, seal.serial)


def of_seal(code: str, seal: LogSeal, what: str) -> SealFinding:
    """A finding about a seal."""
    return SealFinding(code, f"Seal {seal.serial} {what}.", seal.agent_id, seal.persona, serial=seal.serial)


def of_unsealed(table: SealedTable, key: str, agent_id: int | None, persona: str, what: str) -> SealFinding:
    """A finding about a row that is in no seal."""
    return SealFinding("inserted", f"{table.label} {key} {what}.", agent_id, persona, key)


BATCH = 500


def holes_of_seal(
    report: Report, table: SealedTable, seal: LogSeal, holes: Sequence[LogHole]
) -> tuple[set[int], set[int]]:
    """The slots of a seal whose rows were erased with a receipt, and those whose rows were emptied with one."""
    full: set[int] = set()
    blank: set[int] = set()
    for hole in holes:
        if hole.receipt_id is None:
            report.add(of_row("receipt", seal, table, hole.key, "was removed, and no erasure left a receipt"))
        else:
            (blank if hole.blanked else full).add(hole.slot)
    return full, blank - full


def receipts_check(report: Report, agent_id: int | None = None) -> None:
    """Compare each receipt with all of the holes that name it: no hole can be added to an erasure, or taken from it."""
    holes = LogHole.objects.exclude(receipt_id=None)
    if agent_id is not None:
        holes = holes.filter(seal__agent_id=agent_id)
    named = holes.order_by().values_list("receipt_id", flat=True).distinct()
    pending = sorted(key for key in named if key is not None)
    for start in range(0, len(pending), BATCH):
        keys = pending[start : start + BATCH]
        records = AuditEvent.objects.in_bulk(keys)
        for key in keys:
            record = records.get(key)
            if record is None or record.action not in ERASURES or not _covers(record, key):
                sentence = (
                    f"The receipt of tombstones, audit record {key}, does not list these tombstones, or is missing."
                )
                report.add(SealFinding("receipt", sentence, key=str(key)))


def _covers(record: AuditEvent, key: int) -> bool:
    log = record.after.get("log") if isinstance(record.after, dict) else None
    holes = LogHole.objects.filter(receipt_id=key).values_list("seal_id", "slot", "blanked")
    lines = [f"{seal}:{slot}:{int(blanked)}" for seal, slot, blanked in sorted(holes)]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return isinstance(log, dict) and log == {"holes": len(lines), "digest": digest}


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
    return sql_rows(statement.format(**parts, of_agent=of_agent), values)


def _floor(table: SealedTable) -> int:
    """The key up to which every row of a table stands in a seal."""
    sealed = LogSeal.objects.filter(kind=table.name).aggregate(floor=Max("floor"))["floor"]
    horizon = LogHorizon.objects.filter(kind=table.name).values_list("floor", flat=True).first()
    return max(sealed or 0, horizon or 0)

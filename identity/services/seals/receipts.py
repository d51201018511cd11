"""Holes in seals, and the receipts of the erasures that made them."""

import hashlib
from collections.abc import Sequence

from identity.models import AuditEvent, LogHole, LogSeal
from identity.policy.sealed_tables import SealedTable
from identity.services.seals.findings import Report, SealFinding, of_row

ERASURES = ("fact.erase", "subject.erase", "document.erase", "project.erase", "agent.erase")
"""Actions of the audit records that are receipts."""
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

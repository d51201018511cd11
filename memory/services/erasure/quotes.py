"""Find rows that quote text to be erased."""

import json
from collections.abc import Sequence
from typing import Any

from django.db import connection, models

from identity.models import Agent, AuditEvent, ChangeProposal, IdentityVersion
from memory.models import Document, Fact, WorkingMemory
from memory.services.erasure.scope import Erasure, QuoteScan, erasure_of, large_tables
from memory.types import MEMORY_TYPES
from nousweb.lib.distribution import is_distributed
from nousweb.lib.transactions import sql_row

RECEIPTS = ("fact.erase", "subject.erase", "document.erase", "project.erase", "agent.erase")


def scan_tables(agent: Agent, facts: Sequence[Fact], documents: Sequence[Document] = ()) -> QuoteScan:
    """Scan the large tables for rows that quote these facts and documents in their current state."""
    erasure = erasure_of(agent, facts, documents)
    # Taken before the scan: rows that are committed during it are scanned again later.
    (since,) = sql_row("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")
    # In a cluster each server counts its own transactions, so everything is scanned while the agent is locked.
    tables = () if is_distributed() else large_tables
    return QuoteScan(erasure.needles, since, {model: quoting_keys(model, erasure) for model in tables})


def working_memory_erase(erasure: Erasure) -> int:
    """Remove quoting items, threads and tasks from working memories; returns the number of changed rows."""
    changed = 0
    for memory in rows_quoting(WorkingMemory, erasure).order_by("pk").select_for_update():
        memory.items = [item for item in memory.items if not _names(item, erasure)]
        memory.open_threads = [thread for thread in memory.open_threads if not _names(thread, erasure)]
        memory.task = "" if _names(memory.task, erasure) else memory.task
        memory.save(update_fields=["items", "open_threads", "task"])
        changed += 1
    return changed


def quoting_sql(table: str) -> str:
    """SQL condition on rows of `table`: any column contains one of the needles, which are its only parameter."""
    # The row is written as text once, and not for each needle.
    told = f"(SELECT to_jsonb({table})::text AS told OFFSET 0) AS whole"
    return f"EXISTS (SELECT 1 FROM {told}, unnest(%s::text[]) needle WHERE strpos(whole.told, needle) > 0)"  # noqa: S608


def quoting_keys(model: type[models.Model], erasure: Erasure) -> list[Any]:
    """Keys of the agent's rows that quote the erased text, ascending. Rows of an earlier scan are not scanned again."""
    rows, quote_scan = rows_quoting(model, erasure), erasure.quote_scan
    found: set[Any] = set()
    if quote_scan is not None and quote_scan.needles == erasure.needles and model in quote_scan.keys:
        found.update(quote_scan.keys[model])
        table = connection.ops.quote_name(model._meta.db_table)
        rows = rows.extra(where=[f"age({table}.xmin) <= age(%s::xid8::xid)"], params=[quote_scan.since])  # noqa: S610
    return sorted(found.union(rows.values_list("pk", flat=True)))


def rows_quoting(model: type[models.Model], erasure: Erasure) -> models.QuerySet:
    """Rows of the agent that contain an id, or a part of a text, of the erasure."""
    table = connection.ops.quote_name(model._meta.db_table)
    rows = model._default_manager.filter(agent=erasure.agent)
    return rows.extra(where=[quoting_sql(table)], params=[erasure.needles])  # noqa: S610  (names of our own tables)


def still_quoted(erasure: Erasure) -> dict[str, int]:
    """Numbers of remaining rows that quote the erased text, by table, without zeros."""
    keeping: tuple[type[models.Model], ...] = (
        *(model for one in MEMORY_TYPES.values() for model in (one.model, *one.tables)),
        WorkingMemory,
        IdentityVersion,
        ChangeProposal,
    )
    counts = {model._meta.model_name or "": rows_quoting(model, erasure).count() for model in keeping}
    # A blanked record keeps the id, so that the receipt can be found.
    trail = rows_quoting(AuditEvent, erasure).exclude(before=None, after=None, message="", object_label="")
    counts["auditevent"] = trail.exclude(action__in=RECEIPTS).count()
    return {name: count for name, count in counts.items() if count}


def _names(value: object, erasure: Erasure) -> bool:
    text = json.dumps(value, ensure_ascii=False)
    return any(needle in text for needle in erasure.needles)

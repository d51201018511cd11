"""Finding the rows that quote what is erased."""

import json
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import connection, models

from identity.models import Agent, AuditEvent, ChangeProposal, IdentityVersion
from memory.models import Document, Fact, WorkingMemory
from memory.services.erasure.scope import Erasure, Looked, erasure_of, large_tables
from memory.types import MEMORY_TYPES

RECEIPTS = ("fact.erase", "subject.erase", "document.erase", "project.erase", "agent.erase")


def tables_look(agent: Agent, facts: Sequence[Fact], documents: Sequence[Document] = ()) -> Looked:
    """Read large tables through for what quotes these, as they are now."""
    erasure = erasure_of(agent, facts, documents)
    with connection.cursor() as cursor:
        # Before the tables are read: what commits meanwhile is looked at again.
        cursor.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")
        (since,) = cursor.fetchone()
    # Servers of a cluster count their transactions each for itself: there all is read while the agent is locked.
    tables = () if settings.DB_DISTRIBUTED else large_tables
    return Looked(erasure.needles, since, {model: quoting_keys(model, erasure) for model in tables})


def mind_forget(erasure: Erasure) -> int:
    """Take what is erased out of working memories: items, threads and a task that quote one; returns how many did."""
    changed = 0
    for memory in rows_quoting(WorkingMemory, erasure).order_by("pk").select_for_update():
        memory.items = [item for item in memory.items if not _names(item, erasure)]
        memory.open_threads = [thread for thread in memory.open_threads if not _names(thread, erasure)]
        memory.task = "" if _names(memory.task, erasure) else memory.task
        memory.save(update_fields=["items", "open_threads", "task"])
        changed += 1
    return changed


def quoting_sql(table: str) -> str:
    """A condition on rows of `table`, with the needles as its one parameter: any column holds one of them."""
    return f"EXISTS (SELECT 1 FROM unnest(%s::text[]) needle WHERE strpos(to_jsonb({table})::text, needle) > 0)"  # noqa: S608


def quoting_keys(model: type[models.Model], erasure: Erasure) -> list[Any]:
    """Keys of the agent's rows that quote what is erased, ascending. What was found before is not looked for again."""
    rows, looked = rows_quoting(model, erasure), erasure.looked
    found: set[Any] = set()
    if looked is not None and looked.needles == erasure.needles and model in looked.keys:
        found.update(looked.keys[model])
        table = connection.ops.quote_name(model._meta.db_table)
        rows = rows.extra(where=[f"age({table}.xmin) <= age(%s::xid8::xid)"], params=[looked.since])  # noqa: S610
    return sorted(found.union(rows.values_list("pk", flat=True)))


def rows_quoting(model: type[models.Model], erasure: Erasure) -> models.QuerySet:
    """Rows of the agent in which an id or the beginning of a text occurs."""
    table = connection.ops.quote_name(model._meta.db_table)
    rows = model._default_manager.filter(agent=erasure.agent)
    return rows.extra(where=[quoting_sql(table)], params=[erasure.needles])  # noqa: S610  (names of our own tables)


def still_quoted(erasure: Erasure) -> dict[str, int]:
    """How many rows that are not erased quote it, by table; only those of which there are any."""
    keeping: tuple[type[models.Model], ...] = (
        *(model for one in MEMORY_TYPES.values() for model in (one.model, *one.tables)),
        WorkingMemory,
        IdentityVersion,
        ChangeProposal,
    )
    counts = {model._meta.model_name or "": rows_quoting(model, erasure).count() for model in keeping}
    # What a blank record keeps is the id, so that the receipt can be found.
    trail = rows_quoting(AuditEvent, erasure).exclude(before=None, after=None, message="", object_label="")
    counts["auditevent"] = trail.exclude(action__in=RECEIPTS).count()
    return {name: count for name, count in counts.items() if count}


def _names(value: object, erasure: Erasure) -> bool:
    text = json.dumps(value, ensure_ascii=False)
    return any(needle in text for needle in erasure.needles)

"""Export an agent with its identity and memory as lines of JSON."""

import json
from collections.abc import Generator
from typing import Any

from django.db import connection, transaction

from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.transfer.export_tables import (
    AGENT_FIELDS,
    AUDIT_TABLE,
    FORMAT,
    TABLES,
    VERSION,
    plain,
    row_of,
    rows_of,
    table_name,
)
from nousweb.lib import Invalid
from nousweb.lib.transactions import sql_change

CHUNK = 1_000


def agent_export(
    *, agent: Agent, by: Principal, with_audit: bool = False, persona: str = ""
) -> Generator[str, None, None]:
    """The lines of an agent's export, each with its line end; no tokens, and the audit trail only when asked.

    1. A header with the format, its version, and the agent.
    2. A line a row: {"table", "row"}, of both personas or of the one that is named. Ids of events are of this database;
       others are UUIDs.
    3. A line that counts the rows of each table, by which an import knows that the file is whole.

    All lines are of one moment. Raises NotAllowed: no token exports, since an export holds both personas; Invalid for a
    persona with the audit trail, which tells of both, or the subconscious alone, which builds on what is the actor's.
    """
    by.require(VIEW_SUBCONSCIOUS, agent)
    if persona not in ("", Persona.ACTOR):
        raise Invalid("persona must be actor, or empty for both.", field="persona")
    if persona and with_audit:
        raise Invalid("The audit trail covers both personas.", field="persona")
    return _lines(agent, with_audit, persona)


def _lines(agent: Agent, with_audit: bool, persona: str) -> Generator[str, None, None]:
    alone = not connection.in_atomic_block
    with transaction.atomic():
        if alone:
            sql_change("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        header = {name: plain(getattr(agent, name)) for name in AGENT_FIELDS}
        of = {"persona": persona} if persona else {}
        yield _line({"format": FORMAT, "version": VERSION, **of, "agent": header})
        counts = {}
        tables = (*TABLES, AUDIT_TABLE) if with_audit else TABLES
        for model in tables:
            name, count = table_name(model), 0
            for row in rows_of(model, agent.pk, persona).iterator(CHUNK):
                yield _line({"table": name, "row": row_of(model, row)})
                count += 1
            counts[name] = count
        yield _line({"end": counts})


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"

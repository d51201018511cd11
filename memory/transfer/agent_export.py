"""Export an agent with its identity and memory, or everything of a user, as lines of JSON."""

import json
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from django.db import connection, transaction
from django.db.models import Model

from identity.models import Agent, ApiToken, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.audit import audit_record
from memory.models import Event, KnownSource, plain
from memory.services.users import MANAGE, TYPES, personas_of
from memory.transfer.export_tables import (
    AGENT_FIELDS,
    AUDIT_TABLE,
    FORMAT,
    TABLES,
    VERSION,
    row_of,
    rows_of,
    table_name,
)
from nousweb.lib import Invalid
from nousweb.lib.bounds import user_text
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


USER_TABLES: tuple[type[Model], ...] = (Event, *TYPES.values(), KnownSource)
BATCH = 500


def user_export(*, agents: Sequence[Agent], user: str, by: Principal) -> Iterator[str]:
    """The lines of an export, of the personas that `by` is told of, after a record of it for each agent.

    Raises NotAllowed before the first line.
    """
    for agent in agents:
        by.require(MANAGE, agent)
        audit_record(by=by, action="user.export", target=agent, agent=agent, after={"user": user_text(user)})
    return _user_lines(agents, user, personas_of(by))


def _user_lines(agents: Sequence[Agent], user: str, personas: Sequence[str]) -> Iterator[str]:
    for agent in agents:
        for model in USER_TABLES:
            rows: Any = model._default_manager.filter(agent=agent, user=user, persona__in=personas).order_by("pk")
            for row in rows.iterator(BATCH):
                yield _user_line(agent, model, {"id": str(row.pk), **row_of(model, row)})
        for token in ApiToken.objects.filter(agent=agent, user=user, persona__in=personas).order_by("pk"):
            yield _user_line(agent, ApiToken, {"name": token.name, "persona": token.persona, "user": user})


def _user_line(agent: Agent, model: type[Model], row: dict[str, Any]) -> str:
    return json.dumps({"agent": agent.slug, "table": model._meta.model_name, "row": row}, ensure_ascii=False) + "\n"

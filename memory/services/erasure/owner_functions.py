"""Steps of an erasure that only the owner of the tables may do, by database functions.

memory/migrations/0001_initial.py defines them. They decide themselves which rows go, and write the
receipt: this side tells who erases and why, and what it has erased of ordinary tables.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connection, models

from identity.models import Agent, IdentityVersion
from identity.principal import Principal
from identity.services.audit import audit_draft
from memory.models import Event, Fact, FactChange, JudgeCall

OWNERS_TO_DELETE = (FactChange, Fact, Event, JudgeCall, IdentityVersion, Agent)
"""What the owner deletes with a whole agent: what only grows, and what that refers to."""
BY_THE_DATABASE = ("id", "at", "agent", "before", "after")
"""Columns of a receipt that the owner fills itself."""


def receipt_describe(
    *, by: Principal, action: str, target: models.Model, agent: Agent, reason: str, label: str
) -> dict[str, object]:
    """Who erases, why and what kind of thing, in the audit trail's terms."""
    draft = audit_draft(by=by, action=action, target=target, agent=agent, message=reason, label=label)
    columns = [column for column in draft._meta.concrete_fields if column.name not in BY_THE_DATABASE]
    return {column.attname: getattr(draft, column.attname) for column in columns}


def facts_delete(
    *,
    agent: Agent,
    fact_ids: Sequence[UUID],
    quoting: Sequence[int],
    entry: Mapping[str, object],
    rows: Mapping[str, int],
) -> dict[str, int]:
    """Delete facts, their history and the reviews of them, and blank what the audit trail says of them.

    `quoting` are records of the trail that may quote one: only those that do are blanked. Returns the rows by table,
    as the receipt has them, `rows` among them.
    """
    receipt = json.dumps({**entry, "rows": rows})
    return _called(
        "SELECT nous_erase_facts(%s, %s::uuid[], %s::bigint[], %s::jsonb)",
        [agent.pk, list(fact_ids), list(quoting), receipt],
    )


def documents_delete(
    *,
    agent: Agent,
    document_ids: Sequence[UUID],
    quoting: Sequence[int],
    entry: Mapping[str, object],
    rows: Mapping[str, int],
) -> dict[str, int]:
    """Delete documents with all of their versions, and blank what the audit trail says of them, as `facts_delete`."""
    receipt = json.dumps({**entry, "rows": rows})
    return _called(
        "SELECT nous_erase_documents(%s, %s::uuid[], %s::bigint[], %s::jsonb)",
        [agent.pk, list(document_ids), list(quoting), receipt],
    )


def project_delete(
    *, agent: Agent, project: str, entry: Mapping[str, object], rows: Mapping[str, int]
) -> dict[str, int]:
    """Delete whatever carries the key of a project, whose facts are gone already, and blank what the audit trail says
    of it. Returns the rows by table, `rows` among them."""
    receipt = json.dumps({**entry, "rows": rows})
    return _called("SELECT nous_erase_project(%s, %s, %s::jsonb)", [agent.pk, project, receipt])


def agent_delete(*, agent: Agent, entry: Mapping[str, object], rows: Mapping[str, int]) -> dict[str, int]:
    """Delete an agent of which only append-only rows and facts are left, and blank its audit trail; rows by table."""
    return _called("SELECT nous_erase_agent(%s, %s::jsonb)", [agent.pk, json.dumps({**entry, "rows": rows})])


def _called(sql: str, params: Sequence[Any]) -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        rows = cursor.fetchone()[0]
    return json.loads(rows) if isinstance(rows, str) else rows

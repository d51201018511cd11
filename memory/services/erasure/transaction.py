"""Common steps of all erasures: the transaction, the permission, the reason, and the apps' erasers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import wraps
from typing import Any, ParamSpec

from django.db import models, transaction

from identity.models import Agent, IdentityVersion
from identity.principal import Principal
from identity.services.audit import audit_draft
from memory.models import Event, Fact, FactChange, JudgeCall
from memory.services.erasure.scope import RECEIPTS, Erasure, Receipt, erasers, still_quoted
from nousweb.lib import text_check
from nousweb.lib.transactions import sql_change, sql_row, sql_rows, transaction_retried

ERASE = "memory.erase_memory"
MAX_REASON_CHARACTERS = 2_000
P = ParamSpec("P")


def erasing(service: Callable[P, tuple[Receipt, Erasure]]) -> Callable[P, Receipt]:
    """Decorator: run an erasure in one transaction, again after a deadlock with work that takes no agent lock, such as
    an embedding.

    Rows that still quote the text are counted after the transaction, when the locks are released.
    """

    @wraps(service)
    def run(*args: P.args, **kwargs: P.kwargs) -> Receipt:
        def work() -> tuple[Receipt, Erasure]:
            with transaction.atomic():
                return service(*args, **kwargs)

        receipt, erasure = transaction_retried(work)
        return receipt if erasure.of_agent else replace(receipt, still_quoted=still_quoted(erasure))

    return run


def reason_check(reason: str) -> str:
    """Validate the reason of an erasure, which is required. Raises Invalid."""
    return text_check("reason", reason, MAX_REASON_CHARACTERS, required=True)


def erasers_run(erasure: Erasure) -> dict[str, int]:
    """Run all erasers; returns numbers of rows by table."""
    rows: dict[str, int] = {}
    for eraser in erasers:
        for name, count in eraser(erasure).items():
            rows[name] = rows.get(name, 0) + count
    return rows


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


def owner_erase(
    call: str, arguments: Sequence[Any], *, entry: Mapping[str, object], rows: Mapping[str, int]
) -> dict[str, int]:
    """Call a function of the tables' owner, which deletes rows, blanks what the audit trail says of them, and writes
    the receipt of `entry` and `rows`, its last argument; returns the rows by table, `rows` among them."""
    (done,) = sql_row(f"SELECT {call}", [*arguments, json.dumps({**entry, "rows": rows})])
    return json.loads(done) if isinstance(done, str) else done


SETTLED = timedelta(minutes=5)
"""An analysis that began before an erasure may end after it, so tables are analyzed again this long after it."""

_DUE = """
WITH last AS (
    SELECT max(receipt.at) AS at FROM unnest(%s::text[]) AS one
    CROSS JOIN LATERAL (SELECT at FROM identity_auditevent WHERE action = one ORDER BY id DESC LIMIT 1) receipt),
later AS (SELECT at, at + make_interval(secs => %s) AS settled FROM last),
due AS (SELECT CASE WHEN now() >= settled THEN settled ELSE at END AS since FROM later)
SELECT s.relname FROM pg_stat_user_tables s CROSS JOIN due
WHERE s.schemaname = current_schema()
  AND coalesce(greatest(s.last_analyze, s.last_autoanalyze), '-infinity') < due.since
  AND EXISTS (SELECT 1 FROM pg_stats p WHERE p.schemaname = s.schemaname AND p.tablename = s.relname)
ORDER BY s.relname
"""


def reanalyze_tables() -> int:
    """Analyze the tables again whose planner statistics are older than the last erasure; returns their number."""
    tables = sql_rows(_DUE, [list(RECEIPTS), SETTLED.total_seconds()])
    for table in tables:
        sql_change("SELECT nous_sample_renew(%s)", table)
    return len(tables)

"""Erase an agent with all of its data."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.apps import apps
from django.db import connection, models

from identity.models import Agent, AuditEvent
from identity.principal import Principal
from identity.services.agent_lock import agent_lock_exclusive
from memory.services.erasure.owner_functions import OWNERS_TO_DELETE, agent_delete, receipt_describe
from memory.services.erasure.scope import Erasure, Receipt
from memory.services.erasure.transaction import ERASE, erasers_run, erasing, reason_check


@erasing
def agent_erase(*, agent: Agent, by: Principal, reason: str) -> tuple[Receipt, Erasure]:
    """Erase an agent with its log, memories, search index, contexts, identity, proposals and tokens.

    Its audit records stay, without quoted text. Raises NotAllowed, Invalid or NotFound.
    """
    by.require(ERASE, agent)
    reason = reason_check(reason)
    agent = agent_lock_exclusive(agent, whole=True)
    rows = erasers_run(Erasure(agent))
    for model, where in _rows_of_an_agent():
        if model not in OWNERS_TO_DELETE:
            rows[model._meta.model_name or ""] = _delete(model, where, [agent.pk])
    entry = receipt_describe(by=by, action="agent.erase", target=agent, agent=agent, reason=reason, label=agent.slug)
    return Receipt(agent_delete(agent=agent, entry=entry, rows=rows)), Erasure(agent)


def _rows_of_an_agent() -> list[tuple[type[models.Model], str]]:
    """Every table with rows of an agent and the SQL condition on those rows; the agent's own table is the last.

    Tables are found by their foreign keys, so new tables need no change here. The audit trail is excluded.
    """
    found: dict[type[models.Model], str] = {Agent: '"id" = %s'}
    while True:
        more = {
            model: condition
            for model in apps.get_models(include_auto_created=True)
            if model not in found and model is not AuditEvent and (condition := _condition(model, found))
        }
        if not more:
            # Referring tables come before the tables that they refer to.
            return list(reversed(found.items()))
        found |= more


def _condition(model: type[models.Model], found: Mapping[type[models.Model], str]) -> str:
    quote = connection.ops.quote_name
    keys = [
        key
        for key in model._meta.concrete_fields
        if isinstance(key, models.ForeignKey) and not key.null and key.related_model in found
    ]
    # A direct foreign key to the agent is preferred to a chain.
    keys.sort(key=lambda key: key.related_model is not Agent)
    for key in keys:
        if key.related_model is Agent:
            return f"{quote(key.column)} = %s"
        target = key.related_model._meta
        inner = f"SELECT {quote(target.pk.attname)} FROM {quote(target.db_table)} WHERE {found[key.related_model]}"  # noqa: S608
        return f"{quote(key.column)} IN ({inner})"
    return ""


def _delete(model: type[models.Model], where: str, params: Sequence[Any]) -> int:
    """Delete rows by SQL: Django refuses to delete rows that refer to each other."""
    with connection.cursor() as cursor:
        table = connection.ops.quote_name(model._meta.db_table)
        cursor.execute(f"DELETE FROM {table} WHERE {where}", params)  # noqa: S608
        return cursor.rowcount

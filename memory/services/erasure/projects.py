"""Erase everything of a project, of a user, or of an agent."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from django.apps import apps
from django.db import connection, models

from identity.models import Agent, ApiToken, AuditEvent, Change
from identity.principal import Principal
from identity.services.agent_lock import agent_lock_exclusive
from memory.models import Fact, LoopSummary, SearchItem, WorkingMemory, key_check
from memory.services.erasure.memories import facts_remove
from memory.services.erasure.steps import (
    ERASE,
    OWNERS_TO_DELETE,
    Erasure,
    Receipt,
    erasers_run,
    erasing,
    owner_erase,
    reason_check,
    receipt_describe,
    scan_tables,
)
from memory.services.users import MANAGE
from memory.types import MEMORY_TYPES
from nousweb.lib import Invalid, NotFound
from nousweb.lib.constrained_types import EVERYBODY
from nousweb.lib.transactions import sql_change


@erasing
def project_erase(*, agent: Agent, project: str, by: Principal, reason: str) -> tuple[Receipt, Erasure]:
    """Erase all rows of an agent with the key of a project, tasks included, in both personas: memories of all types,
    events with their loops, working memories, and the contexts and expectations of the project. Other memories that
    mention the project stay; the receipt does not name it.

    Raises NotAllowed, Invalid, or NotFound if no row has the key.
    """
    by.require(ERASE, agent)
    return _keyed_erase(agent, "project", project, by=by, reason=reason)


@erasing
def user_erase(*, agent: Agent, user: str, by: Principal, reason: str) -> tuple[Receipt, Erasure]:
    """Erase all rows of an agent with the key of a user in both personas, as `project_erase` does for a project, with
    the tokens that are bound to the user. The receipt does not name the user.

    Raises NotAllowed, Invalid, or NotFound if no row has the key.
    """
    by.require(MANAGE, agent)
    return _keyed_erase(agent, "user", user, by=by, reason=reason)


def _keyed_erase(agent: Agent, name: str, key: str, *, by: Principal, reason: str) -> tuple[Receipt, Erasure]:
    reason, key = reason_check(reason), key_check(name, key)
    if key in ("", EVERYBODY):
        raise Invalid(f"Name the {name}.", field=name)
    named: dict[str, Any] = {name: key}
    quote_scan = scan_tables(agent, list(Fact.objects.filter(agent=agent, **named).order_by("pk")))
    agent = agent_lock_exclusive(agent)
    tokens = ApiToken.objects.filter(agent=agent, **named) if name == "user" else ApiToken.objects.none()
    found = list(Fact.objects.filter(agent=agent, **named).order_by("pk").values_list("pk", flat=True))
    if not found and not key_counts(agent, **named) and not tokens.exists():
        raise NotFound(f"This {name} has no data.")
    entry = receipt_describe(by=by, action=f"{name}.erase", target=agent, agent=agent, reason=reason, label=f"A {name}")
    rows: Counter[str] = Counter()
    erasure = Erasure(agent, **named)
    if found:
        receipt, erasure = facts_remove(agent, found, quote_scan, entry, by=by, reason=reason, **named)
        rows.update(receipt.rows)
    else:
        rows.update(erasers_run(erasure))
    rows["change"] = _named_changes(agent, **named).delete()[0]
    rest = {"searchitem": SearchItem.objects.filter(agent=agent, **named).delete()[0]}
    if tokens:
        rest["apitoken"] = tokens.delete()[1][ApiToken._meta.label]
    rows.update(owner_erase(f"nous_erase_{name}(%s, %s, %s::jsonb)", [agent.pk, key], entry=entry, rows=rest))
    return Receipt(rows), erasure


def key_counts(agent: Agent, **key: str) -> dict[str, int]:
    """Numbers of rows with the key of a project or a user, by model name, without zeros."""
    kept: tuple[type[models.Model], ...] = (
        *(memory_type.model for memory_type in MEMORY_TYPES.values()),
        LoopSummary,
        WorkingMemory,
    )
    counts = {model._meta.model_name or "": model._default_manager.filter(agent=agent, **key).count() for model in kept}
    return {name: count for name, count in counts.items() if count}


def _named_changes(agent: Agent, **key: str) -> models.QuerySet[Change]:
    """Entries of the change feed about loops and sessions with a key, whose ids there are names by the writer."""
    loops = LoopSummary.objects.filter(agent=agent, **key).values("loop_id")
    sessions = WorkingMemory.objects.filter(agent=agent, **key).values("session_id")
    named = models.Q(object_type="loopsummary", object_id__in=loops)
    return Change.objects.filter(named | models.Q(object_type="workingmemory", object_id__in=sessions), agent=agent)


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
    return Receipt(owner_erase("nous_erase_agent(%s, %s::jsonb)", [agent.pk], entry=entry, rows=rows)), Erasure(agent)


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
        if isinstance(key, models.ForeignKey)
        and key.related_model in found
        # A row may be of no agent, such as figures of all; a row that may refer to another is not of that one.
        and (not key.null or key.related_model is Agent)
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
    table = connection.ops.quote_name(model._meta.db_table)
    return sql_change(f"DELETE FROM {table} WHERE {where}", params)  # noqa: S608

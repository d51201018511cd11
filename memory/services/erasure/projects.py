"""Erase everything of a project."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db import connection, models

from identity.models import Agent, AuditEvent, Change
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
from memory.types import MEMORY_TYPES
from nousweb.lib import Invalid, NotFound
from nousweb.lib.transactions import sql_change


@erasing
def project_erase(*, agent: Agent, project: str, by: Principal, reason: str) -> tuple[Receipt, Erasure]:
    """Erase all rows of an agent with the key of a project, tasks included, in both personas: memories of all types,
    events with their loops, working memories, and the contexts and expectations of the project. Other memories that
    mention the project stay; the receipt does not name it.

    Raises NotAllowed, Invalid, or NotFound if no row has the key.
    """
    by.require(ERASE, agent)
    reason = reason_check(reason)
    project = key_check("project", project)
    if not project:
        raise Invalid("Name the project.", field="project")
    quote_scan = scan_tables(agent, list(Fact.objects.filter(agent=agent, project=project).order_by("pk")))
    agent = agent_lock_exclusive(agent)
    found = list(_facts_of_project(agent, project))
    if not found and not project_counts(agent, project):
        raise NotFound("This project has no data.")
    entry = receipt_describe(by=by, action="project.erase", target=agent, agent=agent, reason=reason, label="A project")
    rows: dict[str, int] = {}
    erasure = Erasure(agent, project=project)
    if found:
        receipt, erasure = facts_remove(agent, found, quote_scan, entry, by=by, reason=reason, project=project)
        rows = receipt.rows
    else:
        rows |= erasers_run(erasure)
    rows["change"] = _named_changes(agent, project).delete()[0]
    rest = {"searchitem": SearchItem.objects.filter(agent=agent, project=project).delete()[0]}
    for name, count in owner_erase(
        "nous_erase_project(%s, %s, %s::jsonb)", [agent.pk, project], entry=entry, rows=rest
    ).items():
        rows[name] = rows.get(name, 0) + count
    return Receipt(rows), erasure


def project_counts(agent: Agent, project: str) -> dict[str, int]:
    """Numbers of rows with the key of a project, by model name, without zeros."""
    kept: tuple[type[models.Model], ...] = (
        *(memory_type.model for memory_type in MEMORY_TYPES.values()),
        LoopSummary,
        WorkingMemory,
    )
    counts = {
        model._meta.model_name or "": model._default_manager.filter(agent=agent, project=project).count()
        for model in kept
    }
    return {name: count for name, count in counts.items() if count}


def _named_changes(agent: Agent, project: str) -> models.QuerySet[Change]:
    """Entries of the change feed about loops and sessions of a project, whose ids there are names by the writer."""
    loops = LoopSummary.objects.filter(agent=agent, project=project).values("loop_id")
    sessions = WorkingMemory.objects.filter(agent=agent, project=project).values("session_id")
    named = models.Q(object_type="loopsummary", object_id__in=loops)
    return Change.objects.filter(named | models.Q(object_type="workingmemory", object_id__in=sessions), agent=agent)


def _facts_of_project(agent: Agent, project: str) -> models.QuerySet[Any, UUID]:
    return Fact.objects.filter(agent=agent, project=project).order_by("pk").values_list("pk", flat=True)


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
    table = connection.ops.quote_name(model._meta.db_table)
    return sql_change(f"DELETE FROM {table} WHERE {where}", params)  # noqa: S608

"""Erase everything of a project."""

from typing import Any
from uuid import UUID

from django.db import models

from identity.models import Agent, Change
from identity.principal import Principal
from identity.services.agent_lock import agent_lock_exclusive
from memory.models import Fact, LoopSummary, SearchItem, WorkingMemory
from memory.models.project_scope import key_check
from memory.services.erasure.facts import facts_remove
from memory.services.erasure.owner_functions import project_delete, receipt_describe
from memory.services.erasure.quotes import scan_tables
from memory.services.erasure.scope import Erasure, Receipt
from memory.services.erasure.transaction import ERASE, erasers_run, erasing, reason_check
from memory.types import MEMORY_TYPES
from nousweb.lib.errors import Invalid, NotFound


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
    for name, count in project_delete(agent=agent, project=project, entry=entry, rows=rest).items():
        rows[name] = rows.get(name, 0) + count
    return Receipt(rows), erasure


def project_counts(agent: Agent, project: str) -> dict[str, int]:
    """Numbers of rows with the key of a project, by model name, without zeros."""
    kept: tuple[type[models.Model], ...] = (*(one.model for one in MEMORY_TYPES.values()), LoopSummary, WorkingMemory)
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

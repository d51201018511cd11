"""Answering "what should this agent be told now?", and keeping the answer."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings

from context.assembly import Assembly, assemble
from context.budget import ContextBudget
from context.models import ContextRun
from context.sections import identity_section, profile_section
from identity.models import Agent
from identity.principal import Principal
from nousweb.lib import clock
from nousweb.lib.errors import Invalid
from nousweb.lib.text import unstorable_reason

MAX_INPUT_CHARACTERS = 100_000
PURGE_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class ContextResult:
    assembly: Assembly
    sections: list[dict[str, Any]]
    run_id: UUID | None


def context_assemble(
    *, agent: Agent, session_id: str, input: str, by: Principal, request: Mapping[str, Any], log: bool = True
) -> ContextResult:
    """Assemble the prompt for `input` from the memory of the persona that `by` acts as.

    With `log` the run is kept for CONTEXT_RETENTION_DAYS; a preview leaves no trace.
    """
    by.require("context.assemble_context", agent)
    for name, value in (("session_id", session_id), ("input", input)):
        if why := unstorable_reason(value):
            raise Invalid(why, field=name)
    started = time.perf_counter()
    budget = ContextBudget()
    assembly = assemble(
        [identity_section(agent, budget), profile_section(agent, by.persona, budget)],
        total_budget=budget.total,
    )
    sections = [
        {
            "label": section.label,
            "tier": section.tier,
            "tokens": section.tokens,
            "truncated": section.truncated,
            "items": [{"type": item.type, "id": item.id} for item in section.items],
        }
        for section in assembly.sections
    ]
    run = None
    if log:
        run = ContextRun.objects.create(
            agent=agent,
            persona=by.persona,
            session_id=session_id,
            input=input,
            request=dict(request),
            system_prompt=assembly.system_prompt,
            sections=sections,
            tokens=assembly.tokens,
            duration_ms=(time.perf_counter() - started) * 1000,
            principal_name=by.name,
        )
    return ContextResult(assembly, sections, run.pk if run else None)


def context_runs_purge() -> int:
    """Delete logged runs past their retention, in bounded batches; returns how many."""
    horizon = clock.now() - timedelta(days=settings.CONTEXT_RETENTION_DAYS)
    total = 0
    while True:
        batch = list(ContextRun.objects.older_than(horizon).values_list("pk", flat=True)[:PURGE_BATCH])
        if not batch:
            return total
        total += ContextRun.objects.filter(pk__in=batch).delete()[0]

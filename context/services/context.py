"""Answering "what should this agent be told now?", and keeping the answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction

from context.engine.assembly import Section, Verdict
from context.engine.pipeline import Prepared, context_prepare
from context.engine.request import ContextRequest
from context.models import ContextRun
from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_again, agent_held
from memory.persona import PersonaMemory, memory_of, subconscious_memory_of
from nousweb.lib import clock
from nousweb.lib.sql import instance_insert
from nousweb.lib.tokens import estimate_tokens

logger = structlog.get_logger(__name__)

PURGE_BATCH = 5_000
UNHELD_TRIES = 3
"""Times that a prompt is assembled without making an erasure wait for it."""
ASSEMBLE = "context.assemble_context"


@dataclass(frozen=True, slots=True)
class ContextResult:
    """A prompt with all that led to it; `run_id` is None when it left no trace."""

    persona: str
    prepared: Prepared
    decisions: dict[str, Any]
    fingerprint: dict[str, Any]
    sections: list[dict[str, Any]]
    candidates: list[dict[str, Any]]
    run_id: UUID | None = None


def context_assemble(
    *,
    agent: Agent,
    request: ContextRequest,
    by: Principal,
    log: bool = True,
    explain: bool = False,
    persona: str | None = None,
) -> ContextResult:
    """Assemble the prompt for a request from the memory that `by` may read.

    With `log` the run is kept for CONTEXT_RETENTION_DAYS and told to the log as `context_assembled`; a dry run leaves
    no trace. What was read before something of the agent was erased is neither kept nor answered, but read anew.
    With `explain` there are verdicts on what was replaced or retired too. People with the right may ask for the
    subconscious `persona`; a token's own cannot be changed.
    """
    by.require(ASSEMBLE, agent)
    assembled = partial(_assembled, request=request, by=by, explain=explain, persona=persona)
    if not log:
        return assembled(agent)
    for _ in range(UNHELD_TRIES):
        result = assembled(agent)
        if run_id := _log(agent, result, by):
            return replace(result, run_id=run_id)
        agent = agent_again(agent)
    # An erasure came in between each time; the next one waits.
    with transaction.atomic(), agent_held(agent.pk):
        agent = agent_again(agent)
        result = assembled(agent)
        return replace(result, run_id=_log(agent, result, by))


def _assembled(
    agent: Agent, *, request: ContextRequest, by: Principal, explain: bool, persona: str | None
) -> ContextResult:
    view = context_view(agent, by, persona)
    prepared = context_prepare(view, request, explain=explain)
    return ContextResult(
        view.persona,
        prepared,
        prepared.decisions(),
        prepared.fingerprint.as_json(),
        [section_json(section) for section in prepared.assembly.sections],
        [verdict_json(verdict) for verdict in prepared.assembly.verdicts],
    )


def section_json(section: Section) -> dict[str, Any]:
    """A section as it is answered and logged, its items with the very text that was sent."""
    return {
        "label": section.label,
        "key": section.key,
        "tier": section.tier,
        "tokens": section.tokens,
        "budget": section.budget,
        "truncated": section.truncated,
        "items": [
            {"type": item.type, "id": item.id, "text": item.text, "tokens": estimate_tokens(item.text)}
            for item in section.items
        ],
    }


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """A candidate with what became of it."""
    candidate = verdict.candidate
    return {
        "type": candidate.type,
        "id": candidate.id,
        "text": candidate.text[:500],
        "label": candidate.label,
        "section": candidate.section,
        "scope": candidate.scope,
        "kinds": sorted(candidate.kinds),
        "verdict": str(verdict.code),
        "reason": verdict.reason,
        "remedy": verdict.remedy,
        "score": round(verdict.score, 4),
        "relevance": round(candidate.relevance, 4),
        "threshold": candidate.threshold,
        "cosine": None if candidate.cosine is None else round(candidate.cosine, 4),
        "lexical": round(candidate.lexical, 4),
        "importance": candidate.importance,
        "tokens": verdict.tokens,
        "compressed": verdict.compressed,
        "place": verdict.place,
        "pinned": candidate.pinned,
        "superseded_by": candidate.superseded_by,
        "factors": [[name, round(factor, 3)] for name, factor in verdict.factors],
        "happened_at": candidate.happened_at.isoformat().replace("+00:00", "Z"),
    }


LOG_DEFAULTS: Mapping[str, Any] = {
    "label": "",
    "scope": "global",
    "remedy": "",
    "lexical": 0.0,
    "importance": 0.5,
    "tokens": 0,
    "compressed": False,
    "place": "",
    "pinned": False,
    "superseded_by": "",
    "factors": [],
}
"""What most candidates have in common is not logged with each: the log is the largest table there is."""


def candidates_logged(candidates: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Candidates as `verdict_json` gives them, without what is `LOG_DEFAULTS`."""
    return [
        {name: value for name, value in one.items() if name not in LOG_DEFAULTS or value != LOG_DEFAULTS[name]}
        for one in candidates
    ]


def candidates_of_log(logged: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Candidates as they were before `candidates_logged`."""
    return [{**LOG_DEFAULTS, **one} for one in logged]


def context_runs_purge() -> int:
    """Delete logged runs past their retention, in bounded batches; returns how many."""
    horizon = clock.now() - timedelta(days=settings.CONTEXT_RETENTION_DAYS)
    total = 0
    while True:
        batch = list(ContextRun.objects.older_than(horizon).values_list("pk", flat=True)[:PURGE_BATCH])
        if not batch:
            return total
        total += ContextRun.objects.filter(pk__in=batch).delete()[0]


def context_view(agent: Agent, by: Principal, persona: str | None = None) -> PersonaMemory:
    """The memory that a prompt for `by` is made of; only people with the right may name the subconscious."""
    if by.is_person and persona == "subconscious":
        return subconscious_memory_of(agent, by)
    return memory_of(agent, by)


def _log(agent: Agent, result: ContextResult, by: Principal) -> UUID | None:
    """Keep what was assembled; None when something was erased since `agent` was read, and nothing is kept."""
    prepared, decided = result.prepared, result.prepared.decided
    duration = sum(value for name, value in prepared.timings.items() if "." not in name)
    run = ContextRun(
        agent=agent,
        persona=result.persona,
        session_id=decided.request.session_id,
        input=decided.request.input,
        request=decided.request.as_json(),
        system_prompt=prepared.assembly.system_prompt,
        sections=result.sections,
        tokens=prepared.assembly.tokens,
        budget_tokens=decided.budget.total,
        frame=decided.frame.frame.id,
        profile=decided.profile.profile_id,
        decisions=result.decisions,
        candidates=candidates_logged(result.candidates),
        fingerprint_id=prepared.fingerprint.id,
        fingerprint=result.fingerprint,
        failed_sections=[list(failure) for failure in prepared.assembly.failed],
        timings=dict(prepared.timings),
        as_of=decided.request.as_of,
        duration_ms=round(duration, 2),
        principal_name=by.name,
    )
    kept = instance_insert(
        run,
        durable=settings.CONTEXT_LOG_DURABLE,
        where="nous_agent_hold(%(agent_id)s::bigint) = %(erasures)s::bigint",
        values={"erasures": agent.erasures},
    )
    if not kept:
        return None
    logger.info(
        "context_assembled",
        run_id=str(run.pk),
        task_id=decided.request.session_id,
        agent=agent.slug,
        agent_kind=agent.kind,
        profile_id=decided.profile.profile_id,
        fingerprint=result.fingerprint,
        items_selected=sum(len(section["items"]) for section in result.sections),
        items_available=sum(verdict.candidate.active for verdict in prepared.assembly.verdicts),
        budget_tokens=decided.budget.total,
        duration_ms=run.duration_ms,
    )
    return run.pk

"""Assemble a context for an agent, and log it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction

from context.engine.analysis.request import ContextRequest
from context.engine.assembly import RETIRED_VERDICTS, VerdictCode
from context.engine.context_record import ContextRecord
from context.engine.pipeline import context_build
from context.engine.retrieval.censors import effective_triggers
from context.models import ASSEMBLE, ContextRun
from context.services.agent_response import INPUT, counts, triggers_count
from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_lock_shared, agent_reload
from identity.services.change_feed import feed_change_draft
from memory.models.project_scope import scope_check
from memory.persona import persona_memory
from memory.types import MEMORY_TYPES
from nousweb.lib import clock
from nousweb.lib.prepared_statements import instance_insert
from nousweb.lib.recorded_metrics import CONTEXT_MEMORIES, CONTEXT_SECONDS, CONTEXT_TOKENS
from nousweb.lib.recorded_metrics import record as record_measure
from nousweb.lib.tracing import Value, span, trace_id, traced
from nousweb.lib.transactions import transaction_retried

logger = structlog.get_logger(__name__)

PURGE_BATCH = 5_000
UNHELD_TRIES = 3
"""Times that a prompt is assembled without making an erasure wait for it."""


def context_assemble(
    request: ContextRequest, *, agent: Agent, by: Principal, persona: str | None = None
) -> ContextRecord:
    """Assemble the prompt for a request from the memory that `by` may read.

    The run is stored for CONTEXT_RETENTION_DAYS and logged as `context_assembled`, and the triggers of the input are
    counted with it, once; a dry run leaves no trace. If something of the agent is erased meanwhile, the prompt is
    neither stored nor returned, but assembled again. People with the permission may request the subconscious `persona`;
    a token's own cannot be changed.
    """
    by.require(ASSEMBLE, agent)
    scope_check(request.scope, by)
    about = {"gen_ai.agent.id": agent.slug, "gen_ai.conversation.id": request.session_id}
    with span("context", about) as within:
        record = _assembled(request, agent, by, persona)
        if traced():
            within.set_attributes(_figures(record))
    return record


def _assembled(request: ContextRequest, agent: Agent, by: Principal, persona: str | None) -> ContextRecord:
    if request.dry_run:
        return context_build(persona_memory(agent, by, persona), request)
    for _ in range(UNHELD_TRIES):
        record = context_build(persona_memory(agent, by, persona), request)
        if run_id := _log(agent, record, by):
            return replace(record, id=run_id)
        agent = agent_reload(agent)
    # An erasure came in between each time; the next one waits.
    with transaction.atomic(), agent_lock_shared(agent.pk):
        agent = agent_reload(agent)
        record = context_build(persona_memory(agent, by, persona), request)
        return replace(record, id=_log(agent, record, by))


def _figures(record: ContextRecord) -> Mapping[str, Value]:
    """The attributes of a prompt in a trace, without any of its words."""
    return {
        "nous.context.run_id": str(record.id or ""),
        "nous.context.persona": record.persona,
        "nous.context.frame": record.frame_id,
        "nous.context.profile": record.profile_id,
        "nous.context.tokens": record.tokens,
        "nous.context.budget": record.budget_tokens,
        "nous.context.candidates": len(record.candidates),
        "gen_ai.memory.record.count": _memories(record),
    }


def _memories(record: ContextRecord) -> int:
    """The number of memories in the prompt, core memory and pins included."""
    return sum(item["type"] in MEMORY_TYPES for section in record.sections for item in section["items"])


def context_runs_purge() -> int:
    """Delete logged runs past their retention, in bounded batches; returns how many."""
    horizon = clock.now() - timedelta(days=settings.CONTEXT_RETENTION_DAYS)
    total = 0
    while True:
        batch = list(ContextRun.objects.older_than(horizon).values_list("pk", flat=True)[:PURGE_BATCH])
        if not batch:
            return total
        total += ContextRun.objects.filter(pk__in=batch).delete()[0]


def _log(agent: Agent, record: ContextRecord, by: Principal) -> UUID | None:
    """Store the prompt. Returns None, and stores nothing, if something was erased since `agent` was read."""
    run = record.as_run(agent=agent, principal_name=by.name, trace_id=trace_id())
    check = record.censors[INPUT]

    def insert() -> bool:
        return instance_insert(
            run,
            durable=settings.CONTEXT_LOG_DURABLE,
            where="nous_agent_hold(%(agent_id)s::bigint) = %(erasures)s::bigint",
            values={"erasures": agent.erasures},
            also_insert=feed_change_draft("context.assembled", agent, run.persona, "contextrun", run.pk),
        )

    def insert_and_count() -> bool:
        with transaction.atomic():
            kept = insert()
            if kept:
                triggers_count(run, INPUT, check, by)
        return kept

    # Without triggers, one statement without a transaction is enough.
    if not (transaction_retried(insert_and_count) if counts(run, check, by) else insert()):
        return None
    verdicts = [one["verdict"] for one in record.candidates]
    logger.info(
        "context_assembled",
        run_id=str(run.pk),
        task_id=record.request["task"] or run.session_id,
        session_id=run.session_id,
        agent=agent.slug,
        agent_kind=agent.kind,
        profile_id=run.profile,
        profile_override=record.request["profile_override"],
        fingerprint=record.fingerprint,
        # Both count searched memories: always-on items are not selected.
        items_selected=verdicts.count(VerdictCode.INCLUDED),
        items_available=len([verdict for verdict in verdicts if verdict not in RETIRED_VERDICTS]),
        budget_tokens=record.budget_tokens,
        duration_ms=run.duration_ms,
        censor_verdict=check["verdict"],
        censors=[trigger["id"] for trigger in effective_triggers(check)],
    )
    record_measure(CONTEXT_SECONDS, run.duration_ms / 1000)
    record_measure(CONTEXT_TOKENS, run.tokens)
    record_measure(CONTEXT_MEMORIES, _memories(record))
    return run.pk


def context_replay(*, run: ContextRun, by: Principal, **changes: Any) -> ContextRecord:
    """Assemble the logged request again, today; `changes` are fields of ContextRequest, as `frame` or `as_of`.

    The persona is that of the run, and people need the permission to see it. Raises Invalid, NotAllowed, NotFound.
    """
    by.require("context.view_contextrun", run.agent)
    request = replace(ContextRequest.of_json(run.request), **changes, dry_run=True, explain=True)
    return context_assemble(agent=run.agent, request=request, by=by, persona=run.persona)

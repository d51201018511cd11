"""The API of contexts: assemble a prompt, record the answer and its outcome."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Router

from context.api.schemas import (
    ITEM_DEFAULTS,
    CandidateOut,
    ContextIn,
    ContextOut,
    ItemOut,
    OutcomeIn,
    OutcomeOut,
    ResponseIn,
    ResponseOut,
    TriggeredCensorOut,
)
from context.engine.context_record import ContextRecord
from context.engine.retrieval.censors import effective_triggers
from context.selectors import run_called
from context.services.context import context_assemble, context_outcome, context_respond
from identity.selectors import agent_called, caller_of
from nousweb.lib.constrained_types import AgentSlug
from nousweb.lib.schemas import CHANGE_REFUSALS, REFUSALS, part_of, raw_json_response
from nousweb.lib.tracing import trace_id

router = Router(tags=["context"])


@router.post("/context", response={200: ContextOut, **REFUSALS}, summary="Assemble a prompt")
def context_post(request: HttpRequest, payload: ContextIn, agent: AgentSlug = "") -> Any:
    """The prompt for `input`, its sections and the memories in them; the answer is logged under its `id`.

    The input is checked against the censors: `censors` lists those that it triggers, counted once unless it is a dry
    run or a historical context. The client must stop if `censor_verdict` is `block`.
    """
    found, by = agent_called(request, agent)
    record = context_assemble(payload.as_request(), agent=found, by=by)
    return raw_json_response(_prompt(record, explain=payload.explain))


@router.post("/context/{run_id}/response", response={200: ResponseOut, **CHANGE_REFUSALS}, summary="Report the answer")
def context_response(request: HttpRequest, run_id: UUID, payload: ResponseIn) -> Any:
    """The included memories that the answer referred to; later searches prefer memories that were used.

    The answer is checked against the censors in force now, and each triggered censor is counted once. The same answer
    again gets the first response; another one is refused.
    """
    by = caller_of(request)
    found = context_respond(run=run_called(by, run_id), response=payload.response, by=by, censors=payload.censors)
    return {"items": found.uses, **_check(found.check)}


@router.post("/context/{run_id}/outcome", response={200: OutcomeOut, **REFUSALS}, summary="Report how it ended")
def context_outcome_post(request: HttpRequest, run_id: UUID, payload: OutcomeIn) -> Any:
    """Success or failure of the task, to be related to the fingerprint of its context."""
    by = caller_of(request)
    run = context_outcome(run=run_called(by, run_id), outcome=payload.outcome, note=payload.note, by=by)
    return {"id": run.pk, "outcome": run.outcome, "note": run.outcome_note}


def _prompt(record: ContextRecord, *, explain: bool) -> dict[str, Any]:
    """The arguments of `ContextOut`, from the record of a context."""
    return {
        "id": record.id,
        "system_prompt": record.system_prompt,
        "tokens": record.tokens,
        "blocks": [block.as_json() for block in record.blocks],
        "sections": [
            {**section, "items": [part_of(ItemOut, {**ITEM_DEFAULTS, **item}) for item in section["items"]]}
            for section in record.sections
        ],
        "truncated": record.truncated,
        "budget": record.budget_tokens,
        "frame": record.decisions["frame"],
        "profile": record.profile_id,
        "fingerprint": record.fingerprint,
        "failed": record.failed_sections,
        "degraded": record.degraded,
        "timings": record.timings,
        "trace_id": trace_id(),
        **_check(record.censors["input"]),
        "explanation": record.decisions if explain else None,
        "candidates": [part_of(CandidateOut, candidate) for candidate in record.candidates] if explain else None,
    }


def _check(check: Mapping[str, Any]) -> dict[str, Any]:
    """The result of the censors for a text, from its logged check."""
    return {
        "censor_verdict": check["verdict"],
        "censor_reason": check["reason"],
        "censors": [
            part_of(TriggeredCensorOut, trigger)
            | {"spans": [{"start": start, "end": end} for start, end in trigger["spans"]]}
            for trigger in effective_triggers(check)
        ],
    }

"""Assemble a context for an agent, and log it; record the response to it: the answer, its references to memories, and
the outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction

from context.engine.analysis.request import CENSOR_MODES, ContextRequest
from context.engine.assembly import RETIRED_VERDICTS, VerdictCode
from context.engine.assembly.prompt_section import line_parts
from context.engine.context_record import ContextRecord
from context.engine.pipeline import context_build
from context.engine.retrieval.censors import active_censors, censors_check, check_skipped, effective_triggers
from context.engine.retrieval.recent_conversations import RECENT_SECTION
from context.feedback.reference_detector import MAX_RESPONSE_CHARACTERS, Reference, answer_references
from context.feedback.sentence_notes import findings_of, sentence_notes
from context.models import ASSEMBLE, REPORT, ContextRun, MemoryUsage
from identity.models import Agent, AuditEvent, AuditEventQuerySet
from identity.principal import Principal
from identity.services.agent_lock import agent_lock_shared, agent_reload, agent_transaction
from identity.services.audit import audit_record
from identity.services.change_feed import feed_change_draft, feed_change_record
from memory.models import (
    Keys,
    scope_check,
)
from memory.persona import VIEWS, persona_memory
from memory.policy import MAX_REMARK_CHARACTERS
from memory.services.censors import censors_count
from memory.types import MEMORY_TYPES
from nousweb.lib import Conflict, Invalid, choice_check, clock, existing, length_check, storable_check
from nousweb.lib.prepared_statements import instance_insert
from nousweb.lib.recorded_metrics import CONTEXT_MEMORIES, CONTEXT_SECONDS, CONTEXT_TOKENS
from nousweb.lib.recorded_metrics import record as record_measure
from nousweb.lib.tracing import span, trace_id, traced
from nousweb.lib.transactions import transaction_retried

INPUT, ANSWER = "input", "answer"


def answer_check(run: ContextRun, answer: str, censors: str | None = None) -> dict[str, Any]:
    """Check an answer against the active censors of the run's persona; returns the check as it is logged.

    `censors` is "check" or "off"; the default is the setting of the request for the prompt. Do not call it in a
    transaction: it may wait for an embedder. Raises Invalid.
    """
    mode = choice_check("censors", censors or run.request.get("censors") or "check", CENSOR_MODES)
    return check_skipped() if mode == "off" else censors_check(answer, active_censors(VIEWS[run.persona](run.agent)))


def counts(run: ContextRun, check: Mapping[str, Any], by: Principal) -> bool:
    """Whether a check is counted: it has triggers, is not of the past, and `by` is an agent or a person who may count.

    Tokens count whatever their scopes: censors act by themselves.
    """
    return bool(check["triggers"]) and run.as_of is None and (by.token is not None or by.may("memory.trigger_censor"))


def triggers_count(run: ContextRun, side: str, check: Mapping[str, Any], by: Principal) -> None:
    """Count each censor that matched, once for this side ("input" or "answer") of the run.

    Called in the transaction that keeps the check with the run, which is kept once.
    """
    if not counts(run, check, by):
        return
    censors_count(
        agent=run.agent,
        persona=run.persona,
        matched=[trigger["id"] for trigger in check["triggers"] if trigger["matched"]],
        timed_out=[trigger["id"] for trigger in check["triggers"] if not trigger["matched"]],
        verdict=check["verdict"],
        by=by,
        about={"run": str(run.pk), "side": side},
    )


ANSWERED = "Another answer to this context has been reported already."
RECALLED = "Recalled"
"""In place of a section, for memories that were recalled in the middle of the turn."""
TRIES = 3


@dataclass(frozen=True, slots=True)
class ItemUse:
    """One memory shown; `overlap` in [0, 1] is how surely the answer refers to it (reference_detector.py)."""

    type: str
    id: str
    overlap: float
    referenced: bool


@dataclass(frozen=True, slots=True)
class ReportedResponse:
    """The result of reporting a response: the memories that it refers to, and its check (`censors_check`)."""

    uses: list[ItemUse]
    check: Mapping[str, Any]


def context_respond(*, run: ContextRun, response: str, by: Principal, censors: str | None = None) -> ReportedResponse:
    """Store the response, record which of the shown memories it refers to, and check it against the censors.

    Triggered censors are counted once. `censors` is "check" or "off"; the default is the setting of the request for the
    prompt. The same response again changes nothing and has the first result. Raises Invalid, NotAllowed, NotFound, and
    Conflict for another response. Do not call it in a transaction: it may wait for an embedder.
    """
    by.require(REPORT, run.agent)
    length_check("response", storable_check("response", response), MAX_RESPONSE_CHARACTERS)
    if run.responded_at is not None:
        return _first_report(run, response)
    check = answer_check(run, response, censors)
    for _ in range(TRIES):
        # Read before locks are taken.
        recalls = run.recalls.count()
        shown = memories_shown(run)
        found = answer_references(run, response, [item for _, item in shown])
        references = [(section, item, one) for (section, item), one in zip(shown, found, strict=True)]
        finding = _worst_finding(response, references)
        report = _keep(
            run=run, response=response, check=check, references=references, finding=finding, recalls=recalls, by=by
        )
        if report is not None:
            return report
    raise Conflict("Memories are still being recalled for this context. Report the answer after the recall has ended.")


def _worst_finding(response: str, references: Sequence[tuple[str, Mapping[str, Any], Reference]]) -> str:
    marks = {place: list(one.spans) for place, (_, _, one) in enumerate(references) if one.referenced}
    texts = {place: line_parts(item["text"])["text"] for place, (_, item, _) in enumerate(references)}
    return next((one.kind for _, one in findings_of(sentence_notes(response, marks, texts))), "")


@agent_transaction(of="run")
def _keep(
    *,
    run: ContextRun,
    response: str,
    check: Mapping[str, Any],
    references: Sequence[tuple[str, Mapping[str, Any], Reference]],
    finding: str,
    recalls: int,
    by: Principal,
) -> ReportedResponse | None:
    """Store the result; None if there are more recalls by now than the `recalls` that were evaluated."""
    run = run_lock(run)
    if run.responded_at is not None:
        return _first_report(run, response)
    if run.recalls.count() != recalls:
        return None
    # A person may judge the task before its answer is reported.
    if run.outcome and (judged := outcome_records(run).first()) and judged.author_kind == AuditEvent.Kind.PERSON:
        finding = ""
    uses: list[ItemUse] = []
    rows: list[MemoryUsage] = []
    moment = clock.now()
    for section, item, reference in references:
        use = ItemUse(item["type"], item["id"], reference.score, reference.referenced)
        uses.append(use)
        rows.append(
            MemoryUsage(
                run=run,
                agent_id=run.agent_id,
                persona=run.persona,
                item_type=use.type,
                item_id=use.id,
                referenced=use.referenced,
                overlap=use.overlap,
                spans=[list(span) for span in reference.spans] if use.referenced else [],
                tokens=item.get("tokens", 0),
                section=section,
                counted=by.writes(Keys(item.get("project", ""), user=item.get("user", ""))),
                at=moment,
            )
        )
    MemoryUsage.objects.bulk_create(rows, ignore_conflicts=True)
    ContextRun.objects.filter(agent=run.agent_id, pk=run.pk).update(
        responded_at=moment, response=response, finding=finding, censors={**run.censors, ANSWER: check}
    )
    triggers_count(run, ANSWER, check, by)
    feed_change_record(
        kind="context.answered", agent=run.agent, persona=run.persona, object_type="contextrun", object_id=run.pk
    )
    return ReportedResponse(uses, check)


def _first_report(run: ContextRun, response: str) -> ReportedResponse:
    """The result of the report that was made. Raises Conflict if its answer is another one."""
    if run.response != response or ANSWER not in run.censors:
        raise Conflict(ANSWERED)
    usages = MemoryUsage.objects.filter(agent=run.agent_id, run=run).order_by("id")
    uses = [ItemUse(usage.item_type, usage.item_id, usage.overlap, usage.referenced) for usage in usages]
    return ReportedResponse(uses, run.censors[ANSWER])


@agent_transaction(of="run")
def context_outcome(*, run: ContextRun, outcome: str, note: str = "", by: Principal) -> ContextRun:
    """Record the outcome of the task of the prompt: "success" or "failure". It may be corrected later; the same again
    changes nothing. A person who judges an answer knows more than its words tell (`finding`)."""
    by.require(REPORT, run.agent)
    if outcome not in (ContextRun.Outcome.SUCCESS, ContextRun.Outcome.FAILURE):
        raise Invalid("outcome must be success or failure.", field="outcome")
    length_check("note", storable_check("note", note), MAX_REMARK_CHARACTERS)
    run = run_lock(run)
    before, finding = run.outcome, run.finding if by.token else ""
    if (before, run.outcome_note, run.finding) == (outcome, note.strip(), finding):
        return run
    run.put(outcome=outcome, outcome_note=note.strip(), finding=finding)
    audit_record(
        by=by,
        action="context.outcome",
        target=run,
        agent=run.agent,
        before={"outcome": before},
        after={"outcome": outcome},
        message=run.outcome_note,
    )
    return run


def outcome_records(run: ContextRun) -> AuditEventQuerySet:
    """The records of who reported the outcome of a run, the latest first."""
    records = AuditEvent.objects.filter(agent=run.agent_id, action="context.outcome")
    return records.of_object("contextrun", run.pk).order_by("-id")


def run_lock(run: ContextRun) -> ContextRun:
    """Lock and reload the run. Raises NotFound if it was erased or purged meanwhile."""
    rows = ContextRun.objects.select_for_update(of=("self",)).select_related("agent")
    return existing(
        rows.filter(agent=run.agent_id, pk=run.pk).first(),
        "There is no such context. Runs are deleted when their retention ends.",
    )


def memories_shown(run: ContextRun) -> list[tuple[str, dict[str, Any]]]:
    """The memories in the prompt with their texts, and those recalled later in the turn; each once.

    Other items (identity, frame) and titles of the last conversations are omitted. Of two texts of one memory the
    longer counts.
    """
    sections = [section for section in run.sections if section["key"] != RECENT_SECTION]
    in_prompt = [(section["label"], item) for section in sections for item in section["items"]]
    recalled = [(RECALLED, item) for recall in run.recalls.all() for item in recall.items]
    shown: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    for section, item in (*in_prompt, *recalled):
        if item["type"] not in MEMORY_TYPES or not item.get("text"):
            continue
        key = item["type"], item["id"]
        if key not in shown:
            shown[key] = section, item
        elif len(item["text"]) > len(shown[key][1]["text"]):
            shown[key] = shown[key][0], {**shown[key][1], "text": item["text"]}
    return list(shown.values())


logger = structlog.get_logger(__name__)

PURGE_BATCH = 5_000
UNHELD_TRIES = 3
"""Times that a prompt is assembled without making an erasure wait for it."""


def context_assemble(
    request: ContextRequest,
    *,
    agent: Agent,
    by: Principal,
    persona: str | None = None,
    identity: Mapping[str, str] | None = None,
) -> ContextRecord:
    """Assemble the prompt for a request from the memory that `by` may read.

    The run is stored for CONTEXT_RETENTION_DAYS and logged as `context_assembled`, and the triggers of the input are
    counted with it, once; a dry run leaves no trace. If something of the agent is erased meanwhile, the prompt is
    neither stored nor returned, but assembled again. People with the permission may request the subconscious `persona`;
    a token's own cannot be changed. A dry run may have other texts of `identity` sections.
    """
    by.require(ASSEMBLE, agent)
    request = replace(request, user=scope_check(request.scope, by).user)
    about = {"gen_ai.agent.id": agent.slug, "gen_ai.conversation.id": request.session_id}
    with span("context", about) as within:
        if request.dry_run:
            record = context_build(persona_memory(agent, by, persona), request, identity)
        else:
            record = _assembled(request, agent, by, persona)
        if traced():
            # Without any of its words.
            within.set_attributes(
                {
                    "nous.context.run_id": str(record.id or ""),
                    "nous.context.persona": record.persona,
                    "nous.context.frame": record.frame_id,
                    "nous.context.profile": record.profile_id,
                    "nous.context.tokens": record.tokens,
                    "nous.context.budget": record.budget_tokens,
                    "nous.context.candidates": len(record.candidates),
                    "gen_ai.memory.record.count": _memories(record),
                }
            )
    return record


def _assembled(request: ContextRequest, agent: Agent, by: Principal, persona: str | None) -> ContextRecord:
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


def _memories(record: ContextRecord) -> int:
    """The number of memories in the prompt, core memory and pins included."""
    return sum(item["type"] in MEMORY_TYPES for section in record.sections for item in section["items"])


def context_runs_purge() -> int:
    """Delete logged runs past their retention, in bounded batches; returns how many."""
    horizon = clock.now() - timedelta(days=settings.CONTEXT_RETENTION_DAYS)
    total = 0
    while True:
        batch = list(ContextRun.objects.filter(created_at__lt=horizon).values_list("pk", flat=True)[:PURGE_BATCH])
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
    verdicts = [candidate["verdict"] for candidate in record.candidates]
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

"""Record an agent's response to a prompt: the answer, its references to memories, and the outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from context.engine.analysis.request import CENSOR_MODES
from context.engine.retrieval.censors import active_censors, censors_check, check_skipped
from context.feedback.answer_references import answer_references
from context.feedback.reference_detector import MAX_RESPONSE_CHARACTERS, Reference
from context.models import REPORT, ContextRun, MemoryUsage
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from identity.services.change_feed import feed_change_record
from memory.persona import VIEWS
from memory.policy import MAX_REMARK_CHARACTERS
from memory.services.censors import censors_count
from memory.types import MEMORY_TYPES
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, Invalid, NotFound
from nousweb.lib.validation import choice_check, unstorable_reason

TRIGGER = "memory.trigger_censor"
INPUT, ANSWER = "input", "answer"


def answer_check(run: ContextRun, answer: str, censors: str | None = None) -> dict[str, Any]:
    """Check an answer against the active censors of the run's persona; returns the check as it is logged.

    `censors` is "check" or "off"; the default is the setting of the request for the prompt. Do not call it in a
    transaction: it may wait for an embedder. Raises Invalid.
    """
    mode = choice_check("censors", censors or run.request.get("censors") or "check", CENSOR_MODES)
    if mode == "off":
        return check_skipped()
    return censors_check(answer, active_censors(VIEWS[run.persona](run.agent)))


def counts(run: ContextRun, check: Mapping[str, Any], by: Principal) -> bool:
    """Whether a check is counted: it has triggers, is not of the past, and `by` is an agent or a person who may count.

    Tokens count whatever their scopes: censors act by themselves.
    """
    return bool(check["triggers"]) and run.as_of is None and (by.token is not None or by.may(TRIGGER))


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
    _text_check("response", response, MAX_RESPONSE_CHARACTERS)
    if run.responded_at is not None:
        return _first_report(run, response)
    check = answer_check(run, response, censors)
    for _ in range(TRIES):
        # Read before locks are taken.
        recalls = run.recalls.count()
        shown = memories_shown(run)
        found = answer_references(run, response, [item for _, item in shown])
        references = [(section, item, one) for (section, item), one in zip(shown, found, strict=True)]
        report = _keep(run=run, response=response, check=check, references=references, recalls=recalls, by=by)
        if report is not None:
            return report
    raise Conflict("Memories are still being recalled for this context. Report the answer after the recall has ended.")


@agent_transaction(of="run")
def _keep(
    *,
    run: ContextRun,
    response: str,
    check: Mapping[str, Any],
    references: Sequence[tuple[str, Mapping[str, Any], Reference]],
    recalls: int,
    by: Principal,
) -> ReportedResponse | None:
    """Store the result; None if there are more recalls by now than the `recalls` that were evaluated."""
    run = run_lock(run)
    if run.responded_at is not None:
        return _first_report(run, response)
    if run.recalls.count() != recalls:
        return None
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
                counted=by.writes_project(item.get("project", "")),
                at=moment,
            )
        )
    MemoryUsage.objects.bulk_create(rows, ignore_conflicts=True)
    ContextRun.objects.filter(agent=run.agent_id, pk=run.pk).update(
        responded_at=moment, response=response, censors={**run.censors, ANSWER: check}
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
    uses = [ItemUse(one.item_type, one.item_id, one.overlap, one.referenced) for one in usages]
    return ReportedResponse(uses, run.censors[ANSWER])


@agent_transaction(of="run")
def context_outcome(*, run: ContextRun, outcome: str, note: str = "", by: Principal) -> ContextRun:
    """Record the outcome of the task of the prompt: "success" or "failure". It may be corrected later; the same again
    changes nothing."""
    by.require(REPORT, run.agent)
    if outcome not in (ContextRun.Outcome.SUCCESS, ContextRun.Outcome.FAILURE):
        raise Invalid("outcome must be success or failure.", field="outcome")
    _text_check("note", note, MAX_REMARK_CHARACTERS)
    run = run_lock(run)
    before = run.outcome
    if (before, run.outcome_note) == (outcome, note.strip()):
        return run
    run.outcome, run.outcome_note = outcome, note.strip()
    run.save(update_fields=["outcome", "outcome_note"])
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


def run_lock(run: ContextRun) -> ContextRun:
    """Lock and reload the run. Raises NotFound if it was erased or purged meanwhile."""
    rows = ContextRun.objects.select_for_update(of=("self",)).select_related("agent")
    found = rows.filter(agent=run.agent_id, pk=run.pk).first()
    if found is None:
        raise NotFound("There is no such context. Runs are deleted when their retention ends.")
    return found


def memories_shown(run: ContextRun) -> list[tuple[str, dict[str, Any]]]:
    """The memories in the prompt with their texts, and those recalled later in the turn; each once.

    Other items (identity, frame) are omitted. Of two texts of one memory the longer counts.
    """
    in_prompt = [(section["label"], item) for section in run.sections for item in section["items"]]
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


def _text_check(field: str, value: str, limit: int) -> None:
    if reason := unstorable_reason(value):
        raise Invalid(reason, field=field)
    if len(value) > limit:
        raise Invalid(f"{field} holds at most {limit:,} characters; this has {len(value):,}.", field=field)

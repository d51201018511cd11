"""The reasons that people read when an expected memory is not in the prompt."""

from collections.abc import Mapping

from context.engine.assembly import VerdictCode
from context.engine.context_record import ContextRecord
from context.expectations.check_outcome import EvaluationContext, Outcome, State
from context.expectations.target_memories import Key
from memory.models.valid_time import Validity

_VERDICTS: Mapping[str, str] = {
    VerdictCode.NOT_PLANNED: "the plan for this question retrieves no memories of its type",
    VerdictCode.EXCLUDED_KIND: "the profile excludes its kind",
    VerdictCode.LOW_TRUST: "its trust class is below the profile's minimum",
    VerdictCode.QUARANTINED: "it reads like an instruction to the agent, or holds a secret",
    VerdictCode.LOW_IMPORTANCE: "its importance is below the profile's minimum",
    VerdictCode.BELOW_THRESHOLD: "its relevance to the question is below the threshold",
    VerdictCode.DUPLICATE_MESSAGE: "the conversation states the same already",
    VerdictCode.OTHER_PROJECT: "it belongs to another project or task",
    VerdictCode.DUPLICATE_INPUT: "the question states the same already",
    VerdictCode.DUPLICATE_ITEM: "another memory in the prompt has the same words",
    VerdictCode.INVALIDATED: "it states the same as a fact that people marked as wrong",
    VerdictCode.CONTESTED: "another fact contests it and takes precedence",
    VerdictCode.OVER_LIMIT: "other memories of its type are closer to the question",
    VerdictCode.OVER_BUDGET: "it has no room in the budget",
}


def missing_outcome(key: Key, record: ContextRecord, context: EvaluationContext) -> Outcome:
    """The failed outcome for a memory that should be in the prompt and is not, with the reason."""
    target = context.targets.get(key)
    if target is None:
        return Outcome(State.FAILED, "gone", "The memory was erased.", (key,))
    if key[0] == "fact" and key[1] in context.replaced:
        return Outcome(State.FAILED, "replaced", "It would be retired.", (key,))
    # A retired memory is in no prompt of today. For a prompt of the past, the prompt itself shows why.
    if not target.active and record.as_of is None:
        if target.successor:
            successor = (key[0], target.successor)
            return Outcome(
                State.FAILED, "superseded", f"It is superseded by {memory_name(successor)}.", (key, successor)
            )
        code = "invalidated" if target.invalid else "retired"
        return Outcome(State.FAILED, code, f"It is {code}.", (key,))
    if target.validity != Validity.CURRENT and record.as_of is None:
        return Outcome(State.FAILED, str(target.validity), f"It is {target.validity.label.lower()}.", (key,))
    for candidate in record.candidates:
        if (candidate["type"], candidate["id"]) == key:
            why = _VERDICTS.get(candidate["verdict"], "it was left out")
            numbers = ""
            if candidate["verdict"] == VerdictCode.BELOW_THRESHOLD:
                numbers = f" ({candidate['relevance']:.2f} of {candidate['threshold']:.2f})"
            return Outcome(State.FAILED, candidate["verdict"], f"It is left out: {why}{numbers}.", (key,))
    for cut in record.truncated:
        if any((item["type"], item["id"]) == key for item in cut["items"]):
            return Outcome(State.FAILED, "truncated", f"It is left out: {cut['label']} has no room for it.", (key,))
    return Outcome(State.FAILED, "not_found", "The search for this question does not find it.", (key,))


def memory_name(key: Key) -> str:
    """A memory as a sentence names it: its type and id."""
    return f"{key[0]} {key[1]}"

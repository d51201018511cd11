"""Background jobs and their results in words, for pages and for the log of the subconscious."""

from collections.abc import Mapping
from typing import Any

HANDLER_LABELS: Mapping[str, str] = {
    "fact_check": "Compare a stored fact",
    "fact_judge": "Ask the judge about facts",
    "episode_close": "Summarise a closed episode",
    "censor_escalate": "Escalate a censor",
    "import_run": "Import a file",
    "export_run": "Export an agent",
    "staleness": "Lower the confidence of stale facts",
    "core_facts": "Raise the importance of core facts",
    "episode_compact": "Shorten old episodes",
    "procedure_flags": "Flag procedures that fail",
    "censor_retire": "Retire censors with false positives",
    "compaction": "Find subjects with too many facts",
    "subject_contexts": "Find subjects with two names",
    "expectation_check": "Check expectations",
}
"""By name of the handler."""

RESULT_LABELS: Mapping[str, str] = {
    "activation_count": "activation{s}",
    "answer": "resolution",
    "asked": "review{s} opened",
    "judged": "pair{s} judged so far",
    "looked_at": "considered",
    "more": "continues",
    "others": "other pair{s} judged",
    "superseded": "replaced",
}
"""By key of a result, with {s} for the plural of its number; other keys are words already."""

VALUE_LABELS: Mapping[str, str] = {
    "gone": "the fact is no longer in use",
    "none": "nothing to do",
    "queued": "stored, review opened",
    "decided": "not stored",
    "extractive": "extracted",
    "given": "given by the agent",
    "answered": "judged or resolved already",
    "pending": "asked again later",
    "True": "yes",
    "False": "no",
}
"""By value of a result; other values are words or numbers already."""


WHOLE = ("action", "judge")
"""Keys of which the value alone says all."""


def handler_label(name: str) -> str:
    """The name of a job, such as "Compare a stored fact"."""
    return HANDLER_LABELS.get(name, name.replace("_", " ").capitalize())


def result_text(result: Mapping[str, Any]) -> str:
    """A job's result on one line, such as "stored, 1 review opened"; counts in place of lists, and nothing of
    what came to nothing, unless all did."""
    told = {name: value for name, value in result.items() if value not in (0, [])} or result
    return ", ".join(_part(name, value) for name, value in told.items())


def _part(name: str, value: Any) -> str:
    label = RESULT_LABELS.get(name, name.replace("_", " "))
    if isinstance(value, Mapping):
        counted = ", ".join(f"{number} {VALUE_LABELS.get(str(kind), kind)}" for kind, number in value.items())
        return f"{label}: {counted or 'none'}"
    if isinstance(value, list) or (isinstance(value, int) and not isinstance(value, bool)):
        number = len(value) if isinstance(value, list) else value
        return f"{number:,} {label.format(s='' if number == 1 else 's')}"
    text = VALUE_LABELS.get(str(value), str(value))
    return text if name in WHOLE else f"{label}: {text}"

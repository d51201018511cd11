"""The handlers of the lifecycle by name: one file each. A name is kept in queued runs, so it does not change."""

from memory.lifecycle.handler import Handler
from memory.lifecycle.handlers.censor_escalate import CENSOR_ESCALATE
from memory.lifecycle.handlers.censor_retire import CENSOR_RETIRE
from memory.lifecycle.handlers.episode_close import EPISODE_CLOSE
from memory.lifecycle.handlers.episode_compact import EPISODE_COMPACT
from memory.lifecycle.handlers.export_run import EXPORT_RUN
from memory.lifecycle.handlers.fact_check import FACT_CHECK
from memory.lifecycle.handlers.fact_confidence_decay import STALENESS
from memory.lifecycle.handlers.fact_importance import CORE_FACTS
from memory.lifecycle.handlers.fact_judge import FACT_JUDGE
from memory.lifecycle.handlers.fact_merge_proposals import COMPACTION
from memory.lifecycle.handlers.import_run import IMPORT_RUN
from memory.lifecycle.handlers.procedure_flags import PROCEDURE_FLAGS
from memory.lifecycle.handlers.same_subject_questions import SUBJECT_CONTEXTS

HANDLERS: dict[str, Handler] = {
    "fact_check": FACT_CHECK,
    "fact_judge": FACT_JUDGE,
    "episode_close": EPISODE_CLOSE,
    "censor_escalate": CENSOR_ESCALATE,
    "import_run": IMPORT_RUN,
    "export_run": EXPORT_RUN,
    "staleness": STALENESS,
    "core_facts": CORE_FACTS,
    "episode_compact": EPISODE_COMPACT,
    "procedure_flags": PROCEDURE_FLAGS,
    "censor_retire": CENSOR_RETIRE,
    "compaction": COMPACTION,
    "subject_contexts": SUBJECT_CONTEXTS,
}

DREAM = (
    "staleness",
    "core_facts",
    "episode_compact",
    "procedure_flags",
    "censor_retire",
    "compaction",
    "subject_contexts",
)
"""Run once a day for each agent: the dream cycle."""

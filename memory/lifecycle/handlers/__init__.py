"""The handlers of the lifecycle by name. A name is kept in queued jobs, so it does not change."""

from functools import cache

from django.utils.module_loading import import_string

from memory.lifecycle.handler import Handler
from memory.lifecycle.handlers.censor_escalate import CENSOR_ESCALATE
from memory.lifecycle.handlers.dream import DREAM
from memory.lifecycle.handlers.episode_close import EPISODE_CLOSE
from memory.lifecycle.handlers.fact_check import FACT_CHECK, FACT_JUDGE
from memory.lifecycle.handlers.file_runs import FILE_RUN
from memory.registrations import job_handlers


@cache
def handlers() -> dict[str, Handler]:
    """All handlers by name, with those of other apps."""
    return {
        "fact_check": FACT_CHECK,
        "fact_judge": FACT_JUDGE,
        "episode_close": EPISODE_CLOSE,
        "censor_escalate": CENSOR_ESCALATE,
        "import_run": FILE_RUN,
        "export_run": FILE_RUN,
        **DREAM,
        **{name: import_string(path) for name, path in job_handlers.items()},
    }

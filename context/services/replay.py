"""Replay a logged request against the current memory or with changed parameters, without logging it."""

from dataclasses import replace
from typing import Any

from context.engine.analysis.request import ContextRequest
from context.engine.context_record import ContextRecord
from context.models import ContextRun
from context.services.context import context_assemble
from identity.principal import Principal


def context_replay(*, run: ContextRun, by: Principal, **changes: Any) -> ContextRecord:
    """Assemble the logged request again, today; `changes` are fields of ContextRequest, as `frame` or `as_of`.

    The persona is that of the run, and people need the permission to see it. Raises Invalid, NotAllowed, NotFound.
    """
    by.require("context.view_contextrun", run.agent)
    request = replace(ContextRequest.of_json(run.request), **changes, dry_run=True, explain=True)
    return context_assemble(agent=run.agent, request=request, by=by, persona=run.persona)

"""Asking again: a logged request against today's memory, or with something otherwise. Leaves no trace."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from context.engine.analysis.request import ContextRequest
from context.engine.record import ContextRecord
from context.history.behaviour_bisect import BehaviourBisect, behaviour_bisect
from context.models import ContextRun
from context.services.context import ASSEMBLE, context_assemble, context_view
from identity.principal import Principal


def context_replay(*, run: ContextRun, by: Principal, **changes: Any) -> ContextRecord:
    """What the logged request would be answered now; `changes` are fields of ContextRequest, as `frame` or `as_of`.

    The persona is the run's own, which people see only with the right to it. Raises Invalid, NotAllowed, NotFound.
    """
    by.require("context.view_contextrun", run.agent)
    request = replace(ContextRequest.of_json(run.request), **changes, dry_run=True, explain=True)
    return context_assemble(agent=run.agent, request=request, by=by, persona=run.persona)


def context_bisect(*, run: ContextRun, by: Principal, since: datetime, until: datetime) -> BehaviourBisect:
    """Which changes between two moments made the answer to the logged request otherwise.

    The persona is the run's own, as in `context_replay`. Raises Invalid, NotAllowed.
    """
    by.require("context.view_contextrun", run.agent)
    by.require(ASSEMBLE, run.agent)
    view = context_view(run.agent, by, run.persona)
    return behaviour_bisect(view, ContextRequest.of_json(run.request), since=since, until=until)

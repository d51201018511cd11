"""What an agent has in mind in a session: read before the frame is chosen, since it may name one."""

import json
from dataclasses import dataclass
from typing import Any

import structlog
from django.db import DatabaseError

from context.engine.analysis.request import ContextRequest
from identity.models import Agent
from memory.persona import PersonaMemory
from nousweb.lib.prepared_statements import CachedQuery

logger = structlog.get_logger(__name__)

_WORKING = CachedQuery(
    lambda view, agent, session: (
        view(Agent(pk=agent))
        .working.filter(session_id=session, persona=view.persona)
        .values_list("task", "frame", "items", "open_threads", "project", "task_key")[:1]
    ),
    agent=-1,
    session="?",
)


@dataclass(frozen=True, slots=True)
class SessionState:
    """Task, frame, items and open threads of working memory; `failed` when they could not be read."""

    task: str = ""
    frame: str = ""
    items: tuple[dict[str, Any], ...] = ()
    threads: tuple[dict[str, Any], ...] = ()
    failed: bool = False


NO_SESSION = SessionState()


def session_load(view: PersonaMemory, request: ContextRequest) -> SessionState:
    """The state of the request's session, of the persona's own; none while it works on another project or task.

    Nothing is kept of what was in mind in the past.
    """
    if request.as_of is not None:
        return NO_SESSION
    try:
        found = _WORKING.rows(type(view), agent=view.agent.pk, session=request.session_id)
        if not found:
            return NO_SESSION
        task, frame, items, threads, *keys = found[0]
        if not request.scope.shows(*keys):
            return NO_SESSION
        return SessionState(task, frame, tuple(json.loads(items)), tuple(json.loads(threads)))
    except (DatabaseError, ValueError, TypeError):
        logger.exception("context.section_failed", section="working_memory")
        return SessionState(failed=True)

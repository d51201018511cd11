"""What an agent has in mind in a session: read before the frame is chosen, since it may name one."""

from dataclasses import dataclass
from typing import Any

import structlog
from django.db import DatabaseError

from context.engine.analysis.agent_rows import AgentRows, session_query
from context.engine.analysis.request import ContextRequest
from memory.persona import PersonaMemory

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SessionState:
    """Task, frame, items and open threads of working memory; `failed` when they could not be read."""

    task: str = ""
    frame: str = ""
    items: tuple[dict[str, Any], ...] = ()
    threads: tuple[dict[str, Any], ...] = ()
    failed: bool = False


NO_SESSION = SessionState()


def session_load(view: PersonaMemory, request: ContextRequest, rows: AgentRows | None = None) -> SessionState:
    """The state of the request's session, of the persona's own; none while it works on another project or task.

    Nothing is kept of what was in mind in the past. `rows` are what has been read of the agent already.
    """
    if request.as_of is not None:
        return NO_SESSION
    try:
        found = rows.session if rows else session_query(view, request.session_id).rows()
        if not found:
            return NO_SESSION
        task, frame, items, threads, *keys = found[0]
        if not request.scope.shows(*keys):
            return NO_SESSION
        return SessionState(task, frame, tuple(items), tuple(threads))
    except (DatabaseError, ValueError, TypeError):
        logger.exception("context.section_failed", section="working_memory")
        return SessionState(failed=True)

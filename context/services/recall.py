"""Recall within a turn: a search or an expansion that belongs to a context and is logged with it.

What it gives counts as shown, like the memories of the prompt, so that the answer is judged by it.
Source: seed 005.1, D6 (`recall_context`).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from context.models import REPORT, ContextRecall, ContextRun
from context.services.context import ANSWERED, run_lock
from identity.principal import Principal
from identity.services.agent_lock import agent_lock_shared, agent_reload, agent_transaction
from memory.models import ItemType, carried_keys
from memory.persona import PersonaMemory, memory_of
from memory.search.request import SearchRequest
from memory.search.result import SearchHit, SearchResult
from memory.selectors.memory_expansion import Expansion, MemoryDetail, memory_expand, memory_search
from nousweb.lib import Conflict
from nousweb.lib.token_estimate import estimate_tokens

MAX_RECALLS = 200
"""Maximum number of recalls of one context."""
LOGGED_CHARACTERS = 20_000
"""Maximum characters of each returned memory that are logged; answers are compared with no more."""
TRIES = 3

Answer = TypeVar("Answer")


def recall_search(*, run: ContextRun, request: SearchRequest, by: Principal) -> SearchResult:
    """Run `search` on the memory that `by` may read, and log its hits as shown in `run`.

    Raises Conflict once the answer has been reported, or after MAX_RECALLS.
    """
    asked = {
        "query": request.query,
        "types": [ItemType(kind).value for kind in request.types],
        "limit": request.limit,
        "min_score": request.min_score,
        "as_of": request.as_of.isoformat() if request.as_of else None,
        "project": request.scope.project,
        "task": request.scope.task,
        "user": request.scope.user,
        "include_projects": list(request.scope.include_projects),
        "all_projects": request.scope.all_projects,
    }
    return _logged(
        run,
        by,
        ContextRecall.Action.SEARCH,
        asked,
        lambda view: memory_search(view, request, by),
        lambda found: found.items,
    )


def recall_expand(*, run: ContextRun, type_name: str, memory_id: str, around: int, by: Principal) -> Expansion:
    """Run `memory_expand`, and log its memories as shown in `run`. Raises NotFound, and Conflict as `recall_search`
    does."""
    asked = {"type": type_name, "id": memory_id, "around": around}
    return _logged(
        run,
        by,
        ContextRecall.Action.EXPAND,
        asked,
        lambda view: memory_expand(view, type_name, memory_id, around=around),
        lambda found: [found.item, *found.related],
    )


def _logged(
    run: ContextRun,
    by: Principal,
    action: ContextRecall.Action,
    asked: Mapping[str, Any],
    find: Callable[[PersonaMemory], Answer],
    given: Callable[[Answer], Iterable[SearchHit | MemoryDetail]],
) -> Answer:
    """Find and log; find again if something of the agent was erased in between."""
    by.require(REPORT, run.agent)
    if run.responded_at is not None:
        raise Conflict(ANSWERED)
    agent = run.agent
    for _ in range(TRIES):
        found = find(memory_of(agent, by))
        items = [_item(one) for one in given(found)]
        if _log(run=run, erasures=agent.erasures, action=action, asked=asked, items=items, by=by):
            return found
        agent = agent_reload(agent)
    raise Conflict("Memories of this agent are being erased. Search again in a moment.")


@agent_transaction(of="run")
def _log(
    *,
    run: ContextRun,
    erasures: int,
    action: ContextRecall.Action,
    asked: Mapping[str, Any],
    items: list[dict[str, Any]],
    by: Principal,
) -> bool:
    """Log the returned memories. Returns False, and logs nothing, if something was erased since they were read."""
    with agent_lock_shared(run.agent_id) as erasures_now:
        if erasures_now != erasures:
            return False
        run = run_lock(run)
        if run.responded_at is not None:
            raise Conflict(ANSWERED)
        if run.recalls.count() >= MAX_RECALLS:
            raise Conflict(f"A context keeps at most {MAX_RECALLS} recalls.")
        ContextRecall.objects.create(
            run=run,
            agent_id=run.agent_id,
            persona=run.persona,
            action=action,
            request=dict(asked),
            items=items,
            principal_name=by.name,
        )
        return True


def _item(memory: SearchHit | MemoryDetail) -> dict[str, Any]:
    """A memory as it is logged, by the names that the items of a prompt's sections have."""
    text = memory.content[:LOGGED_CHARACTERS]
    logged = {"type": memory.type, "id": memory.id, "text": text, "tokens": estimate_tokens(text)}
    found = {"score": memory.score} if isinstance(memory, SearchHit) else {"relation": memory.relation}
    return logged | carried_keys(memory) | found

"""Search short-term memory: the rolling window of the last loop summaries, and fuzzy search in it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from identity.models import Agent
from memory.layers.short_term_scoring import StmConfig, StmScore, normalise, stm_score
from memory.models import LoopSummary
from memory.models.project_scope import STAND_INS, ProjectScope
from memory.persona import PersonaMemory
from nousweb.lib.prepared_statements import CachedQuery, instance_of


@dataclass(frozen=True, slots=True)
class StmHit:
    """A loop summary with its score."""

    loop: LoopSummary
    score: StmScore


_WINDOW = CachedQuery(
    lambda shape, agent, project, task: _last(shape[0](Agent(pk=agent)), shape[1], shape[2], shape[3]),
    agent=-1,
    **STAND_INS,
)


def _last(memory: PersonaMemory, persona: str, size: int, scope: ProjectScope) -> QuerySet[LoopSummary]:
    loops = memory.loops.summarised().filter(scope.q, persona=persona)
    return loops.order_by("-last_event_at", "-pk")[:size]


def stm_window(
    memory: PersonaMemory,
    scope: ProjectScope,
    size: int,
    personas: Iterable[str] = (),
    as_of: datetime | None = None,
) -> list[LoopSummary]:
    """The last `size` loop summaries that `scope` shows of each persona that `memory` may read, or of these of them.

    Latest first.

    With `as_of` the last of the loops that were over then. One that went on afterwards is not among them, because its
    summary tells of that too.
    """
    found: list[LoopSummary] = []
    for persona in personas or memory.personas:
        if as_of is not None:
            over = memory.loops.summarised().filter(
                scope.q, persona=persona, last_event_at__lte=as_of, closed_at__lte=as_of
            )
            found += over.order_by("-last_event_at", "-pk")[:size]
            continue
        if (pattern := scope.pattern) is None:
            found += _last(memory, persona, size, scope)
            continue
        shape = (type(memory), persona, size, pattern)
        rows = _WINDOW.rows(shape, agent=memory.agent.pk, project=scope.project, task=scope.task)
        found += [instance_of(LoopSummary, row) for row in rows]
    return sorted(found, key=lambda loop: (loop.last_event_at, loop.pk), reverse=True)


def stm_search(
    memory: PersonaMemory,
    scope: ProjectScope,
    query: str,
    *,
    now: datetime,
    personas: Iterable[str] = (),
    config: StmConfig | None = None,
    min_score: float = 0.0,
    as_of: datetime | None = None,
) -> list[StmHit]:
    """The summaries in the window, best first by the seed's score; of equal scores the later one first.

    `config` is the agent's own by default. `now` is the moment that ages are reckoned from.
    """
    config = config or StmConfig.of(memory.agent.config)
    wanted = normalise(query)
    hits = []
    for loop in stm_window(memory, scope, config.window, personas, as_of):
        score = stm_score(
            wanted,
            normalise(loop.summary),
            age_seconds=(now - loop.last_event_at).total_seconds(),
            kind=loop.kind,
            visibility=loop.visibility,
            config=config,
        )
        if score.score >= min_score:
            hits.append(StmHit(loop, score))
    # The window comes latest first, and sorting keeps the order of equals.
    return sorted(hits, key=lambda hit: -hit.score.score)

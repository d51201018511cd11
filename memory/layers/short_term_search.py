"""Search short-term memory: the rolling window of the last loop summaries, and fuzzy search in it."""

import math
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from rapidfuzz import fuzz, utils

from identity.models import Agent
from memory.models import STAND_INS, EventKind, LoopSummary, ProjectScope
from memory.persona import PersonaMemory
from nousweb.lib.prepared_statements import CachedQuery, instance_of

STM_DEFAULTS = {
    "half_life_seconds": 24 * 3600.0,
    "w_similarity": 0.7,
    "w_recency": 0.3,
    "window": 50,
    "kind_boosts": {EventKind.ERROR.value: 1.1, EventKind.SYSTEM_EVENT.value: 0.8},
    "visibility_boosts": {"public": 1.0, "internal": 0.9, "private": 0.8},
}
"""Short-term search, where an agent's `config["stm"]` says nothing else. A boost that is not named is 1."""
MAX_STM_WINDOW = 500
MAX_STM_BOOST = 10.0


@dataclass(frozen=True, slots=True)
class StmConfig:
    """The settings of an agent's short-term search. `problems` lists the settings that could not be used."""

    half_life_seconds: float
    w_similarity: float
    w_recency: float
    window: int
    kind_boosts: Mapping[str, float]
    visibility_boosts: Mapping[str, float]
    problems: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, config: Any) -> "StmConfig":
        """Settings from an agent's `config`: its "stm" member over the defaults.

        A value that cannot be used falls back to its default and is named in `problems`; nothing is raised, for
        a mistake in the settings must not take the memory away. Boosts are merged word by word.
        """
        own = config.get("stm", {}) if isinstance(config, Mapping) else {}
        problems: list[str] = []
        if not isinstance(own, Mapping):
            problems.append("stm must be an object.")
            own = {}
        problems += [f"stm.{name[:60]} is unknown." for name in own if name not in STM_DEFAULTS]

        def number(name: str, low: float, high: float, *, above: bool = False) -> float:
            value = own.get(name, STM_DEFAULTS[name])
            if _is_number(value) and (low < value if above else low <= value) and value <= high:
                return float(value)
            problems.append(f"stm.{name} must be a number {'above' if above else 'from'} {low:g} to {high:g}.")
            return float(STM_DEFAULTS[name])  # type: ignore[arg-type]

        def boosts(name: str) -> dict[str, float]:
            found: dict[str, float] = dict(STM_DEFAULTS[name])  # type: ignore[call-overload]
            given = own.get(name, {})
            if not isinstance(given, Mapping):
                problems.append(f"stm.{name} must be an object.")
                given = {}
            for word, value in given.items():
                if _is_number(value) and 0 <= value <= MAX_STM_BOOST:
                    found[word] = float(value)
                else:
                    problems.append(f"stm.{name}.{word[:60]} must be a number from 0 to {MAX_STM_BOOST:g}.")
            return found

        window = own.get("window", STM_DEFAULTS["window"])
        if isinstance(window, bool) or not isinstance(window, int) or not 1 <= window <= MAX_STM_WINDOW:
            problems.append(f"stm.window must be a whole number from 1 to {MAX_STM_WINDOW}.")
            window = STM_DEFAULTS["window"]
        half_life = number("half_life_seconds", 0, 100 * 365 * 86400, above=True)
        w_similarity, w_recency = number("w_similarity", 0, 1), number("w_recency", 0, 1)
        kind_boosts, visibility_boosts = boosts("kind_boosts"), boosts("visibility_boosts")
        return cls(half_life, w_similarity, w_recency, window, kind_boosts, visibility_boosts, tuple(problems))


@dataclass(frozen=True, slots=True)
class StmScore:
    """`similarity` and `recency` lie in [0, 1]; `score` is their weighted sum times `boost`."""

    similarity: float
    recency: float
    boost: float
    score: float


def stm_score(
    query: str, summary: str, *, age_seconds: float, kind: str, visibility: str, config: StmConfig
) -> StmScore:
    """The seed's score of one summary. `query` and `summary` come normalised; an age below 0 counts as 0."""
    similarity = fuzz.token_set_ratio(query, summary) / 100.0
    recency = math.exp(-math.log(2) * max(age_seconds, 0.0) / config.half_life_seconds)
    boost = config.kind_boosts.get(kind, 1.0) * config.visibility_boosts.get(visibility, 1.0)
    score = (config.w_similarity * similarity + config.w_recency * recency) * boost
    return StmScore(similarity, recency, boost, score)


def normalise(text: str) -> str:
    """`text` as fuzzy matching compares it: one form of each character, lower case, letters and digits only."""
    return utils.default_process(unicodedata.normalize("NFKC", text))


def _is_number(value: Any) -> bool:
    # Comparisons let through no NaN and survive whole numbers that no float can hold.
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e18 < value < 1e18


@dataclass(frozen=True, slots=True)
class StmHit:
    """A loop summary with its score."""

    loop: LoopSummary
    score: StmScore


_WINDOW = CachedQuery(
    lambda shape, agent, **keys: _last(shape[0](Agent(pk=agent)), shape[1], shape[2], shape[3]),
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
        rows = _WINDOW.rows(shape, agent=memory.agent.pk, **scope.keys)
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

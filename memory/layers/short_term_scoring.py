"""Score how well a loop summary matches a query of short-term search. Pure.

Source: seed "Agentic Memory System", STM Fuzzy Search:

    similarity = token_set_ratio(query, summary) / 100
    recency    = exp(-ln(2) * age_seconds / half_life_seconds)
    boost      = kind_boosts[kind] * visibility_boosts[visibility]
    score      = (w_similarity * similarity + w_recency * recency) * boost
"""

import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rapidfuzz import fuzz, utils

from memory.models import EventKind

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
    """What an agent's short-term search goes by. `problems` says what of its own settings could not be used."""

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

"""The effect of a task's mode on a profile: tier weights and compression.

Source: seed "Context Profiles and Retrieval Policies", section 4.
"""

from collections.abc import Mapping
from types import MappingProxyType

from context.engine.analysis.profiles import SCOPES, Profile

MODE_WEIGHTS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "implement": {"task": 1.2, "project": 0.9},
        "analysis_only": {"task": 0.9, "project": 1.2},
        "plan": {"project": 1.2},
        "cheap": {},
    }
)
"""Factors of the tier weights by the mode of a task."""

CHEAP_COMPRESSION = 0.3
"""The increase of the aggressiveness of compression in the mode "cheap"."""


def tier_weights(profile: Profile, mode: str | None) -> dict[str, float]:
    """Shares of the searched budget for task, project and global memory; they add up to 1."""
    factors = MODE_WEIGHTS.get(mode or "", {})
    weights = {
        "task": profile.task_weight * factors.get("task", 1.0),
        "project": profile.project_weight * factors.get("project", 1.0),
        "global": profile.global_weight * factors.get("global", 1.0),
    }
    total = sum(weights.values())
    return {scope: weight / total for scope, weight in weights.items()} if total else dict.fromkeys(SCOPES, 1 / 3)


def compression_of(profile: Profile, mode: str | None) -> float:
    """Share of a long item that may be left out, 0 to 1; 0 when the profile allows none."""
    if not profile.allow_compression:
        return 0.0
    return min(1.0, profile.compression_aggressiveness + (CHEAP_COMPRESSION if mode == "cheap" else 0.0))

"""The settings of a profile, which determine the prompts of a kind of agent, and their validation.

Source: seed "Context Profiles and Retrieval Policies", sections 2 to 4.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from memory.models import ItemType
from memory.policy import TRUST_ORDER
from nousweb.lib import Invalid
from nousweb.lib.constrained_types import OneOf, UnitInterval

SCOPES = ("task", "project", "global")

Labels = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=50)], ...], Field(max_length=50)]
TOOL_OUTPUT = "tool_output"
"""The layer of the latest tool results."""
Layers = tuple[Annotated[str, OneOf("long_term", "short_term", TOOL_OUTPUT)], ...]
ANY_TYPE = "any"
LeastTrust = Annotated[
    tuple[
        Annotated[str, OneOf(*(f"{kind}:{least}" for kind in (ANY_TYPE, *ItemType.values) for least in TRUST_ORDER))],
        ...,
    ],
    Field(max_length=20),
]
"""Such as "decision:agent": of decisions only those that are trusted at least as an agent's own words."""
ItemCount = Annotated[int, Field(ge=0, le=50)]
Description = Annotated[str, Field(max_length=500)]


@dataclass(frozen=True, slots=True)
class Profile:
    """Weights and ratios are in [0, 1]; heads and tails are numbers of items.

    `compression_aggressiveness` is the share of a long item that may be left out. `layers` names the raw layers that
    are searched besides the distilled memories, "long_term" and "short_term", and "tool_output", whose latest results
    are shown whatever their words. `least_trust` names, by type of memory or for any, the minimum trust class.
    """

    profile_id: str
    task_weight: UnitInterval = 0.4
    project_weight: UnitInterval = 0.4
    global_weight: UnitInterval = 0.2
    preferred_kinds: Labels = ()
    excluded_kinds: Labels = ()
    min_importance: UnitInterval = 0.0
    least_trust: LeastTrust = ()
    allow_compression: bool = True
    compression_aggressiveness: UnitInterval = 0.5
    preserve_head: ItemCount = 2
    preserve_tail: ItemCount = 2
    layers: Layers = ()
    show_conversation: bool = False
    description: Description = ""
    tags: Labels = ()

    def trusts(self, item_type: str, trust: str) -> bool:
        """Whether memories of this type and trust class may stand in prompts."""
        return _is_trusted(tuple(self.least_trust), item_type, trust)


@lru_cache(maxsize=1_024)
def _is_trusted(rules: tuple[str, ...], item_type: str, trust: str) -> bool:
    place = TRUST_ORDER.index(trust)
    return all(
        place <= TRUST_ORDER.index(least)
        for kind, _, least in (rule.partition(":") for rule in rules)
        if kind in (ANY_TYPE, item_type)
    )


NOT_IN_PROMPTS = frozenset({"description", "tags"})
"""Settings that are for people."""

_SETTINGS = {
    name: TypeAdapter(kind)
    for name, kind in get_type_hints(Profile, include_extras=True).items()
    if name != "profile_id"
}


def profile_check(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a profile in the form they are stored; raise Invalid, naming the field."""
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in _SETTINGS:
            raise Invalid(f"A profile has no setting {name!r}.", field=name)
        try:
            # In Python's own mode a list is no tuple, and strictness keeps true from being 1.
            setting = _SETTINGS[name].validate_python(tuple(value) if isinstance(value, list) else value, strict=True)
        except ValidationError as error:
            raise Invalid(f"{name} cannot be {value!r}: {error.errors()[0]['msg']}.", field=name) from error
        checked[name] = list(setting) if isinstance(setting, tuple) else setting
    return checked


def override_check(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that take the place of a profile's own in one request, as they are stored.

    Raises Invalid, also for those that change no prompt.
    """
    if unread := sorted(values.keys() & NOT_IN_PROMPTS):
        raise Invalid(f"{unread[0]} is for people and changes no prompt.", field="profile_override")
    try:
        return profile_check(values)
    except Invalid as error:
        raise Invalid(error.detail, field="profile_override") from error


def profile_overridden(profile: Profile, values: Mapping[str, Any]) -> Profile:
    """`profile` with settings in the form in which they are stored."""
    return replace(profile, **_settings(values)) if values else profile


def profile_of(profile_id: str, values: Mapping[str, Any]) -> Profile:
    """Build a profile from stored settings; absent settings have the seed's defaults."""
    return Profile(profile_id, **_settings(values))


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def profile_values(profile: Profile) -> dict[str, Any]:
    """The settings of a profile as they are stored."""
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(profile).items()}
    values.pop("profile_id")
    return values


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

"""Profiles, which determine the prompts of a kind of agent: their settings, the built-in ones, and which one is active;
and the policy of how prompts show contested facts, declared per agent and per category of fact.

Source: seed "Context Profiles and Retrieval Policies", sections 2 to 4.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from context.engine.analysis.agent_data_loader import PROFILE_BY_KEY, PROFILE_COLUMNS, PreloadedRows, profile_query
from context.models import ContextProfileVersion
from identity.models import Agent
from memory.models import ItemType
from memory.policy import TRUST_ORDER
from nousweb.lib import Invalid, NotFound, choice_check, storable_check, word_check
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


MAX_DEPTH = 10
"""Levels of inheritance that are followed."""


def _version_as_of(lookup: str, wanted: int | str, as_of: datetime) -> list[tuple[Any, ...]]:
    """The version that was current at a moment, PROFILE_COLUMNS; the first version if there was none yet."""
    versions = ContextProfileVersion.objects.filter(**{lookup: wanted})
    found = versions.filter(created_at__lte=as_of).order_by("-version").values_list(*PROFILE_COLUMNS).first()
    found = found or versions.order_by("version").values_list(*PROFILE_COLUMNS).first()
    return [found] if found else []


def profile_named(agent: Agent, slug: str | None = None) -> str:
    """The slug of the requested profile, or of the agent's own (config "profile"); "" for the profile of its kind.

    Raises Invalid.
    """
    return storable_check("profile", slug or str(agent.config.get("profile") or ""))


def active_profile(
    agent: Agent, slug: str | None = None, as_of: datetime | None = None, rows: PreloadedRows | None = None
) -> tuple[Profile, int]:
    """The profile with this slug, else the agent's own, else that of its kind; with its version number.

    With `as_of`, the version of that time. `rows` are the rows of the agent that are loaded already. One query per
    level of inheritance. Raises NotFound for an unknown slug.
    """
    named = profile_named(agent, slug)
    if as_of:
        found = _version_as_of("profile__slug" if named else "profile__kind", named or agent.kind, as_of)
    else:
        found = rows.profile if rows else profile_query(named, agent.kind).rows()
    if not found:
        if named:
            raise NotFound(f"There is no profile {named[:60]!r}.")
        return BUILT_IN[agent.kind], 0
    version, values, own_slug, base = found[0]
    layers = [values]
    for _ in range(MAX_DEPTH):
        if base is None:
            above = []
        elif as_of:
            above = _version_as_of("profile__pk", base, as_of)
        else:
            above = PROFILE_BY_KEY.bound("profile__pk", wanted=base).rows()
        if not above:
            break
        _, values, _, base = above[0]
        layers.append(values)
    return _profile_merged(own_slug, layers), version


def active_profiles(agents: Iterable[Agent]) -> dict[int, Profile]:
    """The profile of each agent, by its key, in one query: its own, else that of its kind, else the built-in one."""
    rows = ContextProfileVersion.objects.filter(is_current=True)
    by_key: dict[int | None, tuple[str, dict[str, Any], int | None]] = {}
    keys: dict[tuple[str, str], int | None] = {}
    for key, slug, kind, base, values in rows.values_list(
        "profile", "profile__slug", "profile__kind", "profile__base", "values"
    ):
        by_key[key] = (slug, values, base)
        keys["slug", slug] = keys["kind", kind] = key
    found = {}
    for agent in agents:
        named = str(agent.config.get("profile") or "")
        at = keys.get(("slug", named) if named else ("kind", agent.kind))
        chain: list[tuple[str, dict[str, Any], int | None]] = []
        while at in by_key and len(chain) <= MAX_DEPTH:
            chain.append(by_key[at])
            at = chain[-1][2]
        own = _profile_merged(chain[0][0], [values for _, values, _ in chain]) if chain else None
        found[agent.pk] = own or BUILT_IN[agent.kind]
    return found


def _profile_merged(slug: str, layers: Sequence[dict[str, Any]]) -> Profile:
    """A profile of its own values, completed by those of the profiles that it inherits."""
    merged: dict[str, Any] = {}
    for own in reversed(layers):
        merged.update(own)
    return profile_of(slug, merged)


BUILT_IN: Mapping[str, Profile] = MappingProxyType(
    {
        "knight": Profile(
            "knight_default",
            task_weight=0.5,
            project_weight=0.3,
            global_weight=0.2,
            preferred_kinds=("code", "test", "tool_output", "plan", "convention"),
            excluded_kinds=("conversation", "summary", "preference"),
            min_importance=0.3,
            compression_aggressiveness=0.6,
            preserve_head=3,
            preserve_tail=3,
            layers=(TOOL_OUTPUT,),
            description="Code-focused profile for implementation agents",
            tags=("knight", "implementation"),
        ),
        "squire": Profile(
            "squire_default",
            task_weight=0.4,
            project_weight=0.4,
            global_weight=0.2,
            preferred_kinds=("plan", "reasoning", "decision", "failure", "review"),
            excluded_kinds=("tool_output", "verbose_log"),
            min_importance=0.4,
            compression_aggressiveness=0.4,
            preserve_head=4,
            preserve_tail=2,
            layers=("long_term", "short_term"),
            description="Analysis-focused profile for review agents",
            tags=("squire", "review"),
        ),
        "royalty": Profile(
            "royalty_default",
            task_weight=0.2,
            project_weight=0.5,
            global_weight=0.3,
            preferred_kinds=("summary", "decision", "convention", "preference", "pattern"),
            excluded_kinds=("code", "tool_output", "test"),
            min_importance=0.5,
            compression_aggressiveness=0.3,
            preserve_head=5,
            preserve_tail=1,
            layers=("short_term",),
            description="Strategic profile for planning agents",
            tags=("royalty", "planning"),
        ),
        "peasant": Profile(
            "peasant_default",
            task_weight=0.8,
            project_weight=0.1,
            global_weight=0.1,
            preferred_kinds=("task_input",),
            excluded_kinds=("code", "test", "decision", "summary"),
            allow_compression=False,
            compression_aggressiveness=0.0,
            preserve_head=1,
            preserve_tail=1,
            description="Minimal profile for helper LLM tools",
            tags=("peasant", "helper"),
        ),
    }
)
"""By agent kind."""


CONFIG_KEY = "contested"
MAX_CATEGORIES = 50


class ContestedOrder(StrEnum):
    """`newest_first`: the newer above the older. `newest_only`: the older is left out. `both`: both by
    relevance.

    In each case both are marked as contested, and people's statements come before agents' statements.
    """

    NEWEST_FIRST = "newest_first"
    NEWEST_ONLY = "newest_only"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class ContestedPolicy:
    """The order for all facts, and others by category."""

    order: ContestedOrder = ContestedOrder.NEWEST_FIRST
    categories: Mapping[str, ContestedOrder] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, category: str) -> ContestedOrder:
        """The order for facts of a category."""
        return self.categories.get(category, self.order)

    def as_json(self) -> dict[str, Any]:
        """As the agent's configuration and the log keep it."""
        return {"order": str(self.order), "categories": {name: str(one) for name, one in self.categories.items()}}

    @classmethod
    def checked(cls, order: str, categories: Mapping[str, str] | None = None) -> "ContestedPolicy":
        """A policy as somebody would set it. Raises Invalid, naming the field."""
        given = dict(categories or {})
        if len(given) > MAX_CATEGORIES:
            raise Invalid(f"At most {MAX_CATEGORIES} categories have an order of their own.", field="categories")
        return cls(
            _order_check("order", order),
            MappingProxyType({word_check("category", name): _order_check("categories", given[name]) for name in given}),
        )

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> "ContestedPolicy":
        """The policy of an agent's configuration; absent or malformed parts have their defaults."""
        given = config.get(CONFIG_KEY)
        given = given if isinstance(given, dict) else {"order": given}
        categories = given.get("categories")
        by_name: Mapping[Any, ContestedOrder] = {str(one): one for one in ContestedOrder}
        found = {
            name: by_name[order]
            for name, order in (categories if isinstance(categories, dict) else {}).items()
            if isinstance(order, str) and order in by_name
        }
        order = given.get("order")
        return cls(
            by_name.get(order if isinstance(order, str) else "", ContestedOrder.NEWEST_FIRST),
            MappingProxyType(found),
        )


def _order_check(name: str, value: str) -> ContestedOrder:
    return ContestedOrder(choice_check(name, value, [*ContestedOrder]))

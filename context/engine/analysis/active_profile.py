"""The active profile of an agent: the requested one, its own, or that of its kind, with the profiles it inherits."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from context.engine.analysis.agent_data_loader import PROFILE_COLUMNS, PreloadedRows, base_profile_query, profile_query
from context.engine.analysis.built_in_profiles import BUILT_IN
from context.engine.analysis.profiles import Profile, profile_of
from context.models import ContextProfileVersion
from identity.models import Agent
from nousweb.lib import Invalid, NotFound, unstorable_reason

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
    named = slug or str(agent.config.get("profile") or "")
    if named and (reason := unstorable_reason(named)):
        raise Invalid(reason, field="profile")
    return named


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
            above = base_profile_query(base).rows()
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

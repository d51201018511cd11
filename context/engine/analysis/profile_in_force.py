"""The profile that a prompt is made by, with all that it inherits; context/services/profiles.py changes profiles."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from context.engine.analysis.profiles import BUILT_IN, Profile, profile_of
from context.models import ContextProfileVersion
from identity.models import Agent
from nousweb.lib.errors import Invalid, NotFound
from nousweb.lib.prepared_statements import CachedQuery
from nousweb.lib.text import unstorable_reason

MAX_DEPTH = 10
"""Levels of inheritance that are followed."""


def _current(lookup: str, wanted: int | str) -> QuerySet[ContextProfileVersion, Any]:
    current = ContextProfileVersion.objects.filter(is_current=True, **{lookup: wanted}).order_by("pk")
    return current.values_list("version", "values", "profile__slug", "profile__base")[:1]


_CURRENT = CachedQuery(_current, wanted="?")
_CURRENT_BY_KEY = CachedQuery(_current, wanted=-1)


def _version_as_of(lookup: str, wanted: int | str, as_of: datetime) -> list[tuple[Any, ...]]:
    """The version that was current at a moment, as `_current` gives it; the first, where there was none yet."""
    versions = ContextProfileVersion.objects.filter(**{lookup: wanted})
    columns = ("version", "values", "profile__slug", "profile__base")
    found = versions.filter(created_at__lte=as_of).order_by("-version").values_list(*columns).first()
    found = found or versions.order_by("version").values_list(*columns).first()
    return [(found[0], json.dumps(found[1]), *found[2:])] if found else []


def profile_in_force(agent: Agent, slug: str | None = None, as_of: datetime | None = None) -> tuple[Profile, int]:
    """The profile named, else the agent's own (config "profile"), else its kind's; with the version's number.

    With `as_of` in the version of that time. One query a level of inheritance. Raises NotFound for an unknown slug.
    """
    named = slug or str(agent.config.get("profile") or "")
    if named and (reason := unstorable_reason(named)):
        raise Invalid(reason, field="profile")
    lookup = "profile__slug" if named else "profile__kind"
    wanted = named or agent.kind
    found = _version_as_of(lookup, wanted, as_of) if as_of else _CURRENT.rows(lookup, wanted=wanted)
    if not found:
        if named:
            raise NotFound(f"There is no profile {named[:60]!r}.")
        return BUILT_IN[agent.kind], 0
    version, values, own_slug, base = found[0]
    layers = [json.loads(values)]
    for _ in range(MAX_DEPTH):
        if base is None:
            above = []
        elif as_of:
            above = _version_as_of("profile__pk", base, as_of)
        else:
            above = _CURRENT_BY_KEY.rows("profile__pk", wanted=base)
        if not above:
            break
        _, values, _, base = above[0]
        layers.append(json.loads(values))
    return _profile_merged(own_slug, layers), version


def profiles_in_force(agents: Iterable[Agent]) -> dict[int, Profile]:
    """By agent the profile of its own, else its kind's, in one query; its kind's built-in one where there is none."""
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
    """A profile of its own values and then those of what it inherits from."""
    merged: dict[str, Any] = {}
    for own in reversed(layers):
        merged.update(own)
    return profile_of(slug, merged)

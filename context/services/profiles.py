"""Making, copying and changing profiles, and finding the one in force."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from context.models import ContextProfile, ContextProfileVersion
from context.profiles import BUILT_IN, Profile, profile_check, profile_of, profile_values
from identity.models import Agent
from identity.principal import Principal
from identity.services.agents import agent_configure
from identity.services.audit import audit_record
from nousweb.lib.errors import Conflict, Invalid, NotFound
from nousweb.lib.prepared_statements import CachedQuery
from nousweb.lib.text import unstorable_reason

CHANGE = "context.change_contextprofile"
MAX_DEPTH = 10


def profiles_sync() -> None:
    """Make the seed's profiles that are missing; run after every migration. Edited ones are left as they are."""
    by = Principal.of_system("setup")
    for kind, built_in in BUILT_IN.items():
        profile, made = ContextProfile.objects.get_or_create(
            slug=built_in.profile_id, defaults={"name": kind.title(), "kind": kind, "built_in": True}
        )
        if made:
            _version_write(profile, profile_values(built_in), by, "The seed's default.", None)


@transaction.atomic
def profile_create(
    *, slug: str, name: str, base: ContextProfile | None, values: Mapping[str, Any], reason: str = "", by: Principal
) -> ContextProfile:
    """Make a profile; with a `base` it inherits what `values` do not set. Raises Invalid or Conflict."""
    by.require("context.add_contextprofile")
    checked = profile_check(values)
    # The validator's $ lets a line break pass.
    if slug != slug.strip():
        raise Invalid("Use lower-case letters, digits, - or _.", field="slug")
    profile = ContextProfile(slug=slug, name=_name_check(name), base=base)
    try:
        profile.full_clean(validate_unique=False, validate_constraints=False)
    except ValidationError as error:
        field = next(iter(error.message_dict))
        raise Invalid(error.message_dict[field][0], field=field) from error
    try:
        with transaction.atomic():
            profile.save()
    except IntegrityError as error:
        raise Conflict(f"There is a profile {slug!r} already.", field="slug") from error
    _version_write(profile, checked, by, reason, None)
    audit_record(by=by, action="profile.create", target=profile, agent=None, after=checked, message=reason)
    return profile


@transaction.atomic
def profile_update(
    *,
    profile: ContextProfile,
    values: Mapping[str, Any],
    by: Principal,
    base_version: int | None = None,
    reason: str = "",
) -> ContextProfileVersion:
    """Write a new version of a profile's own settings. Raises Conflict when `base_version` is no longer current."""
    by.require(CHANGE)
    checked = profile_check(values)
    ContextProfile.objects.select_for_update().get(pk=profile.pk)
    current = profile.versions.filter(is_current=True).first()
    now = current.version if current else 0
    if base_version is not None and base_version != now:
        raise Conflict(f"This edit is based on version {base_version}, but version {now} is current.", current=now)
    if current and current.values == checked:
        return current
    version = _version_write(profile, checked, by, reason, current)
    audit_record(
        by=by,
        action="profile.update",
        target=profile,
        agent=None,
        before=current.values if current else None,
        after=checked,
        message=reason,
    )
    return version


@transaction.atomic
def profile_assign(*, agent: Agent, slug: str, by: Principal) -> Agent:
    """Make a profile the agent's own; "" goes back to its kind's. Raises NotFound for an unknown one."""
    if slug:
        profile_get(slug)
    return agent_configure(agent=agent, name="profile", value=slug or None, by=by)


@dataclass(frozen=True, slots=True)
class Effective:
    """The value in force of one setting, and where it is from: the profile itself, a base, or the defaults."""

    name: str
    value: Any
    origin: str
    base: ContextProfile | None = None


def profile_effective(profile: ContextProfile) -> list[Effective]:
    """Every setting of a profile as it takes effect. One query a level of inheritance."""
    layers: list[tuple[ContextProfile, dict[str, Any]]] = []
    step: ContextProfile | None = profile
    while step is not None and len(layers) <= MAX_DEPTH:
        version = (
            ContextProfileVersion.objects.filter(is_current=True, profile_id=step.pk).select_related("profile").first()
        )
        if version is None:
            break
        layers.append((version.profile, version.values))
        base_id = version.profile.base_id
        step = ContextProfile(pk=base_id) if base_id else None
    found: list[Effective] = []
    for name, default in profile_values(Profile("")).items():
        depth = next((place for place, (_, values) in enumerate(layers) if name in values), None)
        if depth is None:
            found.append(Effective(name, default, "default"))
        else:
            source, values = layers[depth]
            found.append(Effective(name, values[name], "base" if depth else "own", source if depth else None))
    return found


def profile_get(slug: str) -> ContextProfile:
    """The profile called `slug`. Raises NotFound."""
    profile = ContextProfile.objects.filter(slug=slug).first()
    if profile is None:
        raise NotFound(f"There is no profile {slug[:60]!r}.")
    return profile


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
    merged: dict[str, Any] = {}
    for own in reversed(layers):
        merged.update(own)
    return profile_of(own_slug, merged), version


def _version_write(
    profile: ContextProfile,
    values: dict[str, Any],
    by: Principal,
    reason: str,
    current: ContextProfileVersion | None,
) -> ContextProfileVersion:
    if current is not None:
        ContextProfileVersion.objects.filter(pk=current.pk).update(is_current=False)
    return ContextProfileVersion.objects.create(
        profile=profile,
        version=current.version + 1 if current else 1,
        values=values,
        reason=reason,
        author_kind=by.kind,
        author_id=by.id,
        author_name=by.name,
    )


def _name_check(name: str) -> str:
    name = " ".join(name.split())
    if not name or len(name) > 100:
        raise Invalid("A name has 1 to 100 characters.", field="name")
    return name

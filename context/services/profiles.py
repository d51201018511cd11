"""Create, copy and change profiles; context/engine/analysis/profiles.py checks their settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from context.engine.analysis.profiles import BUILT_IN, MAX_DEPTH, Profile, profile_check, profile_values
from context.models import ContextProfile, ContextProfileVersion
from identity.models import Agent
from identity.principal import Principal
from identity.services.agents import agent_configure
from identity.services.audit import audit_record
from nousweb.lib import Conflict, Invalid, StaleEdit, existing

CHANGE = "context.change_contextprofile"


def profiles_sync() -> None:
    """Make the seed's profiles that are missing, and bring up to date those that nobody has edited, as a new version.

    Run after every migration.
    """
    by = Principal.of_system("setup")
    for kind, built_in in BUILT_IN.items():
        profile, made = ContextProfile.objects.get_or_create(
            slug=built_in.profile_id, defaults={"name": kind.title(), "kind": kind, "built_in": True}
        )
        current = None if made else profile.versions.filter(is_current=True).first()
        edited = not made and profile.versions.exclude(author_kind=by.kind).exists()
        if not edited and (current is None or current.values != profile_values(built_in)):
            reason = "The seed's default." if made else "The seed's default, brought up to date."
            _version_write(profile, profile_values(built_in), by, reason, current)


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
        raise StaleEdit(base_version, now, current=now)
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
    """Assign a profile to the agent; "" returns to the profile of its kind. Raises NotFound for an unknown one."""
    if slug:
        profile_get(slug)
    return agent_configure(agent=agent, name="profile", value=slug or None, by=by)


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """The effective value of one setting, and its origin: the profile itself, a base, or the defaults."""

    name: str
    value: Any
    origin: str
    base: ContextProfile | None = None


def effective_settings(profile: ContextProfile) -> list[EffectiveSetting]:
    """The effective settings of a profile. One query per level of inheritance."""
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
    found: list[EffectiveSetting] = []
    for name, default in profile_values(Profile("")).items():
        depth = next((place for place, (_, values) in enumerate(layers) if name in values), None)
        if depth is None:
            found.append(EffectiveSetting(name, default, "default"))
        else:
            source, values = layers[depth]
            found.append(EffectiveSetting(name, values[name], "base" if depth else "own", source if depth else None))
    return found


def profile_get(slug: str) -> ContextProfile:
    """The profile called `slug`. Raises NotFound."""
    return existing(ContextProfile.objects.filter(slug=slug).first(), f"There is no profile {slug[:60]!r}.")


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
        raise Invalid("A name must have 1 to 100 characters.", field="name")
    return name

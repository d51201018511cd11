"""Settings of people: profiles, pinned memories, which come before all others of their section, and for one agent its
profile, budgets, autonomy, consent, contested facts, short-term search, language, time zone and recent conversations,
in versions.

An agent's settings are stored in its configuration, and their versions are the records of the audit trail about it. So
`agent_as_of` reconstructs those of any moment, and nothing is stored twice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from context.engine.analysis.agent_time import RECENT_KEY, ZONE_KEY, RecentMode, zone_check, zone_of_city
from context.engine.analysis.frames import SECTION_BUDGETS
from context.engine.analysis.profiles import (
    BUILT_IN,
    MAX_DEPTH,
    ContestedPolicy,
    Profile,
    profile_check,
    profile_values,
)
from context.engine.section_budgets import MAX_TOTAL
from context.models import ContextPin, ContextProfile, ContextProfileVersion
from identity.models import Agent, AuditEvent, Persona
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.agents import agent_configure, agent_configure_all
from identity.services.audit import audit_record
from identity.services.versions import agent_lock
from memory.layers.short_term_search import StmConfig
from memory.models import SERVES_USERS, ItemType, SearchItem, serves_users
from memory.persona import persona_memory
from memory.policy.oversight import (
    ATTENTION_KEY,
    AUTONOMY_KEY,
    CONSENT_KEY,
    DEFAULT_AUTONOMY,
    DEFAULT_BUDGET,
    NO_RULES,
    AttentionBudget,
    Autonomy,
    ConsentPolicy,
)
from memory.search.memory_loader import memories_load
from memory.services.search_index.reembedding import CONFIGURED, language_apply, language_check
from memory.services.users import users_separate
from nousweb.lib import (
    Conflict,
    Invalid,
    NotFound,
    StaleEdit,
    choice_check,
    clock,
    existing,
    first_unstorable,
    name_check,
)


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
    profile = ContextProfile(slug=slug, name=name_check(name), base=base)
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
    by.require("context.change_contextprofile")
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


VIEW = "identity.view_auditevent"
CHANGE = "identity.change_agent"
TOTAL = "total"
BUDGETS = (TOTAL, *SECTION_BUDGETS)
MAX_BOOSTS = 50


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """An agent's own settings; absent ones have their defaults. `version` counts their changes, from 0.

    `language` is a code of memory.search.languages, "" when it is detected; `time_zone` an IANA name, "" for the
    server's; `recent` says when prompts list the last conversations. With `serves_users` each write names a user.
    """

    version: int
    budgets: Mapping[str, int]
    stm: Mapping[str, Any]
    profile: str
    contested: ContestedPolicy
    language: str = ""
    attention: AttentionBudget = DEFAULT_BUDGET
    autonomy: Autonomy = DEFAULT_AUTONOMY
    consent: ConsentPolicy = NO_RULES
    time_zone: str = ""
    recent: RecentMode = RecentMode.ON_QUESTIONS
    serves_users: bool = False


@dataclass(frozen=True, slots=True)
class SettingsVersion:
    """One change of the settings: its author, time and reason, and the settings from then on."""

    settings: AgentSettings
    at: datetime
    author_name: str
    reason: str
    changed: tuple[str, ...]


def settings_get(*, agent: Agent, by: Principal) -> AgentSettings:
    """The settings in force. Raises NotAllowed."""
    by.require(VIEW, agent)
    return _settings(_trail(agent).count(), agent.config)


def settings_history(*, agent: Agent, by: Principal) -> list[SettingsVersion]:
    """All changes, the latest first. Raises NotAllowed."""
    by.require(VIEW, agent)
    return _history(agent)


@transaction.atomic
def settings_update(
    *, agent: Agent, base_version: int | None = None, reason: str = "", by: Principal, **given: Any
) -> AgentSettings:
    """Replace settings, those of KEPT; {}, "" and a policy or budget without content restore the defaults, None leaves
    one as it is. People only.

    From when an agent `serves_users`, the memories that it has are nobody's until people assign them
    (memory.services.users).

    Raises Invalid, naming the field, NotFound for an unknown profile, Conflict when `base_version` is not current.
    """
    by.require(CHANGE, agent)
    given = {name: value for name, value in given.items() if value is not None}
    if given.get(SERVES_USERS) and not serves_users(agent):
        users_separate(agent=agent, by=by)
    agent = agent_lock(agent)
    entries = {name: KEPT[name](value, agent) or None for name, value in given.items()}
    version = _trail(agent).count()
    if base_version is not None and base_version != version:
        raise StaleEdit(base_version, version)
    agent = agent_configure_all(agent=agent, entries=entries, reason=reason, by=by)
    if CONFIGURED in given:
        language_apply(agent)
    return _settings(_trail(agent).count(), agent.config)


@transaction.atomic
def settings_restore(*, agent: Agent, version: int, reason: str = "", by: Principal) -> AgentSettings:
    """Restore the settings of `version` as a new version. Raises NotAllowed, NotFound, Invalid."""
    by.require(CHANGE, agent)
    agent = agent_lock(agent)
    found = next((one for one in _history(agent) if one.settings.version == version), None)
    if found is None and version != 0:
        raise NotFound(f"There is no version {version} of these settings.")
    was = found.settings if found else _configs(agent)[0]
    restored = {name: getattr(was, name) for name in KEPT}
    return settings_update(agent=agent, reason=reason or f"Restores version {version}.", by=by, **restored)


def _trail(agent: Agent) -> Any:
    return AuditEvent.objects.of_object("agent", agent.pk).filter(action="agent.configure")


def _configs(agent: Agent) -> list[AgentSettings]:
    """The settings of every version from 0 on, by taking back one change after another."""
    config = dict(agent.config)
    states = [config]
    for before in _trail(agent).order_by("-id").values_list("before", flat=True):
        config = {name: value for name, value in (config | (before or {})).items() if value is not None}
        states.append(config)
    return [_settings(number, state) for number, state in enumerate(reversed(states))]


def _history(agent: Agent) -> list[SettingsVersion]:
    states = _configs(agent)[1:]
    records = list(_trail(agent).order_by("id"))
    made = [
        SettingsVersion(state, record.at, record.author_name, record.message, tuple(record.after or ()))
        for state, record in zip(states, records, strict=True)
    ]
    return made[::-1]


def _settings(version: int, config: Mapping[str, Any]) -> AgentSettings:
    budgets, stm = config.get("budgets"), config.get("stm")
    kept = budgets.items() if isinstance(budgets, dict) else ()
    return AgentSettings(
        version,
        {name: tokens for name, tokens in kept if isinstance(tokens, int)},
        stm if isinstance(stm, dict) else {},
        str(config.get("profile") or ""),
        ContestedPolicy.of_config(config),
        str(config.get(CONFIGURED) or ""),
        AttentionBudget.of_config(config),
        Autonomy.of_config(config),
        ConsentPolicy.of_config(config),
        str(config.get(ZONE_KEY) or ""),
        RecentMode(config.get(RECENT_KEY) or RecentMode.ON_QUESTIONS),
        bool(config.get(SERVES_USERS)),
    )


def budgets_check(budgets: Mapping[str, Any]) -> dict[str, int]:
    """Budgets by section as settings keep them. Raises Invalid."""
    for name, tokens in budgets.items():
        if name not in BUDGETS:
            raise Invalid(f"There is no section {name[:60]!r}; they are {', '.join(BUDGETS)}.", field="budgets")
        least = 1 if name == TOTAL else 0
        if isinstance(tokens, bool) or not isinstance(tokens, int) or not least <= tokens <= MAX_TOTAL:
            section = "the whole prompt" if name == TOTAL else name.replace("_", " ")
            raise Invalid(
                f"The budget of {section} must be a number from {least} to {MAX_TOTAL:,} tokens.", field="budgets"
            )
    return dict(budgets)


def _stm_check(stm: Mapping[str, Any]) -> dict[str, Any]:
    if reason := first_unstorable(stm):
        raise Invalid(reason, field="stm")
    if any(isinstance(value, Mapping) and len(value) > MAX_BOOSTS for value in stm.values()):
        raise Invalid(f"At most {MAX_BOOSTS} boosts of one kind.", field="stm")
    if problems := StmConfig.of({"stm": stm}).problems:
        raise Invalid(problems[0], field="stm")
    return dict(stm)


def _autonomy_kept(autonomy: Autonomy, agent: Agent) -> object:
    autonomy = autonomy.set_over(Autonomy.of_config(agent.config), clock.now())
    return autonomy != DEFAULT_AUTONOMY and autonomy.as_json()


def _recent_kept(recent: str, agent: Agent) -> object:
    chosen = choice_check("recent", recent or RecentMode.ON_QUESTIONS, [*RecentMode])
    return chosen != RecentMode.ON_QUESTIONS and chosen


KEPT: Mapping[str, Callable[[Any, Agent], object]] = {
    "budgets": lambda budgets, agent: budgets_check(budgets),
    "stm": lambda stm, agent: _stm_check(stm),
    "profile": lambda slug, agent: slug and profile_get(slug).slug,
    "contested": lambda policy, agent: policy != ContestedPolicy() and policy.as_json(),
    ATTENTION_KEY: lambda budget, agent: budget != DEFAULT_BUDGET and budget.as_json(),
    AUTONOMY_KEY: _autonomy_kept,
    CONSENT_KEY: lambda policy, agent: policy.as_json(),
    CONFIGURED: lambda language, agent: language_check(language),
    ZONE_KEY: lambda zone, agent: zone_check(zone_of_city(zone)),
    RECENT_KEY: _recent_kept,
    SERVES_USERS: lambda serves, agent: serves,
}
"""By the name of a setting, what the agent's configuration keeps of a value; nothing of a default. Raises Invalid."""


PIN = "context.add_contextpin"
UNPIN = "context.delete_contextpin"
MAX_PINS = 20
"""Maximum number of pins of one agent: memories that are always included take the room of relevant ones."""


@agent_transaction()
def context_pin(*, agent: Agent, item_type: str, item_id: str, by: Principal, persona: str | None = None) -> ContextPin:
    """Pin an active memory that `by` may read. Pinning it twice changes nothing.

    Raises Invalid for a type that cannot be pinned, NotFound for an unknown memory, Conflict beyond MAX_PINS.
    """
    by.require(PIN, agent)
    memory_check(agent=agent, item_type=item_type, item_id=item_id, by=by, persona=persona)
    agent = agent_lock(agent)
    pins = ContextPin.objects.filter(agent=agent)
    found = pins.filter(item_type=item_type, item_id=item_id).first()
    if found is not None:
        return found
    if pins.count() >= MAX_PINS:
        raise Conflict(f"At most {MAX_PINS} memories of an agent are pinned; remove a pin first.")
    pin = ContextPin.objects.create(
        agent=agent,
        item_type=item_type,
        item_id=item_id,
        author_kind=by.kind,
        author_id=by.id,
        author_name=by.name,
    )
    _record(pin, by, "context.pin", after={"type": item_type, "id": item_id})
    return pin


@agent_transaction()
def context_unpin(*, agent: Agent, item_type: str, item_id: str, by: Principal) -> None:
    """Remove a pin. Raises NotFound when there is none."""
    by.require(UNPIN, agent)
    pin = existing(
        ContextPin.objects.select_for_update().filter(agent=agent, item_type=item_type, item_id=item_id).first(),
        "This memory is not pinned.",
    )
    _record(pin, by, "context.unpin", before={"type": item_type, "id": item_id})
    pin.delete()


def memory_check(*, agent: Agent, item_type: str, item_id: str, by: Principal, persona: str | None = None) -> str:
    """The text of an active memory that `by` may read. Raises Invalid and NotFound."""
    item_check(item_type, item_id)
    found = memories_load(persona_memory(agent, by, persona), [(item_type, item_id)])
    return existing(found.get((item_type, item_id)), "There is no such memory, or it is retired.")[0]


def item_check(item_type: str, item_id: str) -> None:
    """Raise Invalid or NotFound unless this could be a memory's type and id, in the form in which ids are kept."""
    if item_type not in ItemType.values:
        raise Invalid(f"A memory is one of {', '.join(ItemType.values)}, not {item_type[:60]!r}.", field="item_type")
    try:
        usual: str | None = str(int(item_id)) if item_type == ItemType.EVENT else str(UUID(item_id))
    except ValueError:
        usual = None
    # A 64-bit key has at most 19 digits, and the largest of them is refused with the rest.
    if usual != item_id or (item_type == ItemType.EVENT and not 0 < int(item_id) < 2**63):
        raise NotFound("There is no such memory.")


def _record(pin: ContextPin, by: Principal, action: str, **states: Any) -> None:
    held = SearchItem.objects.filter(agent=pin.agent, item_type=pin.item_type, item_id=pin.item_id)
    # Of a memory that is gone nobody can say any more whose it was.
    persona = held.values_list("persona", flat=True).first() or Persona.SUBCONSCIOUS
    audit_record(by=by, action=action, target=pin, agent=pin.agent, persona=persona, **states)

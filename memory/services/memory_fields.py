"""The fields that writers give memories, each declared once: how a value is checked, and in which form it is stored.

Every interface comes here: API, MCP, console and imports. The schemas of the API show the same bounds to callers.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from django.db.models import Model

from memory.models import LOCATORS, Decision, Scope, key_check, tier_of
from memory.policy import (
    MAX_ATTRIBUTE_CHARACTERS,
    MAX_CONTENT_CHARACTERS,
    MAX_DETAIL_CHARACTERS,
    MAX_LESSONS,
    MAX_LOCATOR_CHARACTERS,
    MAX_NAME_CHARACTERS,
    MAX_PARTICIPANTS,
    MAX_REASONS,
    MAX_REMARK_CHARACTERS,
    MAX_STEPS,
    MAX_TTL_SECONDS,
    MAX_VALUE_CHARACTERS,
)
from memory.policy.attributes import attribute_words
from nousweb.lib import (
    Invalid,
    choice_check,
    clock,
    moment_check,
    tags_check,
    text_check,
    texts_check,
    unit_check,
    visible_text_check,
    whole_check,
    word_check,
)

Check = Callable[[str, Any], Any]
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_SHA256 = re.compile(r"[0-9a-f]{64}")
CLOCKS_DIFFER = timedelta(minutes=5)
"""So far ahead of ours may the clock of a client be."""


def _optional_word(field: str, value: str) -> str:
    return value and word_check(field, value)


def attribute_check(field: str, value: str) -> str:
    """The name of an attribute in one form: lower case, one space between words, without an article."""
    return " ".join(attribute_words(visible_text_check(field, value, MAX_ATTRIBUTE_CHARACTERS)))


def future_check(field: str, value: datetime) -> datetime:
    """A moment that is still to come, in UTC."""
    if value.tzinfo is None:
        raise Invalid(f"{field} lacks its time zone, such as 2026-01-31T09:00:00+00:00.", field=field)
    if value <= clock.now():
        raise Invalid(f"{field} lies in the past.", field=field)
    moment_check(field, value)
    return value.astimezone(UTC)


def expiry_checked(expires_at: datetime | None, ttl: int | None) -> datetime | None:
    """The moment from which a memory is forgotten: `expires_at`, or `ttl` seconds from now; None for never.

    Raises Invalid, naming the field.
    """
    if ttl is None:
        return None if expires_at is None else future_check("expires_at", expires_at)
    if expires_at is not None:
        raise Invalid("Give either expires_at or ttl.", field="ttl")
    return clock.now() + timedelta(seconds=whole_check("ttl", ttl, 1, MAX_TTL_SECONDS))


def source_ref_check(field: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """What a memory was read from: {"url" or "path", "sha256", "seen_at"}, as it is stored. Nothing opens the address.

    Raises Invalid, naming the part.
    """
    given = {name: part for name, part in value.items() if part} if isinstance(value, Mapping) else {}
    if unknown := given.keys() - {*LOCATORS, "sha256", "seen_at"}:
        raise Invalid(f"A source has no {min(unknown)[:60]!r}.", field=field)
    if len(given.keys() & {*LOCATORS}) != 1:
        raise Invalid("A source has either a url or a path.", field="url")
    name = next(name for name in LOCATORS if name in given)
    if not isinstance(given[name], str):
        raise Invalid(f"{name} is text.", field=name)
    locator = visible_text_check(name, given[name], MAX_LOCATOR_CHARACTERS, required=True)
    if locator != given[name] or not locator.isprintable() or (name == "url") is not bool(_URL.match(locator)):
        raise Invalid(f"{name} is no {'address of the web' if name == 'url' else 'path'} in one line.", field=name)
    if not _SHA256.fullmatch(digest := str(given.get("sha256", "")).lower()):
        raise Invalid("sha256 has 64 hexadecimal digits.", field="sha256")
    seen_at = given.get("seen_at") or clock.now()
    with suppress(ValueError):
        seen_at = datetime.fromisoformat(seen_at) if isinstance(seen_at, str) else seen_at
    if not isinstance(seen_at, datetime) or seen_at.tzinfo is None:
        raise Invalid("seen_at is a moment with its time zone.", field="seen_at")
    if seen_at > clock.now() + CLOCKS_DIFFER:
        raise Invalid("seen_at lies in the future.", field="seen_at")
    moment_check("seen_at", seen_at)
    return {name: locator, "sha256": digest, "seen_at": min(seen_at, clock.now()).astimezone(UTC).isoformat()}


FIELDS: Mapping[str, Check] = {
    "active": lambda field, value: value,
    "attribute": attribute_check,
    "category": _optional_word,
    "confidence": unit_check,
    "content": partial(visible_text_check, limit=MAX_CONTENT_CHARACTERS, required=True),
    "detail": partial(text_check, limit=MAX_DETAIL_CHARACTERS),
    "domain": _optional_word,
    "expires_at": future_check,
    "importance": unit_check,
    "kind": _optional_word,
    "lessons": partial(texts_check, count=MAX_LESSONS, limit=MAX_REMARK_CHARACTERS),
    "name": partial(text_check, limit=MAX_NAME_CHARACTERS, required=True),
    "participants": partial(texts_check, count=MAX_PARTICIPANTS, limit=100),
    "reasons": partial(texts_check, count=MAX_REASONS, limit=MAX_REMARK_CHARACTERS),
    "source_ref": source_ref_check,
    "stakes": partial(choice_check, choices=Decision.Stakes.values),
    "steps": partial(texts_check, count=MAX_STEPS, limit=MAX_REMARK_CHARACTERS),
    "subject": partial(visible_text_check, limit=200),
    "tags": lambda field, value: tags_check(value),
    "valid_from": moment_check,
    "valid_until": moment_check,
    "value": partial(visible_text_check, limit=MAX_VALUE_CHARACTERS),
    "decision.description": partial(text_check, limit=MAX_CONTENT_CHARACTERS, required=True),
    "fact.category": word_check,
}
"""By name; by type and name where a type differs. Any other text is checked by the length of its column."""


def fields_checked(model: type[Model], values: Mapping[str, Any]) -> dict[str, Any]:
    """These fields as they are stored; None leaves one as it is. Raises Invalid, naming the field."""
    checked = {}
    for name, value in values.items():
        if value is not None:
            check = FIELDS.get(f"{model._meta.model_name}.{name}") or FIELDS.get(name) or _column_check(model, name)
            checked[name] = check(name, value)
    return checked


def _column_check(model: type[Model], name: str) -> Check:
    column: Any = model._meta.get_field(name)
    return partial(text_check, limit=column.max_length or MAX_CONTENT_CHARACTERS)


def keys_checked(scope: str, project: str, task: str, user: str = "") -> dict[str, str]:
    """The keys of a new memory, and the scope that follows; `user` is by `user_write_check`. Raises Invalid."""
    project, task = key_check("project", project), key_check("task", task)
    tier = tier_of(choice_check("scope", scope, Scope.values), project, task)
    return {"scope": tier, "project": project, "task": task, "user": user}

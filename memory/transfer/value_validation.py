"""The values of an exported row, checked against the columns that will hold them: types, lengths, choices, moments."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone

from memory.models import FactChange, WorkingMemory
from memory.services.memory_write import source_ref_check
from nousweb.lib import Invalid, is_blank

MAX_LEAD = timedelta(minutes=10)
"""How far the clock of the machine that wrote the file may be ahead of this one's."""

OF_THE_WORLD = frozenset({"valid_from", "valid_until", "expires_at", "ts", "started_at", "ended_at"})
"""Moments that may lie ahead, or are not of the machine that wrote them; all others tell what has happened."""

CONTENT = frozenset({"content", "description", "pattern", "name", "text"})
"""Columns that must not be empty; the others are names that the product itself gives."""

WORKING_TEXTS = {"items": ("id", "type", "text"), "open_threads": ("id", "text")}
"""What each entry of a working memory has as text, by column."""

CHANGED_MOMENTS = ("valid_from", "valid_until", "expires_at", "retired_at", "invalidated_at", "last_confirmed_at")
"""What a change of a fact keeps as moments: restoring the fact reads them again."""


class BadLine(Invalid):
    """A line of the file cannot be used."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"Line {number}: {why.rstrip('.')}.", field="file", line=number)


def column_value(number: int, column: Any, value: Any) -> Any:
    """`value`, of line `number`, as the column holds it. Raises BadLine that names the column."""
    try:
        if value is None:
            if not column.null:
                raise ValidationError("is missing")
            return None
        value = _typed(column, value)
        if column.choices and value not in (*dict(column.flatchoices), *([""] if column.blank else [])):
            raise ValidationError("is none of its choices")
        column.run_validators(value)
    except (ValidationError, ValueError, TypeError, OverflowError) as error:
        why = error.messages[0] if isinstance(error, ValidationError) else str(error)
        raise BadLine(number, f"{column.attname}: {why}"[:300]) from error
    return value


def is_uuid(text: str) -> bool:
    """Whether `text` is a UUID as an export writes it."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _typed(column: Any, value: Any) -> Any:
    """The value of the type that the column is of; nothing is read as another type that it resembles."""
    match column:
        case ArrayField():
            if not isinstance(value, list):
                raise ValidationError("is a list")
            for place, part in enumerate(value):
                if part is None:
                    raise ValidationError(f"entry {place + 1} is missing")
                _typed(column.base_field, part)
        case models.JSONField():
            _json_check(column, value)
        case models.CharField() | models.TextField():
            if not isinstance(value, str):
                raise ValidationError("is text")
            if not column.blank and is_blank(value) and column.name in CONTENT:
                raise ValidationError("must not be empty")
        case models.UUIDField():
            if not isinstance(value, str) or not is_uuid(value):
                raise ValidationError("is a UUID, written in small letters with hyphens")
            return UUID(value)
        case models.BooleanField():
            if not isinstance(value, bool):
                raise ValidationError("is true or false")
        case models.FloatField():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValidationError("is a number")
            return float(value)
        case models.IntegerField():
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValidationError("is a whole number")
        case models.DateTimeField():
            return _moment(column, value)
        case _:
            return column.to_python(value)
    return value


def _moment(column: models.DateTimeField | None, value: Any) -> datetime:
    if not isinstance(value, str):
        raise ValidationError("is a moment as text, such as 2026-01-31T09:00:00+00:00")
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise ValidationError("is a moment as text, such as 2026-01-31T09:00:00+00:00") from error
    if moment.tzinfo is None:
        raise ValidationError("lacks its time zone")
    try:
        moment = moment.astimezone(timezone.get_default_timezone())
    except OverflowError as error:
        raise ValidationError("lies outside the years 1 to 9999") from error
    if column is not None and column.name not in OF_THE_WORLD and moment > timezone.now() + MAX_LEAD:
        raise ValidationError("lies in the future")
    return moment


def _json_check(column: Any, value: Any) -> None:
    wanted = list if column.default is list else dict
    if not isinstance(value, wanted):
        raise ValidationError("is a list" if wanted is list else "is an object")
    if column.name == "source_ref" and isinstance(value, dict):
        try:
            source_ref_check(column.name, value)
        except Invalid as error:
            raise ValidationError(f"is no source: {error.detail}") from error
    if column.model is WorkingMemory:
        for place, entry in enumerate(value, 1):
            _entry_check(place, entry, WORKING_TEXTS[column.name])
    if column.model is FactChange and column.name == "before" and isinstance(value, dict):
        for name in CHANGED_MOMENTS:
            if value.get(name) is not None:
                _moment(None, value[name])


def _entry_check(place: int, entry: Any, texts: tuple[str, ...]) -> None:
    """One entry of a working memory is as its service writes it."""
    if not isinstance(entry, dict) or not all(isinstance(entry.get(name), str) for name in texts):
        raise ValidationError(f"entry {place} is an object with {', '.join(texts)} as text")
    _moment(None, entry.get("added_at"))
    relevance = entry.get("relevance")
    if "type" not in texts:
        return
    if isinstance(relevance, bool) or not isinstance(relevance, int | float) or not 0 <= relevance <= 1:
        raise ValidationError(f"the relevance of entry {place} lies between 0 and 1")

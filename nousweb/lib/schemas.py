"""Base classes of the API's schemas."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from inspect import get_annotations
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from django.core.validators import MaxValueValidator
from django.db import models
from django.http import HttpResponse
from ninja import Schema
from pydantic import AwareDatetime, BeforeValidator, ConfigDict, Field, ValidationInfo, create_model, field_validator
from pydantic_core import to_json

from nousweb.lib.constrained_types import NextCursor, OneOf, UnitInterval
from nousweb.lib.validation import first_unstorable

MOMENTS = {datetime, AwareDatetime}


_TYPES: tuple[tuple[type[models.Field], Any], ...] = (
    (models.UUIDField, UUID),
    (models.DateTimeField, datetime),
    (models.BooleanField, bool),
    (models.IntegerField, int),
    (models.FloatField, float),
    (models.JSONField, dict[str, Any]),
)


def _column_type(field: Any) -> Any:
    """The type of a model's field in an answer."""
    if field.choices:
        kind: Any = Annotated[str, OneOf(*(value for value, _ in field.choices))]
    elif hasattr(field, "base_field"):
        kind = list[_column_type(field.base_field)]  # type: ignore[misc]
    elif any(isinstance(check, MaxValueValidator) and check.limit_value == 1 for check in field.validators):
        kind = UnitInterval
    else:
        kind = next((kind for column, kind in _TYPES if isinstance(field, column)), str)
    return kind | None if field.null else kind


class Derived(Schema):
    """A schema with fields of another declaration: `class ProcedureOut(Derived, of=Procedure, fields="name steps")`.

    They have the types and bounds of the model or schema `of`, in the order of `fields`, by default all. The class may
    declare some of them itself; what else it declares follows. A reference is its key, with the field's name. The
    fields of a `patch` may be left out.
    """

    def __init_subclass__(cls, of: Any = None, fields: str = "", patch: bool = False, **config: Any) -> None:
        super().__init_subclass__(**config)
        if of is None:
            return
        own = get_annotations(cls)
        types = {} if issubclass(of, models.Model) else get_type_hints(of, include_extras=True)
        ordered: dict[str, Any] = {}
        for name in fields.split() or of.model_fields:
            if name in own:
                ordered[name] = own[name]
            elif types:
                ordered[name] = types[name]
                if patch:
                    setattr(cls, name, optional())
            elif (field := of._meta.get_field(name)).is_relation:
                ordered[name] = _column_type(field.target_field) | None
                setattr(cls, name, Field(None, alias=field.attname))
            else:
                ordered[name] = _column_type(field)
        cls.__annotations__ = {**ordered, **own}


class Input(Derived):
    """A request body: unknown fields, text that cannot be stored, and values of another type are refused.

    Pydantic would read true as 1, "5" as 5, and a number as seconds since 1970. Its strict mode would refuse moments
    too, which JSON can only write as text.
    """

    model_config = ConfigDict(extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _as_declared(cls, value: Any, info: ValidationInfo) -> Any:
        if reason := first_unstorable(value):
            raise ValueError(reason)
        if isinstance(value, str | int | float):
            reason = _other_type(_types(cls, info.field_name), value)
        else:
            reason = _other_entry(_entry_types(cls, info.field_name), value)
        if reason:
            raise ValueError(reason)
        return value


@cache
def _types(schema: type[Schema], name: str) -> frozenset[Any]:
    """The possible types of the field: its type, or the members of its union."""
    pending, found = [schema.model_fields[name].annotation], set()
    while pending:
        kind = pending.pop()
        found.add(kind)
        if get_origin(kind) in (Union, UnionType, Annotated):
            pending.extend(get_args(kind))
    return frozenset(found)


@cache
def _entry_types(schema: type[Schema], name: str) -> frozenset[Any]:
    """The types of the entries of a list or of the values of a mapping, if Pydantic would convert other types."""
    entries = {get_args(kind)[-1] for kind in _types(schema, name) if get_origin(kind) in (list, dict)}
    return frozenset(entries & {int, float, bool})


def _other_entry(types: frozenset[Any], value: Any) -> str:
    """The reason why an entry of `value` has a wrong type; "" if none has, or the field has no entries."""
    if not types or not isinstance(value, list | dict):
        return ""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(each, str | int | float) and (reason := _other_type(types, each)):
            return f"{str(key)[:60]}: {reason}"
    return ""


def _other_type(types: frozenset[Any], value: str | float) -> str:
    """Why a value is not what the field takes though Pydantic would read it so; "" otherwise."""
    if types & MOMENTS and (reason := moment_reason(value)):
        return reason
    if types & {int, float} and (isinstance(value, bool) or (isinstance(value, str) and str not in types)):
        return "Input should be a number, not true, false or text."
    if bool in types and not isinstance(value, bool) and not types & {int, float, str}:
        return "Input should be true or false."
    return ""


def moment_reason(value: Any) -> str:
    """Why a value is no moment though Pydantic would read it as seconds since 1970; "" otherwise."""
    if value is None or (isinstance(value, str) and set(value) & set("-:")) or isinstance(value, datetime):
        return ""
    return "A moment is text with a time zone, such as 2026-01-31T09:00:00Z."


def _moment_text(value: Any) -> Any:
    if reason := moment_reason(value):
        raise ValueError(reason)
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(_moment_text)]
"""A moment where no `Input` checks it: in an address, and in rows that come by the thousand."""


def optional(description: str | None = None) -> Any:
    """A field of a patch: it has no default, and left out it is no part of `dict(exclude_unset=True)`."""
    return Field(default_factory=lambda: None, description=description)


@cache
def page_of(item: type[Schema], name: str = "") -> type[Schema]:
    """The schema of a page of a list; `FactPage` for `FactOut`, unless `name` is given."""
    entries: Any = list[item]  # type: ignore[valid-type]
    return create_model(
        name or f"{item.__name__.removesuffix('Out')}Page",
        __base__=Schema,
        items=(entries, ...),
        next=(NextCursor, ...),
    )


REFUSALS: dict[int, None] = dict.fromkeys((401, 403, 404, 422))
"""The refusals of most operations. The API's document says of each status from 400 on that its body is a `Problem`."""
CHANGE_REFUSALS: dict[int, None] = {**REFUSALS, 409: None}


class Problem(Schema):
    """An error as application/problem+json (RFC 9457); further members depend on `code`."""

    model_config = ConfigDict(extra="allow")

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str
    request_id: str = ""


def part_of(schema: type[Schema], values: Mapping[str, Any]) -> dict[str, Any]:
    """Of `values` what the schema names."""
    return {name: values[name] for name in _names(schema)}


@cache
def _names(schema: type[Schema]) -> tuple[str, ...]:
    return tuple(schema.model_fields)


def raw_json_response(body: Any) -> HttpResponse:
    """An answer of values that need no check any more, for what is called all the time.

    Whoever uses it has a test that the endpoint's schema reads the answer and gives it back unchanged.
    """
    return HttpResponse(to_json(body), content_type="application/json; charset=utf-8")

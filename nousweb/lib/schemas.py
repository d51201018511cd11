"""Bases of what the API takes and gives."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from ninja import Schema
from pydantic import ConfigDict, field_validator
from pydantic_core import to_json

from nousweb.lib.text import first_unstorable


class Input(Schema):
    """A request body: unknown fields and text that cannot be stored are refused."""

    model_config = ConfigDict(extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _storable(cls, value: Any) -> Any:
        if reason := first_unstorable(value):
            raise ValueError(reason)
        return value


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
    return {name: values[name] for name in schema.model_fields}


def answered(body: Any) -> HttpResponse:
    """An answer of values that need no check any more, for endpoints that are called all the time.

    Whoever uses it has a test that the endpoint's schema reads the answer and gives it back unchanged.
    """
    return HttpResponse(to_json(body), content_type="application/json; charset=utf-8")

"""Bases of what the API takes and gives."""

from typing import Any

from ninja import Schema
from pydantic import ConfigDict, field_validator

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

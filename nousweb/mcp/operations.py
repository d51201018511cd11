"""Operations of the API, called within the process: same schemas, rights, services, errors and audit as over HTTP."""

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode

from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse
from django.urls import URLPattern
from pydantic_core import from_json, to_json

from identity.principal import Principal
from nousweb.access.api_authentication import AUTHENTICATED_CALLER
from nousweb.api import api
from nousweb.lib import first_unstorable

SCHEMAS = "#/components/schemas/"


@dataclass(frozen=True)
class Operation:
    """One operation as the OpenAPI document describes it; `path` is relative to the API, such as `facts/{fact_id}`."""

    method: str
    path: str

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = _document()["paths"][f"/{self.path}"][self.method.lower()]
        return found

    @property
    def parameters(self) -> list[dict[str, Any]]:
        """Parameters of the path and the query, without `agent`: a token belongs to one agent."""
        return [one for one in self.document.get("parameters", []) if one["name"] != "agent"]

    @property
    def body(self) -> dict[str, Any] | None:
        """The schema of the body, an object; None where there is none."""
        content = self.document.get("requestBody", {}).get("content", {})
        return _object(content["application/json"]["schema"]) if content else None

    @property
    def answer(self) -> dict[str, Any]:
        """The schema of the answer, an object."""
        responses = self.document["responses"]
        status = min(status for status in responses if str(status).startswith("2"))
        return _object(responses[status]["content"]["application/json"]["schema"])

    def call(self, by: Principal, arguments: Mapping[str, Any]) -> "Answer":
        """Call the operation for `by`; each argument goes where the operation takes it, unknown ones into the body.

        Raises ValueError for an argument of path or query that an address cannot contain: an object, or text with a
        NUL.
        """
        places = {parameter["name"]: parameter["in"] for parameter in self.parameters}
        for name in places.keys() & arguments.keys():
            if reason := first_unstorable(arguments[name]):
                raise ValueError(f"{name}: {reason}")
        nested = [
            name
            for name, value in arguments.items()
            if name in places and any(isinstance(part, dict | list) for part in _parts(value))
        ]
        if nested:
            raise ValueError(f"{nested[0]}: takes a plain value, or a list of them.")
        path = {name: _written(value) for name, value in arguments.items() if places.get(name) == "path"}
        query = [
            (name, _written(part))
            for name, value in arguments.items()
            if places.get(name) == "query"
            for part in _parts(value)
            if part is not None
        ]
        rest = {name: value for name, value in arguments.items() if name not in places}
        # An operation without a body would silently drop unknown arguments.
        if rest and self.body is None:
            raise ValueError(f"{next(iter(rest))}: there is no such argument.")
        missing = [
            parameter["name"]
            for parameter in self.parameters
            if parameter["in"] == "path" and parameter["name"] not in path
        ]
        if missing:
            raise ValueError(f"{missing[0]}: is required.")
        request = _request(by, self.method, self.path, query, None if self.body is None else to_json(rest))
        response = _views()[self.path](request, **path)
        return Answer(response.status_code, from_json(response.content), dict(response.items()))


@dataclass(frozen=True)
class Answer:
    """The response of an operation: its status, its body, and its headers."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def refused(self) -> bool:
        return self.status >= 400


def self_contained(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema` with all references included in `$defs`, readable without the OpenAPI document."""
    found: dict[str, Any] = {}

    def rewritten(node: Any) -> Any:
        if isinstance(node, list):
            return [rewritten(one) for one in node]
        if not isinstance(node, dict):
            return node
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith(SCHEMAS):
            name = reference.removeprefix(SCHEMAS)
            if name not in found:
                found[name] = {}
                found[name] = rewritten(_document()["components"]["schemas"][name])
            return {**node, "$ref": f"#/$defs/{name}"}
        return {key: rewritten(value) for key, value in node.items()}

    whole: dict[str, Any] = rewritten(schema)
    return {**whole, "$defs": found} if found else whole


def _object(schema: dict[str, Any]) -> dict[str, Any]:
    """The object that `schema` refers to, also where it may be null."""
    for one in schema.get("anyOf", [schema]):
        if "$ref" in one:
            named: dict[str, Any] = _document()["components"]["schemas"][one["$ref"].removeprefix(SCHEMAS)]
            return named
    return schema


def _parts(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _written(value: Any) -> str:
    """A value as an address holds it."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


@cache
def _document() -> dict[str, Any]:
    return api.get_openapi_schema(path_prefix="/")


@cache
def _views() -> dict[str, Callable[..., HttpResponse]]:
    """The view of each path; the patterns of the API have no includes."""
    patterns, _, _ = api.urls
    return {
        re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern)): pattern.callback
        for pattern in patterns
        if isinstance(pattern, URLPattern)
    }


def _request(by: Principal, method: str, path: str, query: list[tuple[str, str]], body: bytes | None) -> WSGIRequest:
    content = body or b""
    request = WSGIRequest(
        {
            "REQUEST_METHOD": method,
            "PATH_INFO": f"/api/{path}",
            "QUERY_STRING": urlencode(query),
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(content)),
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "0",
            "wsgi.input": io.BytesIO(content),
            "wsgi.url_scheme": "http",
        }
    )
    request.request_id = by.request_id  # type: ignore[attr-defined]
    setattr(request, AUTHENTICATED_CALLER, by)
    return request

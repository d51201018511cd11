"""Operations of the OpenAPI document as a page shows them: fields in sentences, and a call to paste."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Any
from uuid import UUID

from nousweb.api import api

SCHEMAS = "#/components/schemas/"
METHODS = ("get", "post", "put", "patch", "delete")
SAMPLES = {"date-time": "2026-01-31T09:00:00Z", "date": "2026-01-31", "uuid": str(UUID(int=0))}
"""Values by format for examples."""
WORDS = {
    "content": "Tim lives in Silver Spring.",
    "input": "What is the weather like?",
    "q": "weather",
    "url": "https://example.org/nous",
}
"""Values by a field's name for examples."""
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/api/facts/{fact_id}/supersede"): {"by": {"content": "Tim lives in Rockville."}, "reason": "He moved."},
    ("POST", "/api/webhooks"): {"url": "https://example.org/nous", "scopes": ["memory:read"]},
    ("POST", "/api/expectations"): {
        "request": {"input": "Who are you?"},
        "requirement": "present",
        "target": "section",
        "section": "identity",
    },
}
"""Examples of bodies that the schema alone does not determine."""


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field of a query, a body or an answer."""

    name: str
    kind: str
    """Its type and bounds, in words."""
    meaning: str
    required: bool = False
    default: str = ""


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """One status of a response with its fields."""

    status: str
    meaning: str
    fields: list[FieldRow]
    refused: bool


@dataclass(frozen=True)
class ApiOperation:
    """An operation: `path` begins with /api; `document` is its part of the OpenAPI document."""

    method: str
    path: str
    document: dict[str, Any]

    @property
    def summary(self) -> str:
        return str(self.document.get("summary", ""))

    @property
    def paragraphs(self) -> list[str]:
        """The description of the operation, as paragraphs."""
        text = str(self.document.get("description", "")).replace("`", "")
        return [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]

    @property
    def group(self) -> str:
        """The group of the operation: the first part of its path."""
        return self.path.split("/")[2]

    @property
    def parameters(self) -> list[FieldRow]:
        """Parameters of the path and the query."""
        return [
            FieldRow(
                one["name"],
                _kind(one["schema"]),
                one.get("description", "part of the address" if one["in"] == "path" else ""),
                one["required"],
                _default(one["schema"]),
            )
            for one in self.document.get("parameters", [])
        ]

    @property
    def body(self) -> list[FieldRow]:
        return _fields(self._body_schema())

    @property
    def answers(self) -> list[AnswerPart]:
        """The responses, success first; refusals have no fields of their own."""
        parts = []
        for status, answer in sorted(self.document["responses"].items()):
            refused = status == "default" or int(status) >= 400
            content = answer.get("content", {})
            schema = {} if refused or not content else next(iter(content.values()))["schema"]
            meaning = "Any other refusal" if status == "default" else HTTPStatus(int(status)).phrase
            parts.append(AnswerPart("" if status == "default" else status, meaning, _fields(schema), refused))
        return parts

    def example(self, base_url: str) -> str:
        """A call of curl with the required parameters, and the token in $TOKEN."""
        path = self.path
        query = []
        for one in self.document.get("parameters", []):
            if one["in"] == "path":
                path = path.replace(f"{{{one['name']}}}", str(_sample(one["schema"], one["name"])))
            elif one["required"]:
                value = _sample(one["schema"], one["name"])
                query += [f"{one['name']}={each}" for each in (value if isinstance(value, list) else [value])]
        address = f"{base_url}{path}{'?' if query else ''}{'&'.join(query)}"
        method = "" if self.method in ("GET", "POST") else f"-X {self.method} "
        lines = [f"curl -s {method}-H \"Authorization: Bearer $TOKEN\" '{address}'"]
        if self._body_schema():
            body = json.dumps(self.example_body(), ensure_ascii=False)
            lines.append(f"  -d '{body}'")
        elif self.method == "POST":
            lines[0] = lines[0].replace("curl -s ", "curl -s -X POST ", 1)
        return " \\\n".join(lines)

    def example_body(self) -> Any:
        """The body of the example, None where there is none."""
        schema = self._body_schema()
        return BODIES.get((self.method, self.path)) or (_sample(schema, "") if schema else None)

    def says(self, words: list[str]) -> bool:
        """Whether all of these words, in lower case, stand in its path, its texts or the names of its fields."""
        names = " ".join(row.name for row in (*self.parameters, *self.body))
        text = f"{self.method} {self.path} {self.summary} {self.document.get('description', '')} {names}".lower()
        return all(word in text for word in words)

    def _body_schema(self) -> dict[str, Any]:
        content = self.document.get("requestBody", {}).get("content", {})
        return content["application/json"]["schema"] if content else {}


@cache
def operations() -> list[ApiOperation]:
    """All operations, in the order of their paths and methods."""
    return [
        ApiOperation(method.upper(), path, found[method])
        for path, found in sorted(_document()["paths"].items())
        for method in METHODS
        if method in found
    ]


@cache
def _document() -> dict[str, Any]:
    # As plain data: what ninja keeps holds objects of its own.
    document: dict[str, Any] = json.loads(json.dumps(api.get_openapi_schema(), default=str))
    return document


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema that `schema` refers to; of several alternatives the first that is not null."""
    if "$ref" in schema:
        named: dict[str, Any] = _document()["components"]["schemas"][schema["$ref"].removeprefix(SCHEMAS)]
        return named
    for choice in schema.get("anyOf", schema.get("allOf", [])):
        if choice.get("type") != "null":
            return {**_resolved(choice), **{key: schema[key] for key in ("description", "default") if key in schema}}
    return schema


def _fields(schema: dict[str, Any], prefix: str = "", depth: int = 0) -> list[FieldRow]:
    return list(_walk(schema, prefix, depth)) if schema else []


def _walk(schema: dict[str, Any], prefix: str, depth: int) -> Iterator[FieldRow]:
    """Rows of an object, those of objects in it below them, down to the third level."""
    whole = _resolved(schema)
    if whole.get("type") == "array":
        yield from _walk(whole.get("items", {}), f"{prefix}[].", depth)
        return
    for name, value in whole.get("properties", {}).items():
        inner = _resolved(value)
        required = name in whole.get("required", [])
        meaning = value.get("description") or inner.get("description", "")
        yield FieldRow(
            f"{prefix}{name}", _kind(value), meaning.split("\n\n")[0].replace("`", ""), required, _default(value)
        )
        if depth < 2:
            if inner.get("type") == "array":
                yield from _walk(inner.get("items", {}), f"{prefix}{name}[].", depth + 1)
            elif "properties" in inner:
                yield from _walk(inner, f"{prefix}{name}.", depth + 1)


def _kind(schema: dict[str, Any]) -> str:
    """A type in words, with its bounds: "text, 1 to 8000 characters"."""
    inner = _resolved(schema)
    nullable = any(choice.get("type") == "null" for choice in schema.get("anyOf", []))
    kinds = {
        "string": "text",
        "integer": "whole number",
        "boolean": "true or false",
        "array": "list",
        "object": "object",
    }
    kind = kinds.get(inner.get("type", ""), inner.get("type") or "any value")
    if inner.get("format") in ("date-time", "date", "uuid"):
        kind = {"date-time": "moment", "date": "day", "uuid": "id"}[inner["format"]]
    if inner.get("enum"):
        kind = "one of " + ", ".join(str(each) or "“”" for each in inner["enum"])
    if kind == "list" and (items := inner.get("items")):
        kind = f"list of: {_kind(items)}"
    for low, high, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ):
        if high in inner:
            kind += f", {inner.get(low, 0)} to {inner[high]}{unit}"
        elif low in inner:
            kind += f", at least {inner[low]}{unit}"
    return f"{kind}, or null" if nullable else kind


def _default(schema: dict[str, Any]) -> str:
    value = schema.get("default")
    return "" if value in (None, "", [], {}) else json.dumps(value, ensure_ascii=False)


def _sample(schema: dict[str, Any], name: str) -> Any:
    """A value that fits: for an object its required fields."""
    inner = _resolved(schema)
    kind = inner.get("type")
    if inner.get("enum"):
        return next((each for each in inner["enum"] if each), inner["enum"][0])
    if kind == "object" or "properties" in inner:
        required = inner.get("required", [])
        return {key: _sample(value, key) for key, value in inner.get("properties", {}).items() if key in required}
    if kind == "array":
        return [_sample(inner.get("items", {}), name.removesuffix("s"))] if inner.get("minItems") else []
    if kind == "boolean":
        return True
    if kind in ("integer", "number"):
        return max(inner.get("minimum", 1), 1) if inner.get("maximum", 1) >= 1 else inner.get("maximum")
    return SAMPLES.get(inner.get("format", ""), WORDS.get(name) or name.replace("_", " ") or "text")

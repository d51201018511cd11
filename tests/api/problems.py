"""What every refusal of the API looks like, and what it must leave alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from context.models import ContextRun
from identity.models import Agent, ApiToken, AuditEvent, ChangeProposal, IdentityVersion
from memory.models import Fact, FactChange

if TYPE_CHECKING:
    from django.http import HttpResponse

KEPT = (Agent, ApiToken, AuditEvent, ChangeProposal, IdentityVersion, Fact, FactChange, ContextRun)


def rows() -> dict[str, int]:
    """How many rows there are of everything that a call can write."""
    return {model.__name__: model._default_manager.count() for model in KEPT}


def each_once(first: Sequence[Any], second: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Each of `first` with the first of `second`, and the first of `first` with each of the others: for two lists of
    which one code path takes any pair."""
    return [(one, second[0]) for one in first] + [(first[0], other) for other in second[1:]]


def assert_problem(response: HttpResponse, status: int, code: str, *, field: str = "", detail: str = "") -> Any:
    """`response` is a problem document of this status and code, naming `field` and saying `detail`."""
    assert response.status_code == status, response.content[:500]
    assert response["Content-Type"] == "application/problem+json"
    body = response.json()
    assert (body["status"], body["code"]) == (status, code)
    assert body["title"]
    assert body["detail"]
    assert body["type"] == "about:blank"
    assert body["request_id"] == response["X-Request-Id"]
    if field:
        named = [error["field"] for error in body["errors"]] if "errors" in body else [body.get("field")]
        assert field in named, body
    if detail:
        assert detail in body["detail"], body["detail"]
    return body

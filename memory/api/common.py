"""Shared helpers of the memory API."""

from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest

from identity.models import Agent
from identity.principal import Principal
from identity.selectors import agent_for
from memory.persona import PersonaMemory, memory_of
from nousweb.lib.errors import existing
from nousweb.lib.keyset_page import keyset_page

Row = TypeVar("Row", bound=Model)


def principal(request: HttpRequest) -> Principal:
    """Who calls."""
    return request.auth  # type: ignore[attr-defined]


def caller(request: HttpRequest, slug: str, permission: str) -> tuple[Agent, Principal, PersonaMemory]:
    """The agent that a call is about, who calls, and the memory that this caller may read; the right is checked."""
    by = principal(request)
    agent = agent_for(by, slug)
    by.require(permission, agent)
    return agent, by, memory_of(agent, by, include_quarantined=True)


def row_of(rows: QuerySet[Row], key: object, noun: str) -> Row:
    """The row with the primary key `key`. Raises NotFound, also for one that this view does not show."""
    return existing(rows.filter(pk=key).first(), f"There is no such {noun}.")


def memory_row(request: HttpRequest, slug: str, action: str, model: type[Row], key: object) -> tuple[Row, Principal]:
    """One memory that the caller may read, and who calls; the right to `action` (such as "view") is checked.

    Raises NotFound, also for a memory of another agent or persona.
    """
    _, by, memory = caller(request, slug, f"memory.{action}_{model._meta.model_name}")
    return row_of(memory.rows(model).select_related("agent"), key, str(model._meta.verbose_name)), by


def list_page(
    rows: QuerySet[Row], *, moment: str, limit: int, cursor: str, latest_first: bool = True, key: str = "id"
) -> dict[str, Any]:
    """One keyset page as the API answers it. Raises Invalid for a foreign cursor."""
    page = keyset_page(rows, moment=moment, size=limit, after=cursor, latest_first=latest_first, key=key)
    return {"items": page.rows, "next": page.next or None}

"""What the routers of memory share."""

from typing import Any, TypeVar

from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest

from identity.models import Agent
from identity.principal import Principal
from identity.selectors import agent_for
from memory.persona import PersonaMemory, memory_of
from nousweb.lib.cursor import cursor_decode, cursor_encode
from nousweb.lib.errors import Invalid, NotFound
from nousweb.lib.schemas import Problem

REFUSALS = {401: Problem, 403: Problem, 404: Problem, 422: Problem}
CHANGE_REFUSALS = {**REFUSALS, 409: Problem}

Row = TypeVar("Row", bound=Model)


def principal(request: HttpRequest) -> Principal:
    """Who calls."""
    return request.auth  # type: ignore[attr-defined]


def caller(request: HttpRequest, slug: str, permission: str) -> tuple[Agent, Principal, PersonaMemory]:
    """The agent that a call is about, who calls, and the memory that this caller may read; the right is checked."""
    by = principal(request)
    agent = agent_for(by, slug)
    by.require(permission, agent)
    return agent, by, memory_of(agent, by)


def row_of(rows: QuerySet[Row], key: object, noun: str) -> Row:
    """The row with the primary key `key`. Raises NotFound, also for one that this view does not show."""
    row = rows.filter(pk=key).first()
    if row is None:
        raise NotFound(f"There is no such {noun}.")
    return row


def keyset_page(
    rows: QuerySet[Row], *, moment: str, limit: int, cursor: str, latest_first: bool = True, key: str = "id"
) -> dict[str, Any]:
    """One page of `rows`, latest (or earliest) first by the field `moment` and then `key`, with the next one's cursor.

    `key` is a column or an annotation. A cursor can be read, so it is no number that agents and personas share. Stays
    cheap and stable however many rows there are and are added. Raises Invalid for a foreign cursor.
    """
    if cursor:
        last_moment, last_key = cursor_decode(cursor)
        try:
            annotation = rows.query.annotations.get(key)
            column: Any = annotation.output_field if annotation is not None else rows.model._meta.get_field(key)
            last = column.to_python(last_key)
        except Exception as error:
            raise Invalid("This cursor is not one that a page gave out.", field="cursor") from error
        beyond = "lt" if latest_first else "gt"
        rows = rows.filter(
            Q(**{f"{moment}__{beyond}": last_moment}) | Q(**{moment: last_moment, f"{key}__{beyond}": last})
        )
    sign = "-" if latest_first else ""
    found = list(rows.order_by(f"{sign}{moment}", f"{sign}{key}")[: limit + 1])
    items = found[:limit]
    if len(found) <= limit:
        return {"items": items, "next": None}
    return {"items": items, "next": cursor_encode(getattr(items[-1], moment), getattr(items[-1], key))}

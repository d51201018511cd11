"""SQL conditions of a request on the index, with their parameters."""

from collections.abc import Iterable
from typing import Any

from memory.models.valid_time import not_valid_at_sql, valid_at_sql
from memory.policy.categories import PROFILE_CATEGORIES
from memory.search.request import ITEM_TYPES, SCOPES, SearchRequest

PLAIN_WORDS = frozenset([*ITEM_TYPES, *SCOPES, *PROFILE_CATEGORIES])
"""What filters of most searches name: words of this program, without quotes in them."""


MOMENT = "%(moment)s::timestamptz"
"""The moment of a request in SQL."""
VALID = valid_at_sql(MOMENT)
"""What is valid at the moment of a request: facts may have ended, or begin later."""
NOT_VALID = not_valid_at_sql(MOMENT)


def visible_of(request: SearchRequest) -> tuple[str, dict[str, Any]]:
    """What a request may see at all: what is known and valid at its moment."""
    known, values = known_of(request)
    return f"{known} AND {VALID}", values


def known_of(request: SearchRequest) -> tuple[str, dict[str, Any]]:
    """What is known at the moment of a request, valid or not: what is active, or what was. An event is known from when
    it happens."""
    values = {"moment": request.moment}
    if request.as_of is None:
        return "active", values
    return (
        f"((active AND retired_at IS NULL OR retired_at > {MOMENT})"
        f" AND CASE item_type WHEN 'event' THEN happened_at ELSE recorded_at END <= {MOMENT})",
        values,
    )


def wanted_of(request: SearchRequest) -> tuple[str, dict[str, Any]]:
    """The filters of a request as a condition on items, with its parameters. The first is what its scope shows."""
    shown, values = request.scope.condition()
    if request.force_include:
        shown = f"({shown} OR item_type = 'fact' AND item_id = ANY(%(f_also)s::text[]))"
        values["f_also"] = list(request.force_include)
    conditions = [shown]
    for column, chosen in (
        ("item_type", request.types),
        ("kind", request.kinds),
        ("category", request.categories),
        ("scope", request.scopes),
    ):
        # Of a column with all that it may hold nothing is asked: every row that is ranked would be looked at for it.
        if chosen and not (column == "item_type" and set(chosen).issuperset(ITEM_TYPES)):
            conditions.append(f"{column} = ANY({_words(f'f_{column}', chosen, values)})")
    if request.exclude_categories:
        allowed = f"category <> ALL({_words('f_excluded', request.exclude_categories, values)})"
        if request.force_include:
            allowed = f"({allowed} OR item_type = 'fact' AND item_id = ANY(%(f_also)s::text[]))"
        conditions.append(allowed)
    if request.tags:
        conditions.append("tags ?| %(f_tags)s::text[]")
        values["f_tags"] = list(request.tags)
    if request.item_ids:
        conditions.append("item_id = ANY(%(f_items)s::text[])")
        values["f_items"] = list(request.item_ids)
    if request.min_importance:
        conditions.append("importance >= %(f_importance)s::float8")
        values["f_importance"] = request.min_importance
    return " AND ".join(conditions), values


def _words(name: str, words: Iterable[str], values: dict[str, Any]) -> str:
    """Words as an array in SQL. Our own are written out, so that a plan made once for all knows how many rows hold
    them; any other is the parameter called `name`, added to `values`."""
    chosen = sorted(set(words))
    if PLAIN_WORDS.issuperset(chosen):
        return "ARRAY[" + ", ".join(f"'{word}'" for word in chosen) + "]::text[]"
    values[name] = chosen
    return f"%({name})s::text[]"

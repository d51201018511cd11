"""The request of a search, and its conditions on the index in SQL."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from memory.models import ItemType, ProjectScope, Scope, SearchItem, not_valid_at_sql, valid_at_sql
from memory.policy import MAX_SEARCH_LIMIT, PROFILE_CATEGORIES
from nousweb.lib import choice_check, clock, moment_check, storable_check, unit_check, whole_check

ITEM_TYPES, SCOPES = tuple(ItemType.values), tuple(Scope.values)
MIN_HITS, MAX_HITS = 30, 50
"""Candidates of each of the two searches, without neighbours: three times `limit`, within these bounds."""


@dataclass(frozen=True, slots=True)
class Period:
    """The time that a query asks about: from `start` to before `end`, of which one may be None, and its words.

    `types` are those that it asks for first. `alone`: it names nothing beside the time, so that time ranks.
    """

    text: str
    start: datetime | None
    end: datetime | None
    types: tuple[str, ...] = ()
    alone: bool = False

    def __str__(self) -> str:
        """Its first and last day, or its hours within a day."""
        start, end = self.start, self.end
        if start and end and end - start < timedelta(hours=23):
            return f"{start:%Y-%m-%d %H:%M} to {end:{'%H:%M' if start.date() == end.date() else '%Y-%m-%d %H:%M'}}"
        last = end - timedelta(microseconds=1) if end else None
        if start and last:
            return f"{start:%Y-%m-%d}" if start.date() == last.date() else f"{start:%Y-%m-%d} to {last:%Y-%m-%d}"
        return f"since {start:%Y-%m-%d %H:%M}" if start else f"until {last:%Y-%m-%d %H:%M}"


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search within `scope`. An empty filter lets everything pass; several values of one filter are alternatives.

    `min_score`: in [0, 1]; None is the threshold of the embedding model, 0 returns everything, ranked.
    `min_results`: this many hits are returned whatever their score, within `limit`.
    `max_per_type`: maximum number of hits by type; with `include_overflow`, further hits follow at the end, within
    `limit`.
    `metadata`: without it, hits contain only the source of their metadata.
    `uniform_decay`: the score falls with the distance from the best hit at the same rate for every query, for callers
    that select by a budget of their own; else the threshold is at the query's relevance cutoff.
    `as_of`: search memory as it was recorded and valid at that moment. `now`: without it, the moment at which facts
    must be valid.
    `force_include`: ids of facts that are searched whatever their category, project and task.
    `item_ids`: if there are any, only these memories are searched.
    `period`: memories of this time are found too, whatever their words, and come before others.
    Raises Invalid with the name of the field.
    """

    query: str
    scope: ProjectScope
    types: Sequence[str] = ()
    limit: int = 10
    min_score: float | None = None
    min_results: int = 0
    max_per_type: Mapping[str, int] = field(default_factory=dict)
    include_overflow: bool = False
    metadata: bool = True
    uniform_decay: bool = False
    as_of: datetime | None = None
    kinds: Sequence[str] = ()
    categories: Sequence[str] = ()
    exclude_categories: Sequence[str] = ()
    force_include: Sequence[str] = ()
    scopes: Sequence[str] = ()
    tags: Sequence[str] = ()
    min_importance: float = 0.0
    item_ids: Sequence[str] = ()
    period: Period | None = None
    now: datetime = field(default_factory=clock.now)

    def __post_init__(self) -> None:
        storable_check("q", self.query)
        whole_check("limit", self.limit, 1, MAX_SEARCH_LIMIT)
        if self.min_score is not None:
            unit_check("min_score", self.min_score)
        unit_check("min_importance", self.min_importance)
        for name, values, allowed in (("type", self.types, ITEM_TYPES), ("scope", self.scopes, SCOPES)):
            for value in values:
                choice_check(name, value, allowed)
        for name in ("kinds", "categories", "exclude_categories", "tags"):
            for value in getattr(self, name):
                storable_check(name, value)
        object.__setattr__(self, "as_of", moment_check("as_of", self.as_of))

    @property
    def moment(self) -> datetime:
        """The moment of the search: `as_of`, else now."""
        return self.as_of or self.now

    @property
    def hits(self) -> int:
        """Maximum number of candidates of each of the two searches, by words and by meaning."""
        return min(max(MIN_HITS, 3 * self.limit), MAX_HITS)


PLAIN_WORDS = frozenset([*ITEM_TYPES, *SCOPES, *PROFILE_CATEGORIES])
"""What filters of most searches name: words of this program, without quotes in them."""


MOMENT = "%(moment)s::timestamptz"
"""The moment of a request in SQL."""
VALID = valid_at_sql(SearchItem, MOMENT)
"""What is valid at the moment of a request: memories may have ended, or begin later."""
NOT_VALID = not_valid_at_sql(MOMENT)


def visible_of(request: SearchRequest) -> tuple[str, dict[str, Any]]:
    """SQL condition for the rows that a request may see: known and valid at its moment."""
    known, values = known_of(request)
    return f"{known} AND {VALID}", values


def known_of(request: SearchRequest) -> tuple[str, dict[str, Any]]:
    """SQL condition for the rows that are known at the moment of a request, valid or not: active now, or active then.
    An event is known from the time at which it happens."""
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

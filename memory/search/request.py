"""The request of a search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from memory.models import ItemType, Scope
from memory.models.project_scope import ProjectScope
from memory.policy.size_limits import MAX_SEARCH_LIMIT
from nousweb.lib import clock
from nousweb.lib.errors import Invalid
from nousweb.lib.validation import choice_check, moment_check, unit_check, unstorable_reason, whole_check

ITEM_TYPES, SCOPES = tuple(ItemType.values), tuple(Scope.values)
MIN_HITS, MAX_HITS = 30, 50
"""Candidates of each of the two searches, without neighbours: three times `limit`, within these bounds."""


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
    now: datetime = field(default_factory=clock.now)

    def __post_init__(self) -> None:
        if reason := unstorable_reason(self.query):
            raise Invalid(reason, field="q")
        whole_check("limit", self.limit, 1, MAX_SEARCH_LIMIT)
        if self.min_score is not None:
            unit_check("min_score", self.min_score)
        unit_check("min_importance", self.min_importance)
        for name, values, allowed in (("type", self.types, ITEM_TYPES), ("scope", self.scopes, SCOPES)):
            for value in values:
                choice_check(name, value, allowed)
        for name in ("kinds", "categories", "exclude_categories", "tags"):
            for value in getattr(self, name):
                if reason := unstorable_reason(value):
                    raise Invalid(reason, field=name)
        object.__setattr__(self, "as_of", moment_check("as_of", self.as_of))

    @property
    def moment(self) -> datetime:
        """The moment of the search: `as_of`, else now."""
        return self.as_of or self.now

    @property
    def hits(self) -> int:
        """Maximum number of candidates of each of the two searches, by words and by meaning."""
        return min(max(MIN_HITS, 3 * self.limit), MAX_HITS)

"""What can be asked of the search, and what it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from memory.models import ItemType, Scope
from memory.models.project_scope import ProjectScope
from memory.policy import MAX_SEARCH_LIMIT
from nousweb.lib.errors import Invalid
from nousweb.lib.validation import choice_check, moment_check, unit_check, unstorable_reason, whole_check

ITEM_TYPES, SCOPES = tuple(ItemType.values), tuple(Scope.values)
LEAST_HITS, MOST_HITS = 30, 50
"""Candidates of each of the two searches, before neighbours: three for each item asked for, within these bounds."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search of what `scope` shows. Empty filters let everything pass; several values of one are alternatives.

    `min_score` lies in [0, 1]; None stands for the threshold of the embedding model, 0 for everything, ranked.
    `min_results` hits are returned whatever their score, within the limit. Of each type in `max_per_type` no more than
    that many are; with `include_overflow` the others follow at the end, as far as the limit goes. Without `metadata`
    hits have of it no more than the source.
    `item_ids` are the only memories that are searched, when there are any.
    Scores are `steady` when they fall alike for every query, whatever else is found, as whoever chooses by a budget of
    its own wants them; else the threshold lies where what is worth reading ends.
    `force_include` are ids of facts that are searched whatever their category, project and task.
    `as_of` asks for what was known, and by what is recorded true, at that moment. Raises Invalid, naming the field.
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
    steady: bool = False
    as_of: datetime | None = None
    kinds: Sequence[str] = ()
    categories: Sequence[str] = ()
    exclude_categories: Sequence[str] = ()
    force_include: Sequence[str] = ()
    scopes: Sequence[str] = ()
    tags: Sequence[str] = ()
    min_importance: float = 0.0
    item_ids: Sequence[str] = ()

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
    def hits(self) -> int:
        """Hits of each of the two searches, by words and by meaning, that are candidates."""
        return min(max(LEAST_HITS, 3 * self.limit), MOST_HITS)

"""What would have been found, had it not been replaced or retired: for explanations, and never for a prompt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory.embedding import thresholds_of
from memory.persona import PersonaMemory
from memory.search.candidates import Asked, retired_fetch
from memory.search.scoring import Candidate, Query, Statistics, score
from memory.search.search import ASKS_TIME, calibrated


@dataclass(frozen=True, slots=True)
class RetiredHit:
    """A memory that is no longer told, with its relevance to the query in [0, 1], had it been alone.

    `successor` is the id of the fact that replaced it and `successor_text` what that says; both are empty for what was
    only retired. `told_until` is the moment before which a search as of the past still finds it; None when there is
    none, as for what was found wrong.
    """

    type: str
    id: str
    content: str
    score: float
    cosine: float | None
    lexical: float
    kind: str
    category: str
    scope: str
    subject: str
    tags: Sequence[str]
    importance: float
    happened_at: datetime
    retired_at: datetime | None
    successor: str = ""
    successor_text: str = ""
    found_wrong: bool = False
    told_until: datetime | None = None


def retired_search(view: PersonaMemory, asked: Asked) -> list[RetiredHit]:
    """The replaced and retired memories of `view` that match what was `asked`, best first, in one statement."""
    rows = retired_fetch(view, asked)
    counts = asked.counts
    thresholds = thresholds_of(counts.model)
    lexemes = list(counts.df)
    candidates = [
        Candidate(
            id=row["id"],
            cosine=None if row["cosine"] is None else calibrated(row["cosine"], thresholds),
            tf={word: 1 for word, is_held in zip(lexemes, row["held"], strict=True) if is_held},
            length=row["words"],
            names=frozenset(row["names"]),
            says_time=row["says_time"],
        )
        for row in rows
    ]
    query = Query(lexemes, bool(ASKS_TIME.search(asked.request.query)))
    scored = score(query, candidates, Statistics(counts.items, counts.mean_words, counts.df))
    by_id = {row["id"]: row for row in rows}
    return [_hit(by_id[one.id], one.score, one.lexical) for one in scored]


def _hit(row: Mapping[str, Any], relevance: float, lexical: float) -> RetiredHit:
    ends = [moment for moment in (row["retired_at"], row["valid_until"]) if moment is not None]
    begins = [moment for moment in (row["recorded_at"], row["valid_from"]) if moment is not None]
    was_told = row["item_type"] == "fact" and not row["found_wrong"] and ends and max(begins) < min(ends)
    return RetiredHit(
        type=row["item_type"],
        id=row["item_id"],
        content=row["content"] or row["text"],
        score=round(relevance, 6),
        cosine=None if row["cosine"] is None else round(row["cosine"], 6),
        lexical=round(lexical, 6),
        kind=row["kind"],
        category=row["category"],
        scope=row["scope"],
        subject=row["subject"],
        tags=row["tags"],
        importance=row["importance"],
        happened_at=row["happened_at"],
        retired_at=row["retired_at"],
        successor=str(row["successor"] or ""),
        successor_text=row["successor_text"] or "",
        found_wrong=bool(row["found_wrong"]),
        told_until=min(ends) if was_told else None,
    )

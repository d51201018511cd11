"""A candidate for a prompt, and the verdict on it with its reason."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from context.engine.assembly.prompt_section import ContestAnnotation, list_item, source_of
from memory.models import keys_of
from memory.search.result import SearchHit
from nousweb.lib.dated_lines import Told

THE_INPUT = 0
"""In place of a message's number: the input itself contains the text."""


# Neither is frozen, as to set a frozen field takes five times as long, and each prompt has dozens of these.
@dataclass(slots=True)
class Candidate:
    """A search hit with all other inputs of the filters.

    `threshold` is the minimum score (relevance) of the hit; `kinds` are the names by which a profile may
    prefer or exclude it. `boost` is the factor of usage feedback, 0.5 to 1.5. `duplicate_of` is the number of the
    conversation's message that contains the same text, counted from 1, or THE_INPUT. Retired hits are never included.
    """

    hit: SearchHit
    section: str
    threshold: float
    label: str = ""
    kinds: frozenset[str] = frozenset()
    boost: float = 1.0
    duplicate_of: int | None = None
    # So many closer hits of its type exist that no filter could let it in.
    outranked: bool = False
    # A person wants it included whenever its section has room: relevance filters do not apply.
    pinned: bool = False
    # Requested by time rather than by meaning: its relevance does not matter.
    by_time: bool = False
    # Below the usual threshold, and considered only because the request wants its budget filled.
    weak: bool = False
    # The text of the invalidated fact that one of its sentences repeats.
    repeats_invalidated: str = ""
    # Its annotation, if a review about it and another fact is pending.
    contest: ContestAnnotation | None = None
    # When it was told, by which its line is dated.
    told: Told | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Type and id."""
        return self.hit.type, self.hit.id

    @property
    def source(self) -> str:
        """What its block of data names."""
        return source_of(self.hit.trust, str(self.hit.metadata.get("source") or ""), self.hit.category)

    @property
    def is_relevant(self) -> bool:
        """Whether it is wanted for its meaning or its time."""
        return self.by_time or self.hit.score >= self.threshold

    def line(self, text: str | None = None) -> str:
        """The candidate as a list item of a prompt; `text` replaces its own if it was shortened."""
        mark = self.contest.mark if self.contest else ""
        return list_item(self.hit.content if text is None else text, self.label, mark, self.told)


LOGGED_CHARACTERS = 500
"""Maximum characters of a candidate's text in the log and in explanations."""


class VerdictCode(StrEnum):
    INCLUDED = "included"
    SUPERSEDED = "superseded"
    RETIRED = "retired"
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    OTHER_PROJECT = "other_project"
    NOT_PLANNED = "not_planned"
    EXCLUDED_KIND = "excluded_kind"
    LOW_TRUST = "low_trust"
    QUARANTINED = "quarantined"
    LOW_IMPORTANCE = "low_importance"
    BELOW_THRESHOLD = "below_threshold"
    DUPLICATE_MESSAGE = "duplicate_message"
    DUPLICATE_INPUT = "duplicate_input"
    DUPLICATE_ITEM = "duplicate_item"
    INVALIDATED = "invalidated"
    CONTESTED = "contested"
    OVER_LIMIT = "over_limit"
    OVER_BUDGET = "over_budget"


RETIRED_VERDICTS = frozenset(
    {
        VerdictCode.SUPERSEDED,
        VerdictCode.RETIRED,
        VerdictCode.EXPIRED,
        VerdictCode.NOT_YET_VALID,
        VerdictCode.OTHER_PROJECT,
    }
)
"""Verdicts on memories that are not active, not valid, or belong elsewhere, and are looked up only for explanations."""


@dataclass(slots=True)
class Verdict:
    """The verdict on a candidate: the reason in words, and as `hint` what would include it.

    `score` is the relevance with all factors; `factors` names each that was not 1. `tokens` is the cost in the prompt.
    Without a reason, the candidate has passed all filters and nothing more is decided yet.
    """

    candidate: Candidate
    score: float
    factors: tuple[tuple[str, float], ...] = ()
    code: VerdictCode = VerdictCode.INCLUDED
    reason: str = ""
    hint: str = ""
    tokens: int = 0
    compressed: bool = False
    place: str = ""

    def refusal(self, code: VerdictCode, reason: str, hint: str, tokens: int = 0) -> Self:
        """The same candidate, left out."""
        return type(self)(self.candidate, self.score, self.factors, code, reason, hint, tokens)

    def as_json(self) -> dict[str, Any]:
        """The verdict as it is logged and explained; the text of the candidate only in part, or not at all."""
        candidate, hit = self.candidate, self.candidate.hit
        # What is kept from the agent is in no answer to it either.
        text = "" if self.code == VerdictCode.QUARANTINED else f"… {hit.excerpt}" if hit.excerpt else hit.content
        return {
            "type": hit.type,
            "id": hit.id,
            "text": text[:LOGGED_CHARACTERS],
            "label": candidate.label,
            "section": candidate.section,
            "scope": hit.scope,
            **keys_of(hit),
            "trust": hit.trust,
            "kinds": sorted(candidate.kinds),
            "verdict": str(self.code),
            "reason": self.reason,
            "hint": self.hint,
            "score": round(self.score, 4),
            "relevance": round(hit.score, 4),
            "threshold": candidate.threshold,
            "cosine": None if hit.cosine is None else round(hit.cosine, 4),
            "lexical": round(hit.lexical, 4),
            "importance": hit.importance,
            "tokens": self.tokens,
            "compressed": self.compressed,
            "place": self.place,
            "pinned": candidate.pinned,
            "contested": candidate.contest.contested if candidate.contest else "",
            "contested_with": list(candidate.contest.contested_with) if candidate.contest else [],
            "superseded_by": hit.retirement.successor if hit.retirement else "",
            "factors": [[name, round(factor, 3)] for name, factor in self.factors],
            "happened_at": hit.happened_at.isoformat().replace("+00:00", "Z"),
            # A fact that is true from another time is found by that of its record.
            **({"found_at": hit.recorded_at.isoformat()} if hit.type == "fact" else {}),
        }

"""One context: the prompt with all that led to it, in the shape in which it is logged; its fingerprint and its blocks.

The blocks, one for each section, from the most stable to the most volatile, are the prompt, byte for byte. A break
between two sections belongs to the later one, so that no block depends on what follows it.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cache
from typing import Any, Literal, Self
from uuid import UUID

from context.engine.assembly import Candidate
from context.engine.assembly.prompt_section import SECTION_BREAK, SEPARATORS, section_text
from context.models import ContextRun
from identity.policy.changes import CHANGE_KINDS, blocks_touched

Stability = Literal["stable", "session", "volatile"]
STABILITY: Mapping[int, Stability] = {1: "stable", 2: "session", 3: "volatile"}
"""By tier: independent of the request; of the session and its input; what was searched."""
REQUEST = "request"
"""In `changed_by`, beside kinds of changes: another input, frame or setting of the request."""


@dataclass(frozen=True, slots=True)
class Block:
    """`id` is the key of its section; `changed_by` are the kinds of changes that may change it."""

    id: str
    label: str
    text: str
    stability: Stability

    @property
    def changed_by(self) -> tuple[str, ...]:
        return _kinds_of(self.id) if self.stability == "stable" else (REQUEST, *_kinds_of(self.id))

    def as_json(self) -> dict[str, Any]:
        """The block as the API returns it."""
        digest = hashlib.sha256(self.text.encode()).hexdigest()
        return {
            "id": self.id,
            "text": self.text,
            "sha256": digest,
            "stability": self.stability,
            "changed_by": self.changed_by,
        }


@cache
def _kinds_of(block: str) -> tuple[str, ...]:
    return tuple(kind for kind in CHANGE_KINDS if block in blocks_touched(kind))


def prompt_blocks(prompt: str, sections: Sequence[Mapping[str, Any]]) -> list[Block]:
    """The blocks of a prompt from its logged sections (`Section.as_json`)."""
    blocks: list[Block] = []
    start = 0
    for section in sections:
        items = ((item["text"], item.get("source", "")) for item in section["items"])
        lead = SECTION_BREAK if blocks else ""
        end = start + len(lead + section_text(section["label"], items, SEPARATORS.get(section["key"], "\n")))
        blocks.append(Block(section["key"], section["label"], prompt[start:end], STABILITY[section["tier"]]))
        start = end
    return blocks


SIMPLE_FILES = 2
MODERATE_FILES = 5


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """`compression` is characters shown by characters of the originals; `tier_counts` items by scope."""

    mode: str
    frame: str
    complexity: str
    file_count: int
    files_hash: str
    profile: str
    tokens: int
    kinds: tuple[str, ...]
    compression: float
    tier_counts: dict[str, int]
    tags: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Equal for similar tasks: counts of tokens and items are left out."""
        parts = (self.mode, self.frame, self.complexity, self.profile, *self.kinds, "|", *self.tags)
        return "fp-" + hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:12]

    def as_json(self) -> dict[str, Any]:
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**values, "id": self.id, "kinds": list(self.kinds), "tags": list(self.tags)}


def fingerprint_of(
    included: Sequence[Candidate],
    *,
    tokens: int,
    compression: float,
    mode: str,
    frame: str,
    profile: str,
    files: Sequence[str],
    tags: Sequence[str],
) -> Fingerprint:
    """Characterise a prompt by its included items, its tokens and its task."""
    scopes = Counter(candidate.hit.scope for candidate in included)
    kinds = sorted({kind for candidate in included for kind in candidate.kinds})
    count = len(files)
    return Fingerprint(
        mode=mode,
        frame=frame,
        complexity="complex" if count > MODERATE_FILES else "moderate" if count > SIMPLE_FILES else "simple",
        file_count=count,
        files_hash=hashlib.sha256("|".join(sorted(files)).encode()).hexdigest()[:8],
        profile=profile,
        tokens=tokens,
        kinds=tuple(kinds),
        compression=round(compression, 3),
        tier_counts={scope: scopes[scope] for scope in ("task", "project", "global")},
        tags=tuple(sorted(tags)),
    )


CANDIDATE_DEFAULTS: Mapping[str, Any] = {
    "label": "",
    "scope": "global",
    "project": "",
    "task": "",
    "user": "",
    "hint": "",
    "lexical": 0.0,
    "importance": 0.5,
    "tokens": 0,
    "compressed": False,
    "place": "",
    "pinned": False,
    "superseded_by": "",
    "contested": "",
    "contested_with": [],
    "factors": [],
}
"""Values that most candidates have are not logged with each: the log is the largest table."""
OWN_WORDS = frozenset({"task", "message"})
"""Types of items that repeat the request, and so are no memories."""


@dataclass(frozen=True, slots=True)
class ContextRecord:
    """A prompt, its parts, and the decisions behind it. The engine builds it once; all others only read it.

    Each field has the name and the shape of its column of `ContextRun`. `sections` have their items with the exact text
    that was sent, `candidates` a verdict each (`Section.as_json`, `Verdict.as_json`). `timings` are milliseconds by
    stage. `censors` has the checks of the "input", and of the "answer" once it is reported
    (`context.engine.retrieval.censors.censors_check`). `id` is None for a prompt that is not logged, `counted_tokens`
    until the tokens have been counted.
    """

    persona: str
    request: Mapping[str, Any]
    system_prompt: str
    tokens: int
    budget_tokens: int
    sections: Sequence[Mapping[str, Any]]
    candidates: Sequence[Mapping[str, Any]]
    decisions: Mapping[str, Any]
    fingerprint: Mapping[str, Any]
    failed_sections: Sequence[Sequence[str]]
    timings: Mapping[str, float]
    censors: Mapping[str, Any] = field(default_factory=dict)
    as_of: datetime | None = None
    id: UUID | None = None
    counted_tokens: int | None = None
    counted_by: str = ""

    @classmethod
    def of_run(cls, run: ContextRun) -> Self:
        """The record that a logged run keeps."""
        kept = {name: getattr(run, name) for name in (*_LOGGED, "id")}
        return cls(**{**kept, "candidates": [{**CANDIDATE_DEFAULTS, **candidate} for candidate in run.candidates]})

    def as_run(self, **more: Any) -> ContextRun:
        """A run to be logged; `more` are the columns that say whose it is."""
        kept = {name: getattr(self, name) for name in _LOGGED}
        common = CANDIDATE_DEFAULTS
        candidates = [
            {name: value for name, value in candidate.items() if name not in common or value != common[name]}
            for candidate in self.candidates
        ]
        return ContextRun(
            **{**kept, "candidates": candidates},
            session_id=self.request["session_id"],
            input=self.request["input"],
            frame=self.frame_id,
            profile=self.profile_id,
            fingerprint_id=self.fingerprint["id"],
            duration_ms=round(self.milliseconds, 2),
            **more,
        )

    @property
    def blocks(self) -> list[Block]:
        """The blocks of the prompt."""
        return prompt_blocks(self.system_prompt, self.sections)

    @property
    def frame_id(self) -> str:
        return str((self.decisions.get("frame") or {}).get("id", ""))

    @property
    def profile_id(self) -> str:
        return str((self.decisions.get("profile") or {}).get("id", ""))

    @property
    def degraded(self) -> str:
        """Why the search had to do without vectors; empty when it did not."""
        return str(self.decisions.get("degraded") or "")

    @property
    def truncated(self) -> Sequence[Mapping[str, Any]]:
        """The truncations of the sections (`Truncation.as_json`); older runs do not have them."""
        return self.decisions.get("truncated") or []

    @property
    def milliseconds(self) -> float:
        """All stages together; the search's own stages are part of it already."""
        return sum(value for name, value in self.timings.items() if "." not in name)


_LOGGED = tuple(one.name for one in fields(ContextRecord) if one.name != "id")
"""The fields that have a column of their name."""

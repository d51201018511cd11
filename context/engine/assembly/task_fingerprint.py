"""The characteristics of a task and its context, to relate outcomes to them.

Source: seed "Context Profiles and Retrieval Policies", sections 5 and 8.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from context.engine.assembly import Candidate

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

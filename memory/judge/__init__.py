"""Asking a language model about memories: what may be asked, how it answers, and what it may spend."""

from memory.judge.protocol import (
    EpisodeSummary,
    ExtractedFact,
    ExtractedFacts,
    Judge,
    Judged,
    JudgeFailed,
    JudgeUnavailable,
    MergedFact,
    RelationVerdict,
)
from memory.judge.registry import judge_in_force

__all__ = [
    "EpisodeSummary",
    "ExtractedFact",
    "ExtractedFacts",
    "Judge",
    "JudgeFailed",
    "JudgeUnavailable",
    "Judged",
    "MergedFact",
    "RelationVerdict",
    "judge_in_force",
]

"""Asking a language model about memories: what may be asked, how it answers, and what it may spend."""

from memory.judge.fact_extraction import ExtractedFact, ExtractedFacts
from memory.judge.protocol import (
    EpisodeSummary,
    Judge,
    JudgeFailed,
    JudgeResult,
    JudgeUnavailable,
    MergedFact,
    RelationVerdict,
)
from memory.judge.registry import configured_judge

__all__ = [
    "EpisodeSummary",
    "ExtractedFact",
    "ExtractedFacts",
    "Judge",
    "JudgeFailed",
    "JudgeResult",
    "JudgeUnavailable",
    "MergedFact",
    "RelationVerdict",
    "configured_judge",
]

"""The judge: a language model's verdicts about memories, its prompts, replies and token budget."""

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

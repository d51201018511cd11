"""The judge: a language model's verdicts about memories, its prompts, replies and token budget."""

from memory.judge.model_judge import Judge, configured_judge
from memory.judge.pair_verdicts import FactPair, PairVerdicts, pairs_judge
from memory.judge.protocol import (
    ASK_WITHIN_SECONDS,
    EpisodeSummary,
    ExtractedFact,
    ExtractedFacts,
    JudgeFailed,
    JudgeResult,
    JudgeUnavailable,
    MergedFact,
    RelationVerdict,
)

__all__ = [
    "ASK_WITHIN_SECONDS",
    "EpisodeSummary",
    "ExtractedFact",
    "ExtractedFacts",
    "FactPair",
    "Judge",
    "JudgeFailed",
    "JudgeResult",
    "JudgeUnavailable",
    "MergedFact",
    "PairVerdicts",
    "RelationVerdict",
    "configured_judge",
    "pairs_judge",
]

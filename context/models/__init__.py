"""Models of context: profiles, pins, the log of prompts, the usage of memories, expectations."""

from context.models.context_runs import ASSEMBLE, REPORT, VIEW_RUN, ContextRecall, ContextRun, MemoryUsage
from context.models.expectations import Expectation, ExpectationResult, ExpectationWatch
from context.models.figure_snapshots import FigureSnapshot, InboxRank
from context.models.profiles import ContextPin, ContextProfile, ContextProfileVersion

__all__ = [
    "ASSEMBLE",
    "REPORT",
    "VIEW_RUN",
    "ContextPin",
    "ContextProfile",
    "ContextProfileVersion",
    "ContextRecall",
    "ContextRun",
    "Expectation",
    "ExpectationResult",
    "ExpectationWatch",
    "FigureSnapshot",
    "InboxRank",
    "MemoryUsage",
]

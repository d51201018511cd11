"""Models of context: profiles, pins, the log of prompts, the usage of memories, expectations."""

from context.models.expectations import Expectation, ExpectationResult, ExpectationWatch
from context.models.pins import ContextPin
from context.models.profiles import ContextProfile, ContextProfileVersion
from context.models.recalls import ContextRecall
from context.models.runs import ASSEMBLE, REPORT, VIEW_RUN, ContextRun, MemoryUsage
from context.models.snapshots import FigureSnapshot, InboxRank

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

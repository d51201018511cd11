"""What context keeps: profiles, pins, the log of what was sent, and what was made of it."""

from context.models.pins import ContextPin
from context.models.profiles import ContextProfile, ContextProfileVersion
from context.models.runs import ContextRun, MemoryUsage

__all__ = ["ContextPin", "ContextProfile", "ContextProfileVersion", "ContextRun", "MemoryUsage"]

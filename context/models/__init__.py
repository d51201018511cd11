"""What context keeps: profiles, the log of what was sent, and what was made of it."""

from context.models.profiles import ContextProfile, ContextProfileVersion
from context.models.runs import ContextRun, MemoryUsage

__all__ = ["ContextProfile", "ContextProfileVersion", "ContextRun", "MemoryUsage"]

"""What the worker runs for memory. Thin: each calls a service."""

from memory.services.loops import loops_close_idle, loops_summarise


def derive_from_events(loop_ids: list[int]) -> int:
    """Summarise these closed loops, whose events have just arrived; returns how many needed it."""
    return loops_summarise(loop_ids)


def close_idle_loops() -> int:
    """Close loops that have gone idle and summarise them; returns how many."""
    return loops_summarise(loops_close_idle())

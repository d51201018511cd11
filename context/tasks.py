"""What the worker runs for context. Thin: each calls a service."""

from context.services.context import context_runs_purge
from context.services.token_counting import context_runs_count


def purge_context_runs() -> int:
    """Delete logged context runs past their retention; returns how many."""
    return context_runs_purge()


def count_tokens() -> int:
    """Count exactly what was sent lately, where an endpoint is configured; returns how many."""
    return context_runs_count()

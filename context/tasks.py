"""What the worker runs for context. Thin: each calls a service."""

from context.services.context import context_runs_purge


def purge_context_runs() -> int:
    """Delete logged context runs past their retention; returns how many."""
    return context_runs_purge()

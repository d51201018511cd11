"""Tasks of the worker for context. Each calls a service."""

from context.services.context import context_runs_purge
from context.services.email_digest import mails_send
from context.services.inbox_notices import high_risk_notify, snoozes_return
from context.services.prompt_token_counts import context_runs_count
from identity.principal import Principal


def purge_context_runs() -> int:
    """Delete logged context runs past their retention; returns how many."""
    return context_runs_purge()


def count_tokens() -> int:
    """Count the tokens of recent prompts exactly, if an endpoint is configured; returns how many."""
    return context_runs_count()


def notify_people() -> int:
    """Notify people of returned items and of high risk, in the console and by e-mail; returns how many were
    notified."""
    by = Principal.of_system("schedule")
    return snoozes_return(by=by) + high_risk_notify(by=by) + mails_send(by=by)

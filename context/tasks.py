"""Tasks of the worker for context. Each calls a service."""

from context.services.context import context_runs_purge
from context.services.email_digest import high_risk_notify, mails_send, snoozes_return
from context.services.prompt_token_counts import context_runs_count
from identity.principal import Principal
from nousweb.lib.background import task


@task(minutes=24 * 60)
def purge_context_runs() -> int:
    """Delete context runs past their retention."""
    return context_runs_purge()


@task(minutes=1)
def count_tokens() -> int:
    """Count prompt tokens exactly."""
    return context_runs_count()


@task(minutes=1)
def notify_people() -> int:
    """Send notifications."""
    by = Principal.of_system("schedule")
    return snoozes_return(by=by) + high_risk_notify(by=by) + mails_send(by=by)

"""Tasks of the worker for context: services with a label, and the minutes between two runs."""

from context.services.context import context_runs_purge
from context.services.email_digest import high_risk_notify, mails_send, snoozes_return
from context.services.prompt_token_counts import context_runs_count
from identity.principal import Principal
from nousweb.lib.background import task


def _people_notify() -> int:
    by = Principal.of_system("schedule")
    return snoozes_return(by=by) + high_risk_notify(by=by) + mails_send(by=by)


purge_context_runs = task(
    "context.tasks.purge_context_runs", "Delete context runs past their retention", context_runs_purge, minutes=24 * 60
)
count_tokens = task("context.tasks.count_tokens", "Count prompt tokens exactly", context_runs_count, minutes=1)
notify_people = task("context.tasks.notify_people", "Send notifications", _people_notify, minutes=1)

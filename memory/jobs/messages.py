"""Messages to the worker. They are hints: what they are about stands in tables, where it also looks by itself."""

from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Min
from django_q.brokers import get_broker
from django_q.models import OrmQ
from django_q.tasks import async_task

from nousweb.lib import clock


def message_send(task: str, *args: Any) -> None:
    """Let the worker run `task`, a dotted path, with `args`, which are ids.

    In the database the message joins the transaction. Elsewhere it is sent after the commit, as it could arrive before
    what it is about; a Redis that cannot be reached then costs the message and not the write.
    """
    if settings.BROKER == "orm":
        async_task(task, *args)
    else:
        transaction.on_commit(lambda: async_task(task, *args), robust=True)


def messages_waiting() -> tuple[int, datetime | None]:
    """How many messages wait for a worker, and since when the oldest, where the broker knows it.

    Raises what the client of a Redis raises when it cannot be reached.
    """
    if settings.BROKER != "orm":
        return get_broker().queue_size(), None
    # A message's lock lies in the past once it is due; one under way has a lock to come.
    due = OrmQ.objects.filter(lock__lte=clock.now()).aggregate(count=Count("pk"), oldest=Min("lock"))
    return due["count"], due["oldest"]

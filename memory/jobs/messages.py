"""Messages to the worker. They only trigger work sooner: the tables are authoritative, and the worker polls them."""

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
    """Queue the task with the dotted path `task` and `args`, which are ids, for the worker.

    With the database as broker, the message is part of the transaction. With another broker it is sent after the
    commit, so that it cannot arrive before the data; if the broker cannot be reached, only the message is lost.
    """
    if settings.BROKER == "orm":
        async_task(task, *args)
    else:
        transaction.on_commit(lambda: async_task(task, *args), robust=True)


def messages_waiting() -> tuple[int, datetime | None]:
    """The number of messages that wait for a worker, and the time of the oldest (None if the broker does not know it).

    Raises the errors of the Redis client if Redis cannot be reached.
    """
    if settings.BROKER != "orm":
        return get_broker().queue_size(), None
    # The lock of a due message is in the past; that of a message in progress is in the future.
    due = OrmQ.objects.filter(lock__lte=clock.now()).aggregate(count=Count("pk"), oldest=Min("lock"))
    return due["count"], due["oldest"]

"""When a failed task is run again."""

from datetime import timedelta
from typing import Any

import structlog
from django.db import Error
from django.utils import timezone
from django_q.conf import Conf
from django_q.models import OrmQ

log = structlog.get_logger(__name__)

RETRY_SECONDS = 15
"""Until a failed task is run again. Without this it waits for `Q_CLUSTER["retry"]`, which is for lost workers and so
must exceed the time limit of every task several times."""


def failed_task_retry(*, task: dict[str, Any], **signal: Any) -> None:
    """Receiver of django-q's `post_execute_in_worker`: release the message of a failed task after RETRY_SECONDS.

    django-q deletes the message after its number of attempts (`max_attempts`). Only the queue in the database has
    messages to release. It does not raise: an error would end the process of the worker.
    """
    message = task.get("ack_id")
    if task.get("success") or task.get("ack_failure") or not message:
        return
    try:
        rows = OrmQ.objects.using(Conf.ORM).filter(pk=message, lock__gt=timezone.now())
        rows.update(lock=timezone.now() + timedelta(seconds=RETRY_SECONDS))
    except Error as error:
        log.warning("failed_task_not_released", error=type(error).__name__)

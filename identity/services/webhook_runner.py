"""What a worker's process does for webhooks beside its tasks: numbering the streams, and sending what is due.

In threads of its own, so that a receiver which takes its time keeps neither a task nor another receiver waiting.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, Thread
from typing import Any
from uuid import UUID

import structlog
from django.db import connection

from identity.policy.webhooks import AT_ONCE, LOOK_EVERY
from identity.services.webhook_delivery import webhook_serve, webhooks_due

log = structlog.get_logger(__name__)


def webhooks_start(**signal: Any) -> None:
    """Let this process send to webhooks until it ends; receives django-q's signal that a worker process began."""
    Thread(target=_serve_forever, daemon=True, name="webhooks").start()


def _serve_forever() -> None:
    pause = Event()
    busy: dict[UUID, Future[None]] = {}
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="webhook") as pool:
        while not pause.wait(LOOK_EVERY.total_seconds()):
            try:
                busy = {key: future for key, future in busy.items() if not future.done()}
                for key in webhooks_due():
                    if key not in busy and len(busy) < AT_ONCE:
                        busy[key] = pool.submit(_serve, key)
            except Exception as error:  # Whatever it is, such as a database that restarts: the next time may do.
                log.warning("webhooks_not_looked_at", error=type(error).__name__)
                connection.close()


def _serve(key: UUID) -> None:
    try:
        webhook_serve(key)
    except Exception as error:  # The lease ends by itself, and the message is sent again.
        log.warning("webhook_not_served", webhook=str(key), error=type(error).__name__)
    finally:
        connection.close()

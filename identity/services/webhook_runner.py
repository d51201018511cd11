"""The threads of a worker's process for webhooks, besides its tasks: numbering the streams, and sending due messages.

They are separate threads, so that a slow receiver delays neither a task nor another receiver. Webhooks take turns: the
due one that has waited longest gets the next free thread.
"""

import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from threading import Event, Thread
from typing import Any
from uuid import UUID

import structlog
from django.db import connection

from identity.policy.webhooks import AT_ONCE, LOOK_EVERY, LOOK_SOON, LOOK_SOON_FOR
from identity.services.webhook_delivery import webhook_serve, webhooks_due

log = structlog.get_logger(__name__)


def webhooks_start(**signal: Any) -> None:
    """Let this process send to webhooks until it ends; receives django-q's signal that a worker process began."""
    Thread(target=_serve_forever, daemon=True, name="webhooks").start()


def _serve_forever() -> None:
    pause = Event()
    busy: dict[UUID, Future[None]] = {}
    idle_from = 0.0
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="webhook") as pool:
        while not pause.wait((LOOK_EVERY if time.monotonic() > idle_from else LOOK_SOON).total_seconds()):
            try:
                webhooks_look(busy, pool)
            except Exception as error:  # Whatever it is, such as a database that restarts: the next time may do.
                log.warning("webhooks_not_looked_at", error=type(error).__name__)
                connection.close()
            if busy:
                idle_from = time.monotonic() + LOOK_SOON_FOR.total_seconds()


def webhooks_look(busy: dict[UUID, Future[None]], pool: Executor) -> None:
    """Give webhooks that are due a thread each, while there are free ones; `busy` holds those that have one."""
    for key in [key for key, future in busy.items() if future.done()]:
        del busy[key]
    for key in webhooks_due():
        if len(busy) >= AT_ONCE:
            break
        if key not in busy:
            busy[key] = pool.submit(_serve, key)


def _serve(key: UUID) -> None:
    try:
        webhook_serve(key)
    except Exception as error:  # The lease ends by itself, and the message is sent again.
        log.warning("webhook_not_served", webhook=str(key), error=type(error).__name__)
    finally:
        connection.close()

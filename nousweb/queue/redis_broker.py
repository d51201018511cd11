"""The queue in a Redis, as the worker reads it. Apart from the other one: its package is not always installed."""

from typing import Any

from django_q.brokers.redis_broker import Redis

from nousweb.queue.broker import allowed_only


class CheckedRedis(Redis):
    """The queue in a Redis."""

    def dequeue(self) -> list[tuple[Any, Any]] | None:
        return allowed_only(self, super().dequeue())

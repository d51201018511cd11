"""Whose request gets the next free thread: callers take turns, and none may have them all."""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from nousweb.runtime.web_worker.request_limits import Limits


class Waiting(Protocol):
    """A request that has arrived whole."""

    caller: str
    size: int


@dataclass
class Bucket:
    """Requests that a caller has left, refilled as time goes by."""

    left: float
    at: float


class Admission:
    """Used by one thread only. `Item`s are distinguished by identity."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queues: OrderedDict[str, deque[Waiting]] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._running: dict[str, int] = {}
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        self.busy = 0
        self._large = 0

    def too_often(self, caller: str, rate: int, now: float) -> int:
        """0 when `caller` may send another request, else the seconds to wait; `rate` is requests a minute.

        A caller may save up requests of ten seconds.
        """
        if not rate:
            return 0
        most = max(1.0, rate / 6)
        bucket = self._buckets.get(caller)
        if bucket is None:
            bucket = self._buckets[caller] = Bucket(most, now)
            while len(self._buckets) > MOST_BUCKETS:
                self._buckets.popitem(last=False)
        bucket.left = min(most, bucket.left + (now - bucket.at) * rate / 60)
        bucket.at = now
        self._buckets.move_to_end(caller)
        if bucket.left < 1:
            return max(1, round((1 - bucket.left) * 60 / rate))
        bucket.left -= 1
        return 0

    def offer(self, item: Waiting) -> bool:
        """Let `item` wait for a thread; False when too much of its caller waits already."""
        queue = self._queues.get(item.caller)
        size = self._sizes.get(item.caller, 0) + item.size
        if queue is not None and (len(queue) >= self._limits.queue or size > self._limits.queue_bytes):
            return False
        if queue is None:
            queue = self._queues[item.caller] = deque()
        queue.append(item)
        self._sizes[item.caller] = size
        return True

    def take(self) -> Waiting | None:
        """The request that a free thread does next, or None when there is no such thread or request."""
        if self.busy >= self._limits.threads:
            return None
        for caller, queue in self._queues.items():
            large = queue[0].size >= self._limits.large_bytes
            if self._running.get(caller, 0) >= self._limits.share:
                continue
            if large and self._large >= self._limits.large_at_once:
                continue
            item = queue[0]
            self.withdraw(item)
            if caller in self._queues:
                self._queues.move_to_end(caller)
            self._running[caller] = self._running.get(caller, 0) + 1
            self.busy += 1
            self._large += large
            return item
        return None

    def done(self, item: Waiting) -> None:
        """The thread that had `item` is free again."""
        self.busy -= 1
        self._large -= item.size >= self._limits.large_bytes
        left = self._running[item.caller] - 1
        if left:
            self._running[item.caller] = left
        else:
            del self._running[item.caller]

    def withdraw(self, item: Waiting) -> None:
        """`item` waits no longer."""
        queue = self._queues[item.caller]
        if queue[0] is item:
            queue.popleft()
        else:
            queue.remove(item)
        self._sizes[item.caller] -= item.size
        if not queue:
            del self._queues[item.caller]
            del self._sizes[item.caller]

    def waiting(self) -> Iterator[Waiting]:
        """All that wait, the longest of each caller first."""
        for queue in list(self._queues.values()):
            yield from list(queue)


MOST_BUCKETS = 20_000
"""Callers whose rate is remembered; one that is forgotten starts with a full bucket."""

"""Threads, kept warm, and the admission of requests to them: callers take turns, and no caller may use all threads."""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty
from typing import Any, Protocol

from nousweb.runtime.web_worker.connection import Limits


class WarmThreadPool(ThreadPoolExecutor):
    """A pool that starts only as many threads as are needed at once."""

    def __init__(self, threads: int) -> None:
        super().__init__(max_workers=threads)
        # The queue from which the standard library's threads get work.
        self._work_queue = LastWaiterQueue()  # type: ignore[assignment]


class LastWaiterQueue:
    """A first-in, first-out queue that gives an item to the thread that began to wait last."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._items: deque[Any] = deque()
        self._waiting: list[_Waiter] = []

    def put(self, item: Any) -> None:
        """Give an item to a waiting thread, or queue it."""
        with self._lock:
            if not self._waiting:
                self._items.append(item)
                return
            waiter = self._waiting.pop()
        waiter.item = item
        waiter.ready.release()

    def get(self, block: bool = True) -> Any:
        """The next item; waits for one. Without `block`, raises Empty if there is none."""
        with self._lock:
            if self._items:
                return self._items.popleft()
            if not block:
                raise Empty
            waiter = _Waiter()
            self._waiting.append(waiter)
        waiter.ready.acquire()
        return waiter.item

    def get_nowait(self) -> Any:
        """The next item. Raises Empty."""
        return self.get(block=False)


class _Waiter:
    """A waiting thread: `ready` is released when its item is set."""

    __slots__ = ("item", "ready")

    def __init__(self) -> None:
        self.item: Any = None
        self.ready = threading.Lock()
        self.ready.acquire()


class QueuedRequest(Protocol):
    """A request that has arrived completely and waits for a thread."""

    caller: str
    size: int


@dataclass
class Bucket:
    """A token bucket: the number of requests that a caller may still send, refilled over time."""

    remaining: float
    at: float


class Admission:
    """Queues of requests by caller. Not thread-safe. Requests are compared by identity."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queues: OrderedDict[str, deque[QueuedRequest]] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._running: dict[str, int] = {}
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        self.busy = 0
        self._large = 0

    def retry_after(self, caller: str, rate: int, now: float) -> int:
        """Seconds until `caller` may send another request, 0 if it may now; `rate` is requests per minute.

        A caller may save up the requests of ten seconds.
        """
        if not rate:
            return 0
        capacity = max(1.0, rate / 6)
        bucket = self._buckets.get(caller)
        if bucket is None:
            bucket = self._buckets[caller] = Bucket(capacity, now)
            while len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
        bucket.remaining = min(capacity, bucket.remaining + (now - bucket.at) * rate / 60)
        bucket.at = now
        self._buckets.move_to_end(caller)
        if bucket.remaining < 1:
            return max(1, round((1 - bucket.remaining) * 60 / rate))
        bucket.remaining -= 1
        return 0

    def offer(self, request: QueuedRequest) -> bool:
        """Queue a request for a thread; False if too many or too large requests of its caller are queued already."""
        queue = self._queues.get(request.caller)
        size = self._sizes.get(request.caller, 0) + request.size
        if queue is not None and (len(queue) >= self._limits.queue or size > self._limits.queue_bytes):
            return False
        if queue is None:
            queue = self._queues[request.caller] = deque()
        queue.append(request)
        self._sizes[request.caller] = size
        return True

    def take(self) -> QueuedRequest | None:
        """Take the next request for a free thread; None if there is no such request or thread."""
        if self.busy >= self._limits.threads:
            return None
        for caller, queue in self._queues.items():
            large = queue[0].size >= self._limits.large_bytes
            if self._running.get(caller, 0) >= self._limits.share:
                continue
            if large and self._large >= self._limits.large_at_once:
                continue
            request = queue[0]
            self.withdraw(request)
            if caller in self._queues:
                self._queues.move_to_end(caller)
            self._running[caller] = self._running.get(caller, 0) + 1
            self.busy += 1
            self._large += large
            return request
        return None

    def done(self, request: QueuedRequest) -> None:
        """Record that the thread of a request is free again."""
        self.busy -= 1
        self._large -= request.size >= self._limits.large_bytes
        remaining = self._running[request.caller] - 1
        if remaining:
            self._running[request.caller] = remaining
        else:
            del self._running[request.caller]

    def withdraw(self, request: QueuedRequest) -> None:
        """Remove a request from its queue."""
        queue = self._queues[request.caller]
        if queue[0] is request:
            queue.popleft()
        else:
            queue.remove(request)
        self._sizes[request.caller] -= request.size
        if not queue:
            del self._queues[request.caller]
            del self._sizes[request.caller]

    def waiting(self) -> Iterator[QueuedRequest]:
        """All queued requests, the oldest of each caller first."""
        for queue in list(self._queues.values()):
            yield from list(queue)


MAX_BUCKETS = 20_000
"""Maximum number of callers whose rate is remembered; a forgotten caller starts with a full bucket."""

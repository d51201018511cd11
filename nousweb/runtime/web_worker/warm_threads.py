"""A thread pool that gives the next request to the most recently used idle thread.

The data of such a thread are still in the processor's caches, in this process and in that of its database connection:
each thread has a connection of its own. Otherwise even a few concurrent requests would rotate through all threads and
connections.
"""

import queue
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any


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
        """The next item; waits for one. Without `block`, raises queue.Empty if there is none."""
        with self._lock:
            if self._items:
                return self._items.popleft()
            if not block:
                raise queue.Empty
            waiter = _Waiter()
            self._waiting.append(waiter)
        waiter.ready.acquire()
        return waiter.item

    def get_nowait(self) -> Any:
        """The next item. Raises queue.Empty."""
        return self.get(block=False)


class _Waiter:
    """A waiting thread: `ready` is released when its item is set."""

    __slots__ = ("item", "ready")

    def __init__(self) -> None:
        self.item: Any = None
        self.ready = threading.Lock()
        self.ready.acquire()

"""Threads of which the one that was busy last is asked first.

What a request needs is still in the processor's caches then, in this process and in that of its database connection:
each thread has a connection of its own. In turn, a few requests at a time would go through all threads and
connections.
"""

import queue
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class WarmThreadPool(ThreadPoolExecutor):
    """A pool that starts no more threads than are needed at once."""

    def __init__(self, threads: int) -> None:
        super().__init__(max_workers=threads)
        # What the standard library's threads ask for work.
        self._work_queue = LastWaiterQueue()  # type: ignore[assignment]


class LastWaiterQueue:
    """A queue, first in, first out, in which an item goes to the thread that began to wait for one last."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._items: deque[Any] = deque()
        self._waiting: list[_Waiter] = []

    def put(self, item: Any) -> None:
        """Give an item to a thread, or keep it until one asks."""
        with self._lock:
            if not self._waiting:
                self._items.append(item)
                return
            waiter = self._waiting.pop()
        waiter.item = item
        waiter.ready.release()

    def get(self, block: bool = True) -> Any:
        """The next item, waiting for one. Raises queue.Empty for none without `block`."""
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
    """A thread that waits: `ready` is let go when its item is there."""

    __slots__ = ("item", "ready")

    def __init__(self) -> None:
        self.item: Any = None
        self.ready = threading.Lock()
        self.ready.acquire()

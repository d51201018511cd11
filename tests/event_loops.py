"""Asynchronous clients in tests that are not."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


def to_its_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Run `work` and return its result. In a thread of its own, since a browser of this process keeps an event loop
    running."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()

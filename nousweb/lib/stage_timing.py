"""Durations of the stages of a piece of work; each is a span too if traces are collected."""

import time
from contextlib import AbstractContextManager

from nousweb.lib.tracing import Span, span


class Stopwatch:
    """Seconds by stage, in the order in which the stages ended. Spans are called `<work>.<stage>`."""

    __slots__ = ("_work", "seconds")

    def __init__(self, work: str) -> None:
        self._work = work
        self.seconds: dict[str, float] = {}

    def stage(self, name: str) -> "_Stage":
        """Time a block of code; a stage that failed is timed too."""
        return _Stage(self, name, span(f"{self._work}.{name}"))

    @property
    def milliseconds(self) -> dict[str, float]:
        """The same in milliseconds, with two decimals."""
        return {name: round(seconds * 1000, 2) for name, seconds in self.seconds.items()}


class _Stage:
    __slots__ = ("_began", "_name", "_span", "_watch")

    def __init__(self, watch: Stopwatch, name: str, within: AbstractContextManager[Span]) -> None:
        self._watch = watch
        self._name = name
        self._span = within

    def __enter__(self) -> None:
        self._began = time.perf_counter()
        self._span.__enter__()

    def __exit__(self, *error: object) -> None:
        self._span.__exit__(*error)  # type: ignore[arg-type]
        self._watch.seconds[self._name] = time.perf_counter() - self._began

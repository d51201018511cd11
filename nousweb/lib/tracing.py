"""Spans of requests and tasks, for installations that collect traces (docs/operations.md, "Traces and metrics").

OpenTelemetry is not imported here. While no tracer is set, which is the usual case, a span is one shared object that
does nothing. Attributes contain names, numbers and ids: never a memory, a prompt, a query or a secret.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeVar

Value = str | int | float | bool
Kind = Literal["internal", "client"]
Result = TypeVar("Result")


class Span(Protocol):
    """An open span."""

    def set_attributes(self, attributes: Mapping[str, Value]) -> None:
        """Add attributes that were not known when the span began."""


class _Nothing:
    """The span and the context manager without a tracer."""

    def __enter__(self) -> "_Nothing":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def set_attributes(self, attributes: Mapping[str, Value]) -> None:
        return None


NOTHING = _Nothing()
_NONE: Mapping[str, Value] = {}
_tracer: Any = None
"""That of OpenTelemetry (`nousweb.monitoring.telemetry.spans.OtelTracer`), which is not imported here; or None."""


def tracer_set(tracer: Any) -> None:
    """Set the tracer of this process; None removes it."""
    global _tracer
    _tracer = tracer


def configured_tracer() -> Any:
    """The tracer of this process, if it has one."""
    return _tracer


def traced() -> bool:
    """Whether this process has a tracer."""
    return _tracer is not None


def span(
    name: str, attributes: Mapping[str, Value] = _NONE, *, kind: Kind = "internal"
) -> AbstractContextManager[Span]:
    """A span around a block of code. It records the class of an error that leaves the block, without its message."""
    return NOTHING if _tracer is None else _tracer.span(name, kind, attributes)


def carried(function: Callable[..., Result]) -> Callable[..., Result]:
    """Wrap `function` for another thread, so that its spans belong to the current trace."""
    return function if _tracer is None else _tracer.carried(function)


def trace_id() -> str:
    """The id of the current trace; empty if none is collected."""
    return "" if _tracer is None else _tracer.trace_id()


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

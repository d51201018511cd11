"""Spans of what the product does, for whoever collects traces (docs/operations.md, "Traces and metrics").

OpenTelemetry is not imported here. While no tracer is set, which is the usual case, a span is one shared object that
does nothing. Attributes hold names, numbers and ids: never a memory, a prompt, a query or a secret.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Literal, Protocol, TypeVar

Value = str | int | float | bool
Kind = Literal["internal", "client"]
Result = TypeVar("Result")


class Span(Protocol):
    """A piece of work that is under way."""

    def set_attributes(self, attributes: Mapping[str, Value]) -> None:
        """Add what is known only now."""
        ...


class Tracer(Protocol):
    """Makes spans within requests and tasks; what goes on outside of these makes none."""

    def span(self, name: str, kind: Kind, attributes: Mapping[str, Value]) -> AbstractContextManager[Span]:
        """A span around a block of code, which is within the span that is under way."""
        ...

    def carried(self, function: Callable[..., Result]) -> Callable[..., Result]:
        """`function` for another thread, where its spans belong to the span that is under way here."""
        ...

    def trace_id(self) -> str:
        """The id of the trace under way, 32 hexadecimal digits; empty when nothing of it is collected."""
        ...


class _Nothing:
    """The span and the context manager where nothing is collected."""

    def __enter__(self) -> "_Nothing":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def set_attributes(self, attributes: Mapping[str, Value]) -> None:
        return None


NOTHING = _Nothing()
_NONE: Mapping[str, Value] = {}
_tracer: Tracer | None = None


def tracer_set(tracer: Tracer | None) -> None:
    """Let `tracer` make the spans of this process; None ends that."""
    global _tracer
    _tracer = tracer


def tracer_in_force() -> Tracer | None:
    """The tracer of this process, if it has one."""
    return _tracer


def traced() -> bool:
    """Whether this process has a tracer."""
    return _tracer is not None


def span(
    name: str, attributes: Mapping[str, Value] = _NONE, *, kind: Kind = "internal"
) -> AbstractContextManager[Span]:
    """A span around a block of code. An error that leaves the block is named by its class, without its words."""
    return NOTHING if _tracer is None else _tracer.span(name, kind, attributes)


def carried(function: Callable[..., Result]) -> Callable[..., Result]:
    """`function`, to be called in another thread for what is under way here."""
    return function if _tracer is None else _tracer.carried(function)


def trace_id() -> str:
    """The id of the trace under way; empty where none is collected."""
    return "" if _tracer is None else _tracer.trace_id()

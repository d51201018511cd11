"""Geometry of the console's charts. Numbers only: colours are CSS classes, drawing is a template's."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a stacked bar. ``x``, ``width`` and ``height`` are in the bar's own units;
    ``percent`` is the rounded share of the whole bar."""

    label: str
    value: float
    css_class: str
    x: float
    width: float
    height: float
    percent: int


def stacked_bar(
    values: Sequence[tuple[str, float, str]],
    width: float,
    height: float,
    *,
    capacity: float | None = None,
) -> list[Segment]:
    """Lay ``(label, value, css_class)`` side by side over ``width``.

    The bar stands for the sum of the values, or for ``capacity`` where that is greater: the
    rest then stays empty, as in tokens used of a budget. Negative values count as nothing.
    """
    amounts = [max(value, 0) for _, value, _ in values]
    whole = max(sum(amounts), capacity or 0)
    segments: list[Segment] = []
    before: float = 0
    for (label, value, css_class), amount in zip(values, amounts, strict=True):
        # Edges are rounded, not widths, so that neighbours meet and the last one ends at the end.
        left = round(width * before / whole, 3) if whole else 0.0
        before += amount
        right = round(width * before / whole, 3) if whole else 0.0
        segments.append(
            Segment(
                label=label,
                value=value,
                css_class=css_class,
                x=left,
                width=round(right - left, 3),
                height=height,
                percent=round(100 * amount / whole) if whole else 0,
            )
        )
    return segments


@dataclass(frozen=True, slots=True)
class SpanBar:
    """One span of time on an axis: ``x`` and ``width`` in percent of it; None in a moment means open."""

    start: datetime | None
    end: datetime | None
    x: float
    width: float


def span_bars(
    spans: Sequence[tuple[datetime | None, datetime | None]], begin: datetime, end: datetime
) -> list[SpanBar]:
    """Lay spans of time on the axis from ``begin`` to ``end``. Open sides reach the axis' own end.

    A span of no visible length still gets half a percent, so that it can be seen.
    """
    whole = (end - begin).total_seconds() or 1.0

    def place(moment: datetime) -> float:
        return min(max(100 * (moment - begin).total_seconds() / whole, 0.0), 100.0)

    bars: list[SpanBar] = []
    for start, stop in spans:
        left = place(start) if start else 0.0
        right = place(stop) if stop else 100.0
        width = max(right - left, 0.5)
        bars.append(SpanBar(start, stop, round(min(left, 100 - width), 3), round(width, 3)))
    return bars


@dataclass(frozen=True, slots=True)
class Bar:
    """One column: ``x`` and ``width`` in percent of the chart, ``y`` and ``height`` in its own units from the top."""

    value: float
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class ChartColumn:
    """A column of a chart over time: what it says when it is pointed at, where, its label below, and its bar, above
    which `value` stands; `is_last`: it is under way."""

    title: str
    place: Bar
    tick: str = ""
    bar: Bar | None = None
    value: str = ""
    is_last: bool = False

    @property
    def middle(self) -> float:
        return round(self.place.x + self.place.width / 2, 3)

    @property
    def anchor(self) -> str:
        """The end of a text at the middle of its column, chosen so that none leaves the chart."""
        return "start" if self.middle < 5 else "end" if self.middle > 95 else "middle"


def bars(
    values: Sequence[float], height: float, *, top: float, gap: float = 0.25, min_height: float = 1.0
) -> list[Bar]:
    """Columns of equal width on the chart's lower edge.

    ``top`` is the value of the upper edge, above which nothing is drawn; ``gap`` the share of a column's width that
    stays empty. Positive values get at least ``min_height`` units of height, so that they can be seen.
    """
    place = 100 / len(values) if values else 0.0
    columns: list[Bar] = []
    for number, value in enumerate(values):
        tall = height * min(max(value, 0) / top, 1) if top > 0 else 0.0
        tall = max(tall, min_height) if value > 0 else 0.0
        columns.append(
            Bar(
                value=value,
                x=round(place * (number + gap / 2), 3),
                y=round(height - tall, 3),
                width=round(place * (1 - gap), 3),
                height=round(tall, 3),
            )
        )
    return columns

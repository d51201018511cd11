"""Geometry of the console's charts, and what they say. Numbers only: colours are CSS classes, drawing is a template's.

All charts keep to these rules:

- A value stands at its column or point where all have room, else at those that matter (`told_places`).
- The axis below names its first and last step. One that does not begin at 0 says where it begins.
- What a series is called stands beside the heading of the chart, with its number.
- A change is green or red only where more, or less, is better (`Figure.good` of nousweb.console.home.period).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, count, pairwise
from math import ceil


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
    # Edges are rounded, not widths, so that neighbours meet and the last one ends at the end.
    edges = [round(width * before / whole, 3) if whole else 0.0 for before in accumulate(amounts, initial=0)]
    return [
        Segment(
            label=label,
            value=value,
            css_class=css_class,
            x=left,
            width=round(right - left, 3),
            height=height,
            percent=round(100 * amount / whole) if whole else 0,
        )
        for (label, value, css_class), amount, (left, right) in zip(values, amounts, pairwise(edges), strict=True)
    ]


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

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 3)


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """A value of a chart, None where nothing was measured, and what is told of it, and of that of the period before.

    `parts` are the classes of what the value is made of, with their sizes, in any unit; `mark` is the
    class of a point at which something began or ended.
    """

    name: str
    tick: str
    value: float | None
    told: str
    told_before: str = ""
    parts: tuple[tuple[str, float], ...] = ()
    mark: str = ""


@dataclass(frozen=True, slots=True)
class ChartColumn:
    """A column of a chart over time: its point, what it says when it is pointed at, where, its label below, and its
    bar, above which `value` stands; `is_last`: it is under way, `is_minor`: its label is left out on a phone. `parts`
    are the classes, places and heights of what the bar is made of, in the chart's own units from the top."""

    point: ChartPoint
    title: str
    place: Bar
    bar: Bar
    tick: str = ""
    value: str = ""
    parts: tuple[tuple[str, float, float], ...] = ()
    is_last: bool = False
    is_minor: bool = False

    @property
    def middle(self) -> float:
        return self.place.middle

    @property
    def label_at(self) -> tuple[float, str]:
        """Where the label stands, and which end of it: in the middle, but where columns are narrow it may not leave
        the chart."""
        if self.place.width >= NARROW or (self.place.x and not self.is_last):
            return self.middle, "middle"
        return (self.place.x + self.place.width, "end") if self.is_last else (self.place.x, "start")

    @property
    def value_at(self) -> tuple[float, str]:
        """The same of the number above a bar, which may be the first."""
        return self.label_at if self.place.width < NARROW else (self.bar.middle, "middle")


@dataclass(frozen=True, slots=True)
class Chart:
    """Columns, or with `is_line` one line, from a base to a top, `height` units high. `axis` are the labels from the
    upper to the lower edge, at even distances; `now` and `every` are the words of the legend for the last column and
    the others, none to leave it out; `note` tells of columns without a value. `parts` are the labels and classes of
    what the columns are made of, or of marks."""

    columns: list[ChartColumn]
    axis: tuple[str, ...]
    height: float
    every: str
    now: str
    note: str
    parts: tuple[tuple[str, str], ...] = ()
    is_line: bool = False


CHART_HEIGHT, LOW_HEIGHT = 160.0, 80.0
TICK_STEPS = (1, 2, 3, 4, 5, 6, 7, 14, 15, 30)
TICKS, TICKS_OF_PHONE = 6, 3
"""At most so many labels stand below a chart of more than a week."""
NARROW = 4.5
"""Percent of a chart: a column of less has no place for its label."""
WIDEST, LETTERS = 4.3, 35
"""Percent of a chart that a column takes at most, which the stylesheet narrows in a wide window; and how many letters
stand above the columns on a phone."""


def told_places(values: Sequence[float], letters: int, marks: Sequence[int] | None = None) -> list[int]:
    """The places of the values that a chart says: all, where it has room for so many letters in a line, else the
    greatest and the last one; of a line, which has `marks`, the last one, these and the first one. None stands in
    another."""
    known = [place for place, value in enumerate(values) if value]
    words = max((len(f"{value:,.0f}") for value in values), default=0) * len(values)
    if not known or words <= letters:
        return known
    greatest = max(known, key=values.__getitem__)
    told: list[int] = []
    for place in (greatest, known[-1]) if marks is None else (known[-1], *marks[::-1], known[0]):
        if all(abs(place - other) * letters > words for other in told):
            told.append(place)
    return told


INTERVALS = 5
"""At most so many lines stand above the lower edge of a chart."""


def axis_step(value: float) -> int:
    """The least of 1, 2, 4, 5, 10, 20, 40 … of which INTERVALS reach `value`."""
    return next(
        step * 10**power
        for power in count()
        for step in (1, 2, 4, 5)
        if step * 10**power * INTERVALS >= value
    )  # fmt: skip


def ticks(number: int) -> list[int]:
    """The columns with a label below: the first, the last, and others at even distances back from it."""
    if number <= 7:
        return list(range(number))
    step = next((step for step in TICK_STEPS if number / step <= TICKS), number)
    return [0, *(place for place in range((number - 1) % step, number, step) if 2 * place > step)]


def chart(
    points: Sequence[ChartPoint],
    *,
    step: str,
    unit: str,
    every: str = "",
    ago: str = "",
    sign: str = "",
    base: int = 0,
    top: int = 0,
    is_line: bool = False,
) -> Chart:
    """Lay values over time, from `base` up to `top`, without one to a round number. `step` is "day" or "hour", `every`
    the name of the period, and `ago` how long ago the one before was; `unit` is what a column without a value lacks,
    and `sign` follows the numbers of the axis.
    """
    values = [point.value or 0 for point in points]
    is_share, height = bool(top), LOW_HEIGHT if top else CHART_HEIGHT
    reached = max(*values, 1)
    by = (top - base) // 2 if top else axis_step(reached)
    top = top or by * ceil(reached / by)
    last = len(points) - 1
    labelled = ticks(len(points))
    on_phone = labelled[::-1][:: -(-len(labelled) // TICKS_OF_PHONE)]
    marked = [place for place, point in enumerate(points) if point.mark]
    told = told_places(values, LETTERS, marked if is_line else None)
    empty = sum(not value for value in values)
    above = [max(value - base, 0) for value in values]
    # Of few columns none is as wide as a wall.
    gap = max(0.4, 1 - WIDEST * len(points) / 100)
    columns = []
    for number, (point, bar, place) in enumerate(
        zip(
            points,
            bars(above, height, top=top - base, gap=gap),
            bars([1] * len(points), 1, top=1, gap=0),
            strict=True,
        )
    ):
        # A value at the upper edge is told by the axis.
        is_told = number in told and not (is_share and point.value == top)
        columns.append(
            ChartColumn(
                point=point,
                title=f"{point.name}: {point.told}"
                + (f". {ago} earlier: {point.told_before}" if point.told_before else ""),
                place=place,
                bar=bar,
                tick=point.tick if number in labelled else "",
                value=f"{point.value:{'g' if is_line else ',.0f'}}{sign}" if point.value and is_told else "",
                parts=_stacked(point.parts, bar),
                is_last=number == last,
                is_minor=number not in on_phone,
            )
        )
    return Chart(
        columns=columns,
        axis=tuple(f"{line:,}{sign}" for line in range(top, base - 1, -by)),
        height=height,
        every=every[:1].upper() + every[1:],
        now="" if not values[-1] else "Today so far" if step == "day" else "This hour so far",
        note=f"A dot is a {step} without {unit}: {empty} of {len(points)}." if empty else "",
        is_line=is_line,
    )


def _stacked(parts: Sequence[tuple[str, float]], bar: Bar) -> tuple[tuple[str, float, float], ...]:
    """The parts of a bar, the first at the bottom."""
    whole = sum(size for _, size in parts)
    heights = [bar.height * size / whole if whole else 0 for _, size in parts]
    return tuple(
        (look, round(bar.y + bar.height - reached, 3), round(height, 3))
        for (look, _), height, reached in zip(parts, heights, accumulate(heights), strict=True)
    )


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
        y = round(height - tall, 3)
        columns.append(
            Bar(
                value=value,
                x=round(place * (number + gap / 2), 3),
                y=y,
                width=round(place * (1 - gap), 3),
                height=round(height - y, 3),
            )
        )
    return columns

"""The period of the dashboard, and the period before it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property

from django.db.models import DateTimeField, Q
from django.db.models.functions import Trunc

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
CHOICES = {1: "24 hours", 7: "7 days", 14: "14 days", 30: "30 days", 90: "90 days"}
DEFAULT_DAYS = 14
ENOUGH = 5
"""Prompts of a period from which it is compared with another."""
SMALL = 100
"""Below so much a change is told as a number: a percentage of little is great."""
CLEAR = 5
"""Percent or points from which a change is called better or worse."""


@dataclass(frozen=True)
class Period:
    """From `start` to `end`, which is now, in whole hours of one day or whole days of more; the last is under way.

    The period before is as long to the second and ends at the same time of day, so that a morning is compared with
    mornings. Days are those of UTC, the console's time zone.
    """

    days: int
    end: datetime

    @cached_property
    def start(self) -> datetime:
        end = self.end.replace(minute=0, second=0, microsecond=0)
        return end - 23 * HOUR if self.days == 1 else end.replace(hour=0) - (self.days - 1) * DAY

    @property
    def step(self) -> timedelta:
        return HOUR if self.days == 1 else DAY

    @property
    def length(self) -> timedelta:
        return self.days * DAY

    @property
    def earlier(self) -> datetime:
        """The beginning of the period before."""
        return self.start - self.length

    @property
    def label(self) -> str:
        return f"last {CHOICES[self.days]}"

    @property
    def before_label(self) -> str:
        """The label of the period before, with which figures are compared."""
        return f"the {CHOICES[self.days]} before"

    @property
    def step_label(self) -> str:
        return "hour" if self.days == 1 else "day"

    @cached_property
    def moments(self) -> list[datetime]:
        """The beginnings of the hours or days of the period."""
        return [self.start + place * self.step for place in range(24 if self.days == 1 else self.days)]

    def name(self, moment: datetime) -> str:
        """The label of an hour or day in charts and their tables."""
        return f"{moment:%H:%M} UTC" if self.days == 1 else f"{moment:%a} {moment.day} {moment:%b}"

    def short(self, moment: datetime) -> str:
        """A short label for an axis."""
        if moment == self.moments[-1]:
            return "Now" if self.days == 1 else "Today"
        if self.days == 1:
            return f"{moment:%H:%M}"
        return f"{moment:%a}" if self.days == 7 else f"{moment.day} {moment:%b}"

    @property
    def bounds(self) -> dict[str, datetime]:
        """The moments of both periods, as a query that is written once names them."""
        return {
            "since": self.start,
            "until": self.end,
            "since_before": self.earlier,
            "until_before": self.end - self.length,
        }

    def within(self, field: str) -> Q:
        """Condition for rows of this period."""
        return Q(**{f"{field}__gte": self.start, f"{field}__lt": self.end})

    def within_before(self, field: str) -> Q:
        """Condition for rows of the period before."""
        return Q(**{f"{field}__gte": self.earlier, f"{field}__lt": self.end - self.length})

    def within_both(self, field: str) -> Q:
        """Condition for rows of both: one range of an index, without the rest of the earlier period's last step."""
        gap = Q(**{f"{field}__gte": self.end - self.length, f"{field}__lt": self.start})
        return Q(**{f"{field}__gte": self.earlier, f"{field}__lt": self.end}) & ~gap

    def bucket(self, field: str) -> Trunc:
        """The hour or day of a row."""
        return Trunc(field, self.step_label, output_field=DateTimeField())


STAND_IN_END = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
"""The end of a period that stands for others in a query that is written once."""


@dataclass(frozen=True, slots=True)
class Trend:
    """A figure of this period and of the period before; None if there was nothing to measure.

    `points`: the figure is a percentage, and its changes are counted in percentage points; `unit` follows another one.
    """

    now: float | None
    before: float | None
    points: bool = field(default=False, compare=False)
    unit: str = field(default="", compare=False)

    @property
    def tells(self) -> bool:
        """Whether the period before has so much that a change says something."""
        return self.before is not None and (self.points or self.before >= ENOUGH)

    @property
    def move(self) -> int | None:
        """The change in percent, or in points of the rounded numbers; None if there is nothing to compare with."""
        if self.now is None or self.before is None or (not self.before and not self.points):
            return None
        if self.points:
            return abs(round(self.now) - round(self.before))
        return round(100 * abs(self.now - self.before) / self.before)

    @property
    def moved(self) -> str:
        """The change as a number, or in points."""
        if self.points:
            return f"{self.move} point{'' if self.move == 1 else 's'}"
        return f"{abs(round(self.now or 0) - round(self.before or 0)):,}"

    @property
    def percent(self) -> str:
        """The change in percent; "" of a small figure, of points, and of thousands of percent, which say nothing."""
        tells = not self.points and (self.before or 0) >= SMALL and self.arrow and (self.move or 0) < 1_000
        return f"{self.move} %" if tells else ""

    @property
    def arrow(self) -> str:
        """The direction of the change; empty for less than half a percent or point."""
        if self.now is None or self.before is None or self.now == self.before or self.move == 0 or self.moved == "0":
            return ""
        return "↑" if self.now > self.before else "↓"

    @property
    def words(self) -> str:
        """The change in words: "4 from 10"; without an arrow "unchanged" or the like."""
        if self.before is None:
            return "no earlier data"
        if not self.arrow:
            return "unchanged"
        return f"{self.moved} from {round(self.before):,}{' %' if self.points else self.unit}"

    def sentence(self, than: str, *, less: str = "less") -> str:
        """The change as the rest of a sentence: "12 % more than the 14 days before"; "" where nothing is told."""
        if self.move is None or not self.tells:
            return ""
        if not self.arrow:
            return f"about as {'many' if less == 'fewer' else 'much'} as in {than}"
        return f"{self.percent or self.moved} {'more' if self.arrow == '↑' else less} than in {than}"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a period: its `value` and `unit`, its trend, and its value of each hour or day, the last under way;
    None where nothing was measured, and of each how much is `failed`. `of` is the unit of the values, and `key` names
    the chart of a figure that has one, `url` the page of another. `note` stands in the place of a trend, of which
    `good` is the direction that improves. From `floor`, the values are a line up to 100; with `ticks`, each says only
    whether something of it is `failed`. `alarm` is a sentence, where it got worse beyond doubt."""

    label: str
    value: str
    unit: str
    points: Sequence[tuple[str, float | None]] = ()
    of: str = ""
    trend: Trend | None = None
    failed: Sequence[int] = ()
    floor: int | None = None
    ticks: bool = False
    key: str = ""
    url: str = ""
    note: str = ""
    good: str = ""
    alarm: str = ""

    @property
    def keys(self) -> list[tuple[str, str]]:
        """What its drawing needs to be read: classes, of a colour, with words."""
        if self.ticks:
            return [("spark-passed", "All held"), *[("chart-failed", "Some failed")] * any(self.failed)]
        failed = [("chart-failed", f"{sum(self.failed):,} failed")] * bool(self.failed)
        return failed if self.floor is None else [("", f"Scale {self.floor}–100")]

    @property
    def verdict(self) -> str:
        """Whether a clear change is "better" or "worse"; "" where neither is said."""
        if not self.trend or not self.good or (self.trend.move or 0) < CLEAR:
            return ""
        return "better" if self.trend.arrow == self.good else "worse"

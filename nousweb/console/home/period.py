"""The stretch of time that the dashboard is about, and the one before it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from django.db.models import DateTimeField, Q
from django.db.models.functions import Trunc

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
CHOICES = {1: "24 hours", 7: "7 days", 30: "30 days", 90: "90 days"}
DEFAULT_DAYS = 7


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
        """Where the period before begins."""
        return self.start - self.length

    @property
    def label(self) -> str:
        return f"last {CHOICES[self.days]}"

    @property
    def before_label(self) -> str:
        """What figures are compared with."""
        return f"the {CHOICES[self.days]} before"

    @property
    def step_label(self) -> str:
        return "hour" if self.days == 1 else "day"

    @cached_property
    def moments(self) -> list[datetime]:
        """Where each hour or day of the period begins."""
        return [self.start + place * self.step for place in range(24 if self.days == 1 else self.days)]

    def name(self, moment: datetime) -> str:
        """An hour or day as the charts and their tables name it."""
        return f"{moment:%H:%M} UTC" if self.days == 1 else f"{moment:%a} {moment.day} {moment:%b}"

    def short(self, moment: datetime) -> str:
        """The same as short as an axis needs it."""
        if self.days == 1:
            return f"{moment:%H:%M}"
        return f"{moment:%a}" if self.days == 7 else f"{moment.day} {moment:%b}"

    def within(self, field: str) -> Q:
        """Rows of this period."""
        return Q(**{f"{field}__gte": self.start, f"{field}__lt": self.end})

    def within_before(self, field: str) -> Q:
        """Rows of the period before."""
        return Q(**{f"{field}__gte": self.earlier, f"{field}__lt": self.end - self.length})

    def within_both(self, field: str) -> Q:
        """Rows of both, as one range of an index without the rest of the earlier one's last hour or day."""
        gap = Q(**{f"{field}__gte": self.end - self.length, f"{field}__lt": self.start})
        return Q(**{f"{field}__gte": self.earlier, f"{field}__lt": self.end}) & ~gap

    def bucket(self, field: str) -> Trunc:
        """The hour or day of a row."""
        return Trunc(field, self.step_label, output_field=DateTimeField())

    def spread(self, found: Iterable[tuple[datetime, float]]) -> list[float]:
        """The values of this period's hours or days, 0 where there is none."""
        values = dict(found)
        return [values.get(moment, 0) for moment in self.moments]

    def spread_before(self, found: Iterable[tuple[datetime, float]]) -> list[float]:
        """The same of the period before."""
        values = dict(found)
        return [values.get(moment - self.length, 0) for moment in self.moments]


@dataclass(frozen=True, slots=True)
class Trend:
    """A figure beside the same of the period before; None where there was nothing to measure.

    `points` says that it is a percentage itself, whose moves are counted in points.
    """

    now: float | None
    before: float | None
    points: bool = field(default=False, compare=False)

    @property
    def _move(self) -> int | None:
        """How far it moved, in percent or in points; None where there is nothing to move from."""
        if self.now is None or self.before is None or (not self.before and not self.points):
            return None
        moved = abs(self.now - self.before)
        return round(moved if self.points else 100 * moved / self.before)

    @property
    def arrow(self) -> str:
        """Which way it moved; empty for less than half a percent or point."""
        if self.now is None or self.before is None or self.now == self.before or self._move == 0:
            return ""
        return "↑" if self.now > self.before else "↓"

    @property
    def words(self) -> str:
        """How it moved: "20 % from 1,204"; without an arrow what there is to say instead."""
        if self.before is None:
            return "no earlier data"
        if not self.arrow:
            return "unchanged"
        before = f"{round(self.before, 1):,g}" if self.before < 10 else f"{round(self.before):,}"
        move = self._move
        if self.points:
            return f"{move} point{'' if move == 1 else 's'} from {before} %"
        # A thousandfold says nothing as a percentage.
        return f"{move} % from {before}" if move is not None and move < 1_000 else f"from {before}"

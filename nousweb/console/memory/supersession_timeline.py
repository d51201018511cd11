"""All facts ever believed about a subject on one time axis. Numbers only: templates draw them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from memory.models import Fact

WIDTH = 1000.0
ROW = 34.0
TOP = 24.0


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """One fact: `true_*` is its span in the world, `known_*` the one in which the agent held it, in units of WIDTH."""

    fact: Fact
    y: float
    valid_x: float
    valid_width: float
    recorded_x: float
    recorded_width: float
    css_class: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Timeline:
    bars: tuple[TimelineBar, ...]
    ticks: tuple[Tick, ...]
    height: float
    begins: datetime
    ends: datetime
    marker: float


def timeline_of(facts: Sequence[Fact], holding: Collection[object], moment: datetime, now: datetime) -> Timeline:
    """`facts` in their order from top to bottom; `holding` are the keys of those that hold at `moment`."""
    moments = [each for fact in facts for each in (fact.valid_from, fact.recorded_at, fact.retired_at) if each]
    begins, ends = min([*moments, now]), now
    # A beginning long before everything else would leave no room for the rest, and none at all no width.
    if ends - begins < timedelta(minutes=1):
        begins = ends - timedelta(minutes=1)
    whole = (ends - begins).total_seconds()

    def x(at: datetime | None, otherwise: datetime) -> float:
        share = ((at or otherwise) - begins).total_seconds() / whole
        return round(WIDTH * min(max(share, 0.0), 1.0), 1)

    bars = []
    for place, fact in enumerate(facts):
        valid_x, true_end = x(fact.valid_from, fact.recorded_at), x(fact.valid_until, ends)
        recorded_x, known_end = x(fact.recorded_at, begins), x(fact.retired_at, ends)
        wrong = fact.invalidated_at is not None
        bars.append(
            TimelineBar(
                fact,
                TOP + place * ROW,
                valid_x,
                max(true_end - valid_x, 3.0),
                recorded_x,
                max(known_end - recorded_x, 3.0),
                "is-wrong" if wrong else "is-active" if fact.active else "is-past",
                fact.pk in holding,
            )
        )
    form = "%Y-%m-%d" if ends - begins > timedelta(days=4) else "%m-%d %H:%M"
    places = (0.0, 0.25, 0.5, 0.75)
    ticks = tuple(Tick(round(WIDTH * share, 1), (begins + (ends - begins) * share).strftime(form)) for share in places)
    return Timeline(tuple(bars), ticks, TOP + len(bars) * ROW, begins, ends, x(moment, ends))

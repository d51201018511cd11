"""Facts on one axis of time: of each, when it was true in the world, and when the agent held it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import ceil
from uuid import UUID

from memory.models import Fact, FactChange
from nousweb.console.common import SpanBar, span_bars
from nousweb.lib import clock

EARLIEST = datetime.min.replace(tzinfo=UTC)
LONGEST_AHEAD = timedelta(days=30)
MARGIN = 0.04
"""Share of the axis left empty at its ends, for open intervals."""
TICKS = 4
NEAR, NEAR_TIMES = 16, 24
"""Percent of the axis that keeps two of its days, or times, apart."""
SHORT = timedelta(days=4)
"""An axis below this names times of the day."""
LEGEND = {
    "valid": "True",
    "open": "True, no date known",
    "disputed": "Contradicted",
    "never": "Never true",
    "known": "In memory",
    "sent": "Prompt",
}
Span = tuple[datetime | None, datetime | None]


PROMPTS_SHOWN = 20
"""Prompts of a fact that have a place on the axis, the latest."""


@dataclass(frozen=True, slots=True)
class Stroke:
    """A piece of a lane: `x` and `width` in percent of the axis; `look`: a key of LEGEND."""

    look: str
    x: float
    width: float
    is_known: bool = False
    """Of the time in which the agent held the fact, below the time in which it was true."""

    @property
    def end(self) -> float:
        return self.x + self.width


@dataclass(frozen=True, slots=True)
class Lane:
    """One fact on the axis. `holds`: it is in use at the moment of the page; `disputed`: the place from which another
    fact contradicts it; `is_cut`: it was recorded before the axis begins; `sent`: the prompts that had it and whose
    answers were reported, with when these were, and in `dots` those that have a place on the axis, after it."""

    fact: Fact
    valid: SpanBar
    known: list[SpanBar]
    now: float
    holds: bool
    disputed: float | None = None
    is_cut: bool = False
    sent: Sequence[tuple[datetime, UUID]] = ()
    dots: Sequence[tuple[float, datetime, UUID]] = ()

    @property
    def told(self) -> tuple[str, str, int]:
        """The number of these prompts in words, the query of their list, and how many were before the axis begins."""
        number = len(self.sent)
        more = " or more" * (number == PROMPTS_SHOWN)
        words = f"in {number}{more} answered prompt{'' if number == 1 else 's'}"
        return words, f"?memory=fact:{self.fact.pk}&answered=1", number - len(self.dots)

    @property
    def strokes(self) -> list[Stroke]:
        """The time in which the agent held it; above it, if a date tells of that, the time in which it was true, dashed
        where its beginning is unknown, to now if its end is. What a contradiction is about is the end of the upper."""
        bar, end = self.valid, self.valid.x + self.valid.width
        known = [Stroke("known", each.x, each.width, is_known=True) for each in self.known]
        if self.fact.invalidated_at:
            return [Stroke("never", bar.x, bar.width), *known]
        if not (bar.start or bar.end):
            if self.disputed is None or not known:
                return known
            held = known.pop()
            begin = max(held.x, self.disputed)
            known += [replace(held, width=begin - held.x)] if begin > held.x else []
            return [*known, Stroke("disputed", begin, held.end - begin, is_known=True)]
        last = end if bar.end or bar.x >= self.now else self.now
        until = last if self.disputed is None else max(min(last, self.disputed), bar.x)
        look = "valid" if bar.start and bar.x < self.now else "open"
        # Of a fact that was contradicted when it was recorded, no earlier time is told.
        is_told = until > bar.x and (bar.start or not self.known or self.known[0].x < until)
        told = [Stroke(look, bar.x, until - bar.x)] if is_told else []
        return [*told, *([Stroke("disputed", until, last - until)] if until < last else []), *known]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The lanes of facts in their order, from top to bottom, with the days that their axis names."""

    lanes: list[Lane]
    ticks: list[tuple[float, datetime]]
    now: float
    begin: datetime
    end: datetime

    @property
    def legend(self) -> list[tuple[str, str]]:
        """The looks of the strokes that are drawn, with what each means."""
        drawn = {stroke.look for lane in self.lanes for stroke in lane.strokes}
        drawn |= {"sent" for lane in self.lanes if lane.dots}
        return [(look, words) for look, words in LEGEND.items() if look in drawn]

    @property
    def form(self) -> str:
        """How days stand on the axis: with the year on a long one, with the time on a short one."""
        long, short = self.end - self.begin > timedelta(days=300), self.end - self.begin < SHORT
        return "M Y" if long else "j M H:i" if short else "j M"


def known_spans(fact: Fact, changes: Iterable[FactChange]) -> list[Span]:
    """Since when and until when the agent held the fact to be true; restored facts have more than one span."""
    spans: list[Span] = []
    start: datetime | None = fact.recorded_at
    for change in sorted(
        (each for each in changes if each.action in FactChange.VALIDITY_TRANSITIONS), key=lambda each: each.pk
    ):
        if change.action == FactChange.Action.RESTORED:
            start = start or change.at
        elif start is not None:
            spans.append((start, change.at))
            start = None
    if fact.active:
        spans.append((start or fact.recorded_at, None))
    elif start is not None:
        # A fact that came without its history.
        spans.append((start, fact.retired_at))
    return spans


def timeline_of(
    facts: Sequence[Fact],
    changes: Iterable[FactChange] = (),
    *,
    holding: Collection[object] = (),
    contradicted: Collection[tuple[object, object]] = (),
    sent: Mapping[object, Sequence[tuple[datetime, UUID]]] = {},
) -> Timeline:
    """The facts on one axis, from their first moment to now or their last. `changes` are those of all of them,
    `holding` the keys of those in use, `contradicted` the pairs of keys that contradict each other, `sent` by key the
    prompts that had them."""
    now = clock.now()
    of_fact: dict[object, list[FactChange]] = {}
    for change in changes:
        of_fact.setdefault(change.fact_id, []).append(change)
    known = [known_spans(fact, of_fact.get(fact.pk, ())) for fact in facts]
    valid: list[Span] = [(fact.valid_from, fact.valid_until) for fact in facts]
    moments = [moment for span in (*(each for spans in known for each in spans), *valid) for moment in span if moment]
    first = min([*moments, now])
    began: dict[object, datetime] = {fact.pk: fact.recorded_at for fact in facts}
    # An end in a far future would squeeze everything else to nothing: it runs off the axis.
    last = min(max([*moments, now]), now + max(now - first, LONGEST_AHEAD))
    met = [max(began.get(key, first) for key in pair) for pair in contradicted]
    # Of facts that are contradicted and nothing else, little is told of the time before that.
    if met and {key for pair in contradicted for key in pair} >= began.keys() and not any(map(any, valid)):
        first = max(first, min(met) - 2 * (now - min(met)))
    margin = max((last - first) * MARGIN, timedelta(minutes=1))
    begin, end = (first - margin if first - EARLIEST > margin else first), last + margin
    place = span_bars([(now, now)], begin, end)[0].x
    disputed: dict[object, float] = {}
    for pair, overlap in zip(contradicted, met, strict=True):
        disputed |= {key: span_bars([(overlap, overlap)], begin, end)[0].x for key in pair}
    lanes = [
        Lane(
            fact,
            bar,
            # Recorded time ends now; it has no future.
            span_bars([(start, stop or now) for start, stop in spans], begin, end),
            place,
            fact.pk in holding,
            disputed.get(fact.pk),
            fact.recorded_at < begin,
            sent.get(fact.pk, ()),
            [
                (bar.x, at, run)
                for at, run in sent.get(fact.pk, ())
                if at >= begin
                for bar in span_bars([(at, at)], begin, end)
            ],
        )
        for fact, bar, spans in zip(facts, span_bars(valid, begin, end), known, strict=True)
    ]
    return Timeline(lanes, _ticks(begin, end, now, [*moments, *met]), place, begin, end)


def _ticks(begin: datetime, end: datetime, now: datetime, changes: Sequence[datetime]) -> list[tuple[float, datetime]]:
    """The places on the axis that are named: when something changed, and between, where there is room, midnights a
    whole number of days apart; of a short axis, moments at even distances."""
    length = end - begin
    step = timedelta(days=ceil(length / TICKS / timedelta(days=1)))
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    between = [today + number * step for number in range((begin - today) // step + 1, (end - today) // step + 1)]
    if length < SHORT:
        between = [begin + length * number / TICKS for number in range(TICKS)]
    named = [(100 * ((now - begin) / length), now)]
    for moment in (*sorted(changes), *between):
        place = 100 * ((moment - begin) / length)
        near = NEAR_TIMES if length < SHORT else NEAR
        if 0 <= place < 100 and all(abs(place - other) >= near for other, _ in named):
            named.append((place, moment))
    return sorted(named[1:])

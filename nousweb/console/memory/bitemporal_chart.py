"""A fact's valid and recorded time as a drawing: when it was true, and when the agent held it to be true."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from memory.models import Fact, FactChange
from nousweb.console.common.charts import SpanBar, span_bars
from nousweb.lib import clock

EARLIEST = datetime.min.replace(tzinfo=UTC)
LONGEST_AHEAD = timedelta(days=30)
Span = tuple[datetime | None, datetime | None]
MARGIN = 0.04
"""Share of the axis left empty at its ends, for open intervals."""


@dataclass(frozen=True, slots=True)
class BitemporalSpans:
    """Both spans on one axis. `never` says that the fact was found to be wrong, so that its span counts no more."""

    begin: datetime
    end: datetime
    valid: list[SpanBar]
    known: list[SpanBar]
    now: float
    never: bool


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


def bitemporal_spans(fact: Fact, changes: Iterable[FactChange]) -> BitemporalSpans:
    """The drawing of a fact, from its first moment to now or its last."""
    known = known_spans(fact, changes)
    valid: list[Span] = [(fact.valid_from, fact.valid_until)]
    moments = [moment for span in (*known, *valid) for moment in span if moment]
    now = clock.now()
    first = min([*moments, now])
    # An end in a far future would squeeze everything else to nothing: it runs off the axis.
    last = min(max([*moments, now]), now + max(now - first, LONGEST_AHEAD))
    margin = max((last - first) * MARGIN, timedelta(minutes=1))
    begin, end = (first - margin if first - EARLIEST > margin else first), last + margin
    return BitemporalSpans(
        begin=begin,
        end=end,
        valid=span_bars(valid, begin, end),
        # Recorded time ends now; it has no future.
        known=[
            bar if span[1] else replace(bar, end=None)
            for span, bar in zip(
                known, span_bars([(start, stop or now) for start, stop in known], begin, end), strict=True
            )
        ],
        now=span_bars([(now, now)], begin, end)[0].x,
        never=fact.invalidated_at is not None,
    )

"""Context calls of agents: numbers, sizes, durations and outcomes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import Aggregate, Avg, BooleanField, Count, ExpressionWrapper, FloatField, Q, QuerySet, Sum, Value
from django.db.models.functions import TruncDate

from context.feedback.figure_snapshots import snapshot_put
from context.models import ContextRun, FigureSnapshot, MemoryUsage
from identity.models import Agent, Persona
from nousweb.console.common import ChartColumn, bars
from nousweb.console.home.period import CHOICES, DAY, ENOUGH, LEAST_POINTS, STAND_IN_END, Period, Trend
from nousweb.lib import clock
from nousweb.lib.prepared_statements import CachedQuery

NAME = "usage by day"
_SUMS = {"included": Sum("tokens"), "referenced": Sum("tokens", filter=Q(referenced=True))}


def reference_shares(
    personas: tuple[str, ...], agent: Agent | None, period: Period, snapshot: FigureSnapshot | None
) -> dict[str, Trend]:
    """Shares in percent by section; "" is all of them. One query.

    `snapshot` has the sums of whole days that `usage_refresh` stored; only other times are summed here.
    """
    included: Counter[tuple[str, bool]] = Counter()
    referenced: Counter[tuple[str, bool]] = Counter()
    since, since_before = period.start, period.earlier
    if snapshot and period.step == DAY:
        counted = _midnight(date.fromisoformat(snapshot.value["until"]))
        since = max(since, counted)
        since_before = max(since_before, min(counted, _midnight((period.end - period.length).date())))
        for day, section, included_tokens, referenced_tokens in snapshot.value["days"]:
            moment = _midnight(date.fromisoformat(day))
            if period.start <= moment < since or period.earlier <= moment < since_before:
                included[section, moment < period.start] += included_tokens
                referenced[section, moment < period.start] += referenced_tokens
    live: Any = _of(personas, agent).filter(
        Q(at__gte=since, at__lt=period.end) | Q(at__gte=since_before, at__lt=period.end - period.length)
    )
    is_before = ExpressionWrapper(Q(at__lt=period.start), output_field=BooleanField())
    for row in live.values("section", before=is_before).annotate(**_SUMS):
        included[row["section"], row["before"]] += row["included"]
        referenced[row["section"], row["before"]] += row["referenced"] or 0
    for sums in (included, referenced):
        for before in (False, True):
            sums["", before] = sum(number for (_, which), number in sums.items() if which == before)

    def share(section: str, *, before: bool) -> float | None:
        return percent(referenced[section, before], included[section, before])

    sections = {section for section, _ in included}
    return {
        section: Trend(share(section, before=False), share(section, before=True), points=True) for section in sections
    }


def usage_refresh(agent: Agent | None, *, both: bool) -> None:
    """Store the sums of the usage of each whole day that a page may show."""
    personas = tuple(Persona.values) if both else (Persona.ACTOR.value,)
    until = _midnight(clock.now().date())
    rows: Any = _of(personas, agent).filter(at__gte=until - 2 * max(CHOICES) * DAY, at__lt=until)
    by_day = rows.annotate(day=TruncDate("at")).values("day", "section").annotate(**_SUMS)
    days = [[row["day"].isoformat(), row["section"], row["included"], row["referenced"] or 0] for row in by_day]
    snapshot_put(NAME, agent.pk if agent else None, {"until": until.date().isoformat(), "days": days}, both=both)


def percent(part: float | None, whole: float | None) -> float | None:
    """Share of `part` in `whole`, 0 to 100; None if `whole` is 0 or None."""
    return round(100 * (part or 0) / whole, 1) if whole else None


def _of(personas: tuple[str, ...], agent: Agent | None) -> QuerySet[MemoryUsage, Any]:
    found = MemoryUsage.objects.filter(persona__in=personas).order_by()
    return found.filter(agent=agent) if agent else found


def _midnight(day: date) -> datetime:
    """The beginning of a day, as in periods."""
    return datetime.combine(day, time(), tzinfo=UTC)


CHART_HEIGHT = 76.0
SECTION_WIDTH = 100.0
RUNS_READ = 200
"""The latest calls of a period whose sections are read: they lie in documents, which are costly to open."""
TICKS = 6
VALUES_SHOWN = 7
"""Up to so many columns, each has its number above it; else only the greatest and the last one."""


class P95(Aggregate):
    """The value that 95 % do not exceed."""

    function = "percentile_cont"
    template = "%(function)s(0.95) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()


@dataclass(frozen=True, slots=True)
class Column:
    """One hour or day: calls now and before, and the mean size of a prompt."""

    label: str
    calls: int
    calls_before: int
    tokens: float | None
    tokens_before: float | None


@dataclass(frozen=True, slots=True)
class SectionUse:
    """One section of the prompts: tokens in a mean call, and the share of its memories that answers referred to.

    `share` is of tokens, in percent; None if no answer was reported, or the section holds no memories.
    """

    label: str
    tokens: Trend
    share: Trend
    width: float
    referenced_width: float

    @property
    def referenced(self) -> float | None:
        return None if self.share.now is None else (self.tokens.now or 0) * self.share.now / 100

    @property
    def summary(self) -> str:
        """The bar of this section in words: "120 tokens a prompt, 40 % referenced"."""
        tokens = round(self.tokens.now or 0)
        words = f"{tokens} token{'' if tokens == 1 else 's'} a prompt"
        return words if self.share.now is None else f"{words}, {self.share.now:.0f} % referenced"


@dataclass(frozen=True, slots=True)
class Calls:
    """Everything about calls in one period, beside the one before."""

    calls: Trend
    tokens: Trend
    p95: Trend
    answered: Trend
    referenced: Trend
    success: Trend
    columns: list[Column]
    call_columns: list[ChartColumn]
    token_columns: list[ChartColumn]
    when: str
    sections: list[SectionUse]
    runs_read: int
    failed_sections: int

    @property
    def busiest(self) -> Column:
        return max(self.columns, key=lambda column: column.calls)

    @property
    def drawn(self) -> bool:
        """Whether there are points enough for a chart; else `when` tells of them."""
        return sum(column.calls > 0 for column in self.columns) >= LEAST_POINTS

    @property
    def trends(self) -> dict[str, Trend]:
        """The trends of the figures by name, where both periods have calls enough for one."""
        names = ("calls", "tokens", "p95", "answered", "referenced", "success")
        return {name: getattr(self, name) for name in names} if self.compares else {}

    @property
    def compares(self) -> bool:
        """Whether both periods have so many calls that their means can be compared."""
        return min(self.calls.now or 0, self.calls.before or 0) >= ENOUGH

    @property
    def tokens_range(self) -> tuple[float, float] | None:
        """The least and the greatest mean of an hour or day; None where there was no call."""
        means = [column.tokens for column in self.columns if column.tokens is not None]
        return (min(means), max(means)) if means else None


def context_calls(
    personas: tuple[str, ...], agent: Agent | None, period: Period, snapshot: FigureSnapshot | None
) -> Calls:
    """Figures of both periods. Four queries: the totals, the series, the latest calls' sections, and the usage.

    `snapshot` is for `reference_shares`.
    """
    runs = ContextRun.objects.filter(period.within_both("created_at"), persona__in=personas).order_by()
    if agent:
        runs = runs.filter(agent=agent)
    totals = _totals(personas, agent, period)
    shares = reference_shares(personas, agent, period, snapshot)
    sections, runs_read, failed = _sections(personas, agent, period, shares)
    columns = _columns(runs, period)
    call_columns, token_columns = _chart_columns(columns, period)

    def trend(name: str) -> Trend:
        return Trend(totals[name], totals[f"{name}_before"])

    def share_trend(part: str, whole: str) -> Trend:
        return Trend(
            percent(totals[part], totals[whole]),
            percent(totals[f"{part}_before"], totals[f"{whole}_before"]),
            points=True,
        )

    return Calls(
        calls=trend("calls"),
        tokens=trend("mean_tokens"),
        p95=trend("p95"),
        answered=share_trend("answered", "calls"),
        referenced=shares.get("", Trend(None, None)),
        success=share_trend("success", "ended"),
        columns=columns,
        call_columns=call_columns,
        token_columns=token_columns,
        when=period.words([column.calls for column in columns]),
        sections=sections,
        runs_read=runs_read,
        failed_sections=failed,
    )


_STAND_IN = Period(7, STAND_IN_END)


def _measures(period: Period) -> dict[str, Any]:
    measures: dict[str, Any] = {}
    for suffix, which in (("", period.within("created_at")), ("_before", period.within_before("created_at"))):
        measures |= {
            f"calls{suffix}": Count("created_at", filter=which),
            f"mean_tokens{suffix}": Avg("tokens", filter=which, output_field=FloatField()),
            f"p95{suffix}": P95("duration_ms", filter=which),
            f"answered{suffix}": Count("created_at", filter=which & Q(responded_at__isnull=False)),
            f"ended{suffix}": Count("created_at", filter=which & ~Q(outcome="")),
            f"success{suffix}": Count("created_at", filter=which & Q(outcome=ContextRun.Outcome.SUCCESS)),
        }
    return measures


MEASURES = _measures(_STAND_IN)


def _totals_row(shape: tuple[tuple[str, ...], bool], agent: int, **bounds: datetime) -> QuerySet[ContextRun, Any]:
    personas, of_agent = shape
    found = ContextRun.objects.filter(_STAND_IN.within_both("created_at"), persona__in=personas).order_by()
    found = found.filter(agent=agent) if of_agent else found
    return found.values_list(Value("calls")).annotate(**MEASURES).values_list(*MEASURES)


_TOTALS = CachedQuery(_totals_row, agent=-1, **_STAND_IN.bounds)


def _totals(personas: tuple[str, ...], agent: Agent | None, period: Period) -> dict[str, Any]:
    """The figures of both periods by name. Writing the query takes longer than its answer."""
    shape = (personas, agent is not None)
    rows = _TOTALS.rows(shape, agent=agent.pk if agent else 0, **period.bounds)
    found = (float(value) if isinstance(value, Decimal) else value for value in rows[0])
    return dict(zip(MEASURES, found, strict=True))


def _columns(runs: QuerySet[ContextRun], period: Period) -> list[Column]:
    rows = list(
        runs.annotate(bucket=period.bucket("created_at")).values("bucket").annotate(n=Count("*"), tokens=Sum("tokens"))
    )
    counts = [(row["bucket"], row["n"]) for row in rows]
    sums = [(row["bucket"], row["tokens"]) for row in rows]
    calls, calls_before = period.spread(counts), period.spread_before(counts)
    means = _means(period.spread(sums), calls)
    means_before = _means(period.spread_before(sums), calls_before)
    return [
        Column(
            label=period.name(moment),
            calls=int(calls[number]),
            calls_before=int(calls_before[number]),
            tokens=means[number],
            tokens_before=means_before[number],
        )
        for number, moment in enumerate(period.moments)
    ]


def _chart_columns(columns: list[Column], period: Period) -> tuple[list[ChartColumn], list[ChartColumn]]:
    """The columns of the chart of calls, and of that of tokens."""
    calls = [
        (column.calls, f"{column.calls:,}", f"{column.calls:,} call{'' if column.calls == 1 else 's'}")
        for column in columns
    ]
    tokens = [(column.tokens or 0, f"{column.tokens or 0:,.0f}", _mean_words(column.tokens)) for column in columns]
    before = (
        [f"{column.calls_before:,}" for column in columns],
        [_mean_words(column.tokens_before) for column in columns],
    )
    return _drawn(calls, before[0], columns, period), _drawn(tokens, before[1], columns, period)


def _mean_words(tokens: float | None) -> str:
    return "none" if tokens is None else f"≈ {tokens:,.0f} tokens"


def _drawn(
    values: Sequence[tuple[float, str, str]], before: Sequence[str], columns: list[Column], period: Period
) -> list[ChartColumn]:
    """One column of a chart for each value: the number, as it stands above it, and in words."""
    every, last = max(1, round(len(values) / TICKS)), len(values) - 1
    numbers = [number for number, _, _ in values]
    greatest = numbers.index(max(numbers))
    shapes = bars(numbers, CHART_HEIGHT, top=max(numbers), gap=0.55)
    places = bars([1] * len(values), CHART_HEIGHT, top=1, gap=0)
    return [
        ChartColumn(
            title=f"{column.label}: {words}. {CHOICES[period.days]} earlier: {earlier}",
            place=place,
            tick=period.short(moment) if (last - number) % every == 0 else "",
            bar=bar,
            value=value if len(values) <= VALUES_SHOWN or number in (greatest, last) else "",
            is_last=number == last,
        )
        for number, (column, moment, (_, value, words), earlier, bar, place) in enumerate(
            zip(columns, period.moments, values, before, shapes, places, strict=True)
        )
    ]


def _means(sums: list[float], counts: list[float]) -> list[float | None]:
    return [total / count if count else None for total, count in zip(sums, counts, strict=True)]


_LATEST = """
SELECT sections, failed_sections FROM context_contextrun
WHERE created_at >= %s AND created_at < %s AND persona = ANY(%s) AND (%s::bigint IS NULL OR agent_id = %s)
ORDER BY created_at DESC LIMIT %s
"""
_SECTIONS = f"""
WITH latest AS ({_LATEST}), earlier AS ({_LATEST}), counts AS (
    SELECT (SELECT count(*) FROM latest) AS n, (SELECT count(*) FROM earlier) AS n_before,
           (SELECT count(*) FROM latest WHERE failed_sections <> '[]') AS failed
)
SELECT label, sum(tokens) FILTER (WHERE now), sum(tokens) FILTER (WHERE NOT now), n, n_before, failed, max(tier)
FROM counts LEFT JOIN (
    SELECT true AS now, part->>'label' AS label, (part->>'tokens')::int AS tokens, (part->>'tier')::int AS tier
    FROM latest, jsonb_array_elements(sections) AS part
    UNION ALL
    SELECT false, part->>'label', (part->>'tokens')::int, (part->>'tier')::int
    FROM earlier, jsonb_array_elements(sections) AS part
) AS parts ON true
GROUP BY label, n, n_before, failed ORDER BY max(tier), 2 DESC NULLS LAST, label
"""  # noqa: S608  (only the constant above)


def _sections(
    personas: tuple[str, ...], agent: Agent | None, period: Period, shares: dict[str, Trend]
) -> tuple[list[SectionUse], int, int]:
    """Each section of the latest calls, how many calls were read, and in how many a section failed to load."""
    key = agent.pk if agent else None
    scope = [list(personas), key, key, RUNS_READ]
    values = [period.start, period.end, *scope, period.earlier, period.end - period.length, *scope]
    with connection.cursor() as cursor:
        cursor.execute(_SECTIONS, values)
        rows = cursor.fetchall()
    read, read_before, failed = rows[0][3:6]
    found = [(label, tokens or 0, before) for label, tokens, before, *_ in rows if label]
    # One that is long gone from the prompts is no news.
    means = [(label, tokens / read if read else 0, before) for label, tokens, before in found if tokens]
    longest = max((mean for _, mean, _ in means), default=0)
    sections = []
    for label, mean, before in means:
        share = shares.get(label, Trend(None, None))
        width = round(SECTION_WIDTH * mean / longest, 3) if longest else 0.0
        sections.append(
            SectionUse(
                label=label,
                tokens=Trend(mean, (before or 0) / read_before if read_before else None),
                share=share,
                width=width,
                referenced_width=round(width * (share.now or 0) / 100, 3),
            )
        )
    return sections, read, failed

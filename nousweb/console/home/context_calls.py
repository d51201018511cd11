"""Context calls of agents: numbers, sizes, durations and outcomes."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import Aggregate, Avg, BooleanField, Count, ExpressionWrapper, FloatField, Q, QuerySet, Sum, Value
from django.db.models.functions import TruncDate

from context.feedback.health_score import snapshot_put
from context.models import NOT_SUPPORTED, ContextRun, FigureSnapshot, MemoryUsage
from identity.models import Agent, Persona
from nousweb.console.common import Chart, ChartPoint, chart, section_label
from nousweb.console.context.presentation import COLOURS
from nousweb.console.home.period import CHOICES, DAY, ENOUGH, STAND_IN_END, Figure, Period, Trend
from nousweb.lib import clock
from nousweb.lib.prepared_statements import CachedQuery

NAME = "usage by day"
_SUMS = {"included": Sum("tokens"), "referenced": Sum("tokens", filter=Q(referenced=True))}


def reference_shares(
    personas: tuple[str, ...], agent: Agent | None, period: Period, snapshot: FigureSnapshot | None
) -> tuple[dict[str, Trend], list[float | None], list[float | None]]:
    """Shares in percent by section, of which "" is all of them, and of each hour or day, also of the period before.
    One query.

    `snapshot` has the sums of whole days that `usage_refresh` stored; only other times are summed here.
    """
    included: Counter[tuple[str, bool]] = Counter()
    referenced: Counter[tuple[str, bool]] = Counter()
    moments_before = [moment - period.length for moment in period.moments]
    by_step: dict[datetime, Counter[str]] = {moment: Counter() for moment in (*moments_before, *period.moments)}
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
                if moment in by_step:
                    by_step[moment].update(included=included_tokens, referenced=referenced_tokens)
    live: Any = _of(personas, agent).filter(
        Q(at__gte=since, at__lt=period.end) | Q(at__gte=since_before, at__lt=period.end - period.length)
    )
    is_before = ExpressionWrapper(Q(at__lt=period.start), output_field=BooleanField())
    for row in live.values("section", before=is_before, step=period.bucket("at")).annotate(**_SUMS):
        included[row["section"], row["before"]] += row["included"]
        referenced[row["section"], row["before"]] += row["referenced"] or 0
        if row["step"] in by_step:
            by_step[row["step"]].update(included=row["included"], referenced=row["referenced"] or 0)
    for sums in (included, referenced):
        for before in (False, True):
            sums["", before] = sum(number for (_, which), number in sums.items() if which == before)

    def share(section: str, *, before: bool) -> float | None:
        return percent(referenced[section, before], included[section, before])

    sections = {section for section, _ in included}
    trends = {
        section: Trend(share(section, before=False), share(section, before=True), points=True) for section in sections
    }
    steps = [percent(sums["referenced"], sums["included"]) for sums in by_step.values()]
    return trends, steps[len(moments_before) :], steps[: len(moments_before)]


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
    return round(100 * (part or 0) / whole, 2) if whole else None


def _of(personas: tuple[str, ...], agent: Agent | None) -> QuerySet[MemoryUsage, Any]:
    found = MemoryUsage.objects.filter(persona__in=personas).order_by()
    return found.filter(agent=agent) if agent else found


def _midnight(day: date) -> datetime:
    """The beginning of a day, as in periods."""
    return datetime.combine(day, time(), tzinfo=UTC)


DEFAULT_CHART = "calls"
RUNS_READ = 200
"""The latest calls of a period whose sections are read: they lie in documents, which are costly to open."""


class P95(Aggregate):
    """The value that 95 % do not exceed."""

    function = "percentile_cont"
    template = "%(function)s(0.95) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()


@dataclass(frozen=True, slots=True)
class Column:
    """One hour or day: calls, the mean size of a prompt, and the milliseconds that 95 % did not exceed, now and
    before; of now also the calls with a reported answer, with a success (`doubtful`: a memory says something else than
    the answer), and with a failure."""

    label: str
    calls: int
    calls_before: int
    tokens: float | None
    tokens_before: float | None
    p95: float | None
    p95_before: float | None
    answered: int
    success: int
    doubtful: int
    failure: int


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
    def summary(self) -> str:
        """The bar of this section in words: "120 tokens a prompt, 40 % referenced"."""
        tokens = round(self.tokens.now or 0)
        words = f"{tokens} token{'' if tokens == 1 else 's'} a prompt"
        return words if self.share.now is None else f"{words}, {self.share.now:.0f} % referenced"


@dataclass(frozen=True, slots=True)
class Drawing:
    """The chart of a figure: the figure's `key`, the heading, what the whole says (`words`), also `said` where that is
    more than the figure, and the chart."""

    key: str
    label: str
    words: str
    said: str
    chart: Chart


@dataclass(frozen=True, slots=True)
class Calls:
    """Everything about calls in one period, beside the one before; `compares`: both have so many that their means can
    be compared."""

    calls: Trend
    trends: dict[str, Trend]
    compares: bool
    columns: list[Column]
    figures: list[Figure]
    drawing: Drawing
    sections: list[SectionUse]
    runs_read: int
    failed_sections: int


def context_calls(
    personas: tuple[str, ...], agent: Agent | None, period: Period, snapshot: FigureSnapshot | None, drawn: str
) -> Calls:
    """Figures of both periods, with the chart of the one that is `drawn`. Four queries: the totals, the series, the
    latest calls' sections, and the usage.

    `snapshot` is for `reference_shares`.
    """
    runs = ContextRun.objects.filter(period.within_both("created_at"), persona__in=personas).order_by()
    if agent:
        runs = runs.filter(agent=agent)
    totals = _totals(personas, agent, period)
    shares, *shares_by_step = reference_shares(personas, agent, period, snapshot)
    sections, runs_read, failed, by_step = _sections(personas, agent, period, shares)
    columns = _columns(runs, period)

    def trend(name: str, unit: str = "") -> Trend:
        return Trend(totals[name], totals[f"{name}_before"], unit=unit)

    def share_trend(part: str, whole: str) -> Trend:
        return Trend(
            percent(totals[part], totals[whole]),
            percent(totals[f"{part}_before"], totals[f"{whole}_before"]),
            points=True,
        )

    trends = {
        "calls": trend("calls"),
        "tokens": trend("mean_tokens"),
        "p95": trend("p95", " ms"),
        "answered": share_trend("answered", "calls"),
        "referenced": shares.get("", Trend(None, None)),
        "success": share_trend("success", "ended"),
    }
    compares = min(trends["calls"].now or 0, trends["calls"].before or 0) >= ENOUGH
    figures = _figures(trends, int(totals["ended"]), compares=compares)
    figure = next((one for one in figures if one.key == drawn), figures[0])
    return Calls(
        calls=trends["calls"],
        trends=trends,
        compares=compares,
        columns=columns,
        figures=figures,
        drawing=_drawing(figure, columns, by_step, shares_by_step, period, compares=compares),
        sections=sections,
        runs_read=runs_read,
        failed_sections=failed,
    )


def _figures(trends: dict[str, Trend], ended: int, *, compares: bool) -> list[Figure]:
    """The figures of a period, of whose calls so many have `ended`, as was reported; with trends only where both
    periods have calls enough for them."""

    def figure(label: str, key: str, unit: str, about: str = "", sign: str = "", good: str = "") -> Figure:
        now, trend = trends[key].now, trends[key] if compares else None
        value = "–" if now is None else f"{about}{now:,.0f}{sign}"
        return Figure(label, value, unit, trend=trend, key=key, good=good)

    return [
        figure("Prompts", "calls", ""),
        figure("Mean prompt", "tokens", "tokens", "≈ "),
        figure("95th percentile of time", "p95", "ms", good="↓"),
        figure("Answers reported", "answered", f"of {_prompts(int(trends['calls'].now or 0))}", sign=" %"),
        figure("Referenced in answers", "referenced", "of tokens", sign=" %", good="↑"),
        figure("Reported success", "success", f"of {ended:,} reported", sign=" %", good="↑"),
    ]


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
    [row] = _TOTALS.rows(shape, agent=agent.pk if agent else 0, **period.bounds)
    return {
        name: float(value) if isinstance(value, Decimal) else value for name, value in zip(MEASURES, row, strict=True)
    }


COUNTED = ("calls", "answered", "success", "doubtful", "failure")
"""What the columns count."""


def _columns(runs: QuerySet[ContextRun], period: Period) -> list[Column]:
    rows = (
        runs.annotate(bucket=period.bucket("created_at"))
        .values("bucket")
        .annotate(
            calls=Count("*"),
            tokens=Avg("tokens", output_field=FloatField()),
            p95=P95("duration_ms"),
            answered=Count("created_at", filter=Q(responded_at__isnull=False)),
            success=Count("created_at", filter=(succeeded := Q(outcome=ContextRun.Outcome.SUCCESS))),
            doubtful=Count("created_at", filter=succeeded & ContextRun.DOUBT),
            failure=Count("created_at", filter=Q(outcome=ContextRun.Outcome.FAILURE)),
        )
    )
    found: dict[datetime, dict[str, Any]] = {row["bucket"]: {**row} for row in rows}
    nothing: dict[str, Any] = {"tokens": None, "p95": None, **dict.fromkeys(COUNTED, 0)}
    return [
        Column(
            label=period.name(moment),
            calls_before=before["calls"],
            tokens=day["tokens"],
            tokens_before=before["tokens"],
            p95=day["p95"],
            p95_before=before["p95"],
            **{name: day[name] for name in COUNTED},
        )
        for moment in period.moments
        for day, before in [[found.get(at, nothing) for at in (moment, moment - period.length)]]
    ]


SECTIONS_DRAWN = 6
"""More sections are drawn as one."""


def _drawing(
    figure: Figure,
    columns: list[Column],
    by_step: dict[datetime, Counter[str]],
    shares: list[list[float | None]],
    period: Period,
    *,
    compares: bool,
) -> Drawing:
    """The chart of a figure. Outcomes and answers are counted, so that their failures are seen, the mean prompt is made
    of the greatest sections."""
    legend: list[tuple[str, str]] = []
    parts: list[tuple[tuple[str, float], ...]] = [()] * len(columns)
    sign, unit, others = "", "prompts", ""
    of_prompts = [(float(one.calls), _prompts(one.calls), f"{one.calls_before:,}") for one in columns]
    values: list[tuple[float | None, str, str]] = [*of_prompts]
    label = f"Prompts by {period.step_label}"
    if figure.key == "calls" and (failed := sum(one.failure for one in columns)):
        legend = [(f"{failed:,} failed", "chart-failed")]
        succeeded, rest = sum(one.success for one in columns), sum(one.calls for one in columns) - failed
        others = f"{rest:,} {'succeeded' if rest == succeeded else 'without a failure'}"
        # Those with a failure are on top of the others.
        looks = ["chart-bar"] * (len(columns) - 1) + ["chart-bar is-last"]
        parts = [
            ((look, float(one.calls - one.failure)), ("chart-failed", float(one.failure)))
            for look, one in zip(looks, columns, strict=True)
        ]
        values = [
            (now, f"{said}, {one.failure:,} failed" if one.failure else said, said_before)
            for one, (now, said, said_before) in zip(columns, of_prompts, strict=True)
        ]
    elif figure.key == "tokens":
        label = "Tokens of a mean prompt by section"
        values = [
            (one.tokens, _measured(one.tokens, " tokens", "≈ "), _measured(one.tokens_before, " tokens", "≈ "))
            for one in columns
        ]
        legend, parts = _section_parts(by_step, period)
    elif figure.key == "p95":
        label, sign = "Milliseconds that 95 % of the prompts did not exceed", " ms"
        values = [(one.p95, _measured(one.p95, sign), _measured(one.p95_before, sign)) for one in columns]
    elif figure.key == "referenced":
        label, sign, unit = "Share of the tokens that answers refer to", " %", "a reference"
        values = [(now, _measured(now, sign), _measured(before, sign)) for now, before in zip(*shares, strict=True)]
    elif figure.key in ("answered", "success"):
        label = (
            "Prompts by reported outcome" if figure.key == "success" else "Prompts with and without a reported answer"
        )
        counts = [_counted(one, figure.key) for one in columns]
        sums = [(sum(day[place][2] for day in counts), *one[:2]) for place, one in enumerate(counts[0])]
        legend = [(f"{number:,} {name.lower()}", look) for number, name, look in sums if number]
        parts = [tuple((look, float(number)) for _, look, number in day) for day in counts]
        values = [
            (now, f"{said} ({', '.join(f'{number:,} {name.lower()}' for name, _, number in day if number)})", "")
            if now else (now, said, "")
            for (now, said, _), day in zip(of_prompts, counts, strict=True)
        ]  # fmt: skip
    points = [
        ChartPoint(one.label, period.short(moment), now, said, said_before if compares else "", made)
        for one, moment, (now, said, said_before), made in zip(columns, period.moments, values, parts, strict=True)
    ]
    drawn = chart(
        points, step=period.step_label, unit=unit, every=period.label, ago=CHOICES[period.days],
        sign=" %" if sign == " %" else "",
    )  # fmt: skip
    if legend:
        drawn = replace(drawn, every=others, parts=tuple(legend))
    change = (
        figure.trend.sentence(period.before_label, less="fewer" if figure.key == "calls" else "less")
        if figure.trend
        else ""
    )
    total = {"calls": "in total", "tokens": "tokens on average"}.get(figure.key, figure.unit)
    words = ", ".join(filter(None, (f"{figure.value} {total}", change))) if figure.value != "–" else ""
    return Drawing(figure.key, label, words, words if change else "", drawn)


def _counted(column: Column, key: str) -> tuple[tuple[str, str, int], ...]:
    """What the prompts of an hour or day were: by name the class and the number, the first at the bottom."""
    if key == "answered":
        return ("With an answer", "chart-bar", column.answered), (
            "Without",
            "chart-rest",
            column.calls - column.answered,
        )
    return (
        ("Succeeded", "chart-bar", column.success - column.doubtful),
        (NOT_SUPPORTED, "seg-3", column.doubtful),
        ("Not reported", "chart-rest", column.calls - column.success - column.failure),
        ("Failed", "chart-failed", column.failure),
    )


def _section_parts(
    by_step: dict[datetime, Counter[str]], period: Period
) -> tuple[list[tuple[str, str]], list[tuple[tuple[str, float], ...]]]:
    """The labels and classes of the greatest sections, and their sizes in each hour or day."""
    greatest = [label for label, _ in sum(by_step.values(), Counter()).most_common(SECTIONS_DRAWN)]
    looks = {section_label(key): look for key, look in COLOURS.items()}

    def parts(moment: datetime) -> tuple[tuple[str, float], ...]:
        sizes = by_step.get(moment, Counter())
        rest = sum(sizes.values()) - sum(sizes[label] for label in greatest)
        return (*((looks.get(label, "seg-8"), sizes[label]) for label in greatest), ("seg-rest", rest)) if sizes else ()

    legend = [*((label, looks.get(label, "seg-8")) for label in greatest), ("Other sections", "seg-rest")]
    return legend if greatest else [], [parts(moment) for moment in period.moments]


def _prompts(number: int) -> str:
    return f"{number:,} prompt{'' if number == 1 else 's'}"


def _measured(value: float | None, unit: str, about: str = "") -> str:
    return "none" if value is None else f"{about}{value:,.0f}{unit}"


_LATEST = """
SELECT sections, failed_sections, created_at FROM context_contextrun
WHERE created_at >= %s AND created_at < %s AND persona = ANY(%s) AND (%s::bigint IS NULL OR agent_id = %s)
ORDER BY created_at DESC LIMIT %s
"""
_SECTIONS = f"""
WITH latest AS ({_LATEST}), earlier AS ({_LATEST}), counts AS (
    SELECT (SELECT count(*) FROM latest) AS n, (SELECT count(*) FROM earlier) AS n_before,
           (SELECT count(*) FROM latest WHERE failed_sections <> '[]') AS failed
)
SELECT n, n_before, failed, label, step, sum(tokens), max(tier)
FROM counts LEFT JOIN (
    SELECT date_trunc(%s, created_at, 'UTC') AS step, part->>'label' AS label, (part->>'tokens')::int AS tokens,
           (part->>'tier')::int AS tier
    FROM latest, jsonb_array_elements(sections) AS part
    UNION ALL
    SELECT NULL, part->>'label', (part->>'tokens')::int, (part->>'tier')::int
    FROM earlier, jsonb_array_elements(sections) AS part
) AS parts ON true
GROUP BY n, n_before, failed, label, step
"""  # noqa: S608  (only the constant above)


def _sections(
    personas: tuple[str, ...], agent: Agent | None, period: Period, shares: dict[str, Trend]
) -> tuple[list[SectionUse], int, int, dict[datetime, Counter[str]]]:
    """Each section of the latest calls, how many calls were read, in how many a section failed to load, and the tokens
    of sections by hour or day."""
    scope = [list(personas), *[agent.pk if agent else None] * 2, RUNS_READ]
    values = [period.start, period.end, *scope, period.earlier, period.end - period.length, *scope, period.step_label]
    with connection.cursor() as cursor:
        cursor.execute(_SECTIONS, values)
        rows = cursor.fetchall()
    read, read_before, failed = rows[0][:3]
    now: Counter[str] = Counter()
    earlier: Counter[str] = Counter()
    tiers: dict[str, int] = {}
    by_step: dict[datetime, Counter[str]] = {}
    for *_, label, step, tokens, tier in rows:
        if label is None:
            continue
        tiers[label] = max(tier, tiers.get(label, tier))
        if step is None:
            earlier[label] += tokens
        else:
            now[label] += tokens
            by_step.setdefault(step, Counter())[label] += tokens
    # One that is long gone from the prompts is no news.
    found = sorted((label for label, tokens in now.items() if tokens), key=lambda one: (tiers[one], -now[one], one))
    means = [(label, now[label] / read, earlier[label]) for label in found]
    longest = max((mean for _, mean, _ in means), default=0)
    sections = []
    for label, mean, before in means:
        share = shares.get(label, Trend(None, None))
        width = round(100 * mean / longest, 3) if longest else 0.0
        sections.append(
            SectionUse(
                label=label,
                tokens=Trend(mean, before / read_before if read_before else None),
                share=share,
                width=width,
                referenced_width=round(width * (share.now or 0) / 100, 3),
            )
        )
    return sections, read, failed, by_step

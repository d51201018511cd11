"""The small parts that pages repeat most: times, badges, buttons, and the head of a table."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise, repeat
from typing import Any

from django import template
from django.forms import BoundField
from django.middleware.csrf import get_token
from django.template.defaultfilters import floatformat
from django.urls import reverse
from django.utils.html import conditional_escape, escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst

from nousweb.console.common import SHORTCUTS, Chart, ChartColumn, Column, Title, bars
from nousweb.console.common.charts import Segment, told_places
from nousweb.console.common.list_page import ASCENDING
from nousweb.console.templatetags.console import EXACT, age_or_day, ago, dt, kbd, localtime, plain, tokens, when
from nousweb.console.templatetags.console import count as grouped
from nousweb.console.templatetags.visible import coded, shown, shown_plain

register = template.Library()


@register.simple_tag(name="time")
def time_of(
    at: datetime | None, empty: str = "never", prefix: str = "", aged: bool = False, clock: bool = False
) -> SafeString:
    """A moment: by its age within a week, else its day; as its day and time where that may not change or the order of
    one day counts (`clock`), also with its age (`aged`). The exact time is the tooltip."""
    if not at:
        return _faint(empty)
    words = f"{prefix} {when(at) if aged or clock else age_or_day(at)}{f' ({ago(at)})' if aged else ''}"
    local = localtime(at)
    written = f'datetime="{local.isoformat(timespec="seconds")}" title="{local:{EXACT}}"'
    return format_html('<time class="nowrap" {}>{}</time>', SafeString(written), words.strip())


def _faint(words: str) -> SafeString:
    return format_html('<span class="faint">{}</span>', words)


@register.simple_tag
def said(value: Any, empty: str = "–") -> SafeString | str:
    """A value, a moment as its exact time; `empty`: what stands there in grey for none."""
    if value in (None, ""):
        return _faint(empty)
    return dt(value) if isinstance(value, datetime) else shown(value)


_NOTE = '<a class="note is-{}" href="{}#use-{}" aria-label="Memory {}. {}">{}<span class="note-text">{}\n{}</span></a>'


@register.simple_tag
def footnotes(sources: Mapping[int, dict[str, Any]], notes: Iterable[Any], page: str = "") -> SafeString:
    """The notes of a sentence (Note) as links to the rows of their memories (on `page`), with what they say and the
    texts, which show while the pointer or the focus is there; without any that no memory has its words."""
    links = format_html_join(
        "",
        _NOTE,
        (
            (kind or "shared", page, number, number, told, number, told, shown(sources[number].get("text", "")))
            for number, kind, told, *_ in notes
            if number in sources
        ),
    )
    return links or SafeString(
        '<span class="answer-none" title="Hardly a word of this sentence is in a memory">no memory</span>'
    )


@register.simple_tag
def detail(
    value: Any, before: str = "", after: str = "", look: str = "", of: str = "span", when: Any = True
) -> SafeString:
    """An element (`of`) with a value and the words around it; without a value it is left out, as it is unless `when`
    holds."""
    return (
        format_html("<{0}{1}>{2}{3}{4}</{0}>", of, _html({"class": look}), before, shown(value), after)
        if value and when
        else SafeString("")
    )


@register.simple_tag
def listed(texts: Iterable[Any], look: str = "", item: str = "", of: str = "ul", empty: str = "") -> SafeString:
    """A list (`of`) of texts with its classes and those of its items (`item`); `empty`: what stands there in grey
    without any."""
    items = format_html_join("", f"<li{_html({'class': item})}>{{}}</li>", ((shown(text),) for text in texts))
    return detail(items, look=look, of=of) or detail(empty, look="faint", of="p")


_ARROW = {
    arrow: format_html('<span aria-hidden="true">{} </span><span class="visually-hidden">{} </span>', arrow, way)
    for arrow, way in (("↑", "up"), ("↓", "down"))
} | {"": SafeString("")}


@register.simple_tag
def trend(change: Any, than: str, when: Any = None) -> SafeString:
    """How a figure changed (nousweb.console.home.period.Trend), compared `than` what: the arrow says which way, never
    whether that is good. `when`: only where this holds and the change tells something."""
    if when is not None and not (when and change.tells):
        return SafeString("")
    return format_html(
        '<span class="trend" title="Compared with {}">{}{}{}</span>',
        than,
        _ARROW[change.arrow],
        change.words,
        detail(change.percent, before=" (", after=")", look="faint"),
    )


OUTCOME_KINDS = {"success": "ok", "partial": "warn", "failure": "removed"}


@register.filter
def outcome_kind(outcome: str) -> str:
    """The kind of the badge of an outcome."""
    return OUTCOME_KINDS.get(outcome, "neutral")


@register.simple_tag
def badge(text: Any, kind: str = "neutral", title: str = "", when: Any = True) -> SafeString:
    """A badge in sentence case; kind: neutral, accent, added, removed, warn, block or ok, or of a name key or tag;
    `when`: what it says holds, else it is left out."""
    if not when:
        return SafeString("")
    tooltip = format_html(' title="{}"', shown_plain(title)) if title else ""
    words = text if kind in ("key", "tag") else capfirst(text)
    return format_html('<span class="badge badge-{}"{}>{}</span>', kind, tooltip, shown(words))


@register.simple_tag
def entry(
    label: str,
    value: Any,
    empty: str = "–",
    note: str = "",
    look: str = "",
    page: Any = None,
    query: str = "",
    clock: bool = False,
) -> SafeString:
    """A term of a definition list with its value and a note, a moment with its age, or with its time (`clock`); for
    nothing `empty`, or no entry at all. `look`: classes of the value; `page`, with `query`: where the value leads, as
    of `goto`."""
    if value in (None, "") and not empty:
        return SafeString("")
    if page:
        told: Any = goto(value, page, query=query)
    else:
        told = time_of(value, empty, aged=not clock, clock=clock) if isinstance(value, datetime) else said(value, empty)
    return format_html(
        "<dt>{}</dt> <dd{}>{}{}</dd>",
        label,
        _html({"class": look}),
        told,
        format_html(' <span class="faint">({})</span>', note) if note else "",
    )


_ENDS = '{} <span class="figure-days" aria-hidden="true"><span>{}</span><span>{}</span></span>'


@register.simple_tag
def heads(labels: str, actions: Any = False, list: bool = False, over: Chart | None = None) -> SafeString:
    """The heads of a table ("Type|Size:num|Chart:hidden") with their classes, before its rows. `actions`: the rows end
    with buttons. `list`: keys go through the rows. `over`: the chart over whose time a column "spark-cell" draws."""
    columns = [head.partition(":") for head in labels.split("|")] + [("Actions", ":", "hidden")] * bool(actions)
    cells = SafeString("")
    for label, _, look in columns:
        inside = format_html('<span class="visually-hidden">{}</span>', label) if look == "hidden" else label
        if over and look == "spark-cell":
            inside = format_html(_ENDS, label, over.columns[0].point.tick, over.columns[-1].point.tick)
        class_ = format_html(' class="{}"', look) if look not in ("", "hidden") else ""
        cells += format_html('<th scope="col"{}>{}</th>', class_, inside)
    return format_html("<thead><tr>{}</tr></thead><tbody{}>", cells, SafeString(" data-keylist" * list))


@register.simple_tag(takes_context=True)
def sort_head(context: template.Context, label: str, column: Column | Title, look: str = "") -> SafeString:
    """The head of a column of a list; of one by which the list can be sorted, a link that does so."""
    form = context.get("form")
    asked = form["sort"].value() if form and "sort" in form.fields else ""
    class_ = format_html(' class="{}"', look) if look else ""
    if not asked or not column.sort:
        return format_html('<th scope="col"{}>{}</th>', class_, label)
    place = column.sort.index(asked) + 1 if asked in column.sort else 0
    query = context["request"].GET.copy()
    query["sort"] = column.sort[place % len(column.sort)]
    query.pop("page", None)
    way = "ascending" if asked in ASCENDING else "descending"
    sorted_ = format_html(' aria-sort="{}"', way) if place else ""
    return format_html('<th scope="col"{}{}><a href="?{}">{}</a></th>', class_, sorted_, query.urlencode(), label)


@register.simple_tag(takes_context=True)
def cells(context: template.Context, columns: Sequence[Column], row: Any) -> SafeString:
    """The cells of a row of a list after its first one; what is usual stays empty, but for a ratio."""
    drawn = SafeString("")
    for column in columns:
        if column.look != "ratio" and column.is_usual(row):
            drawn += SafeString("<td></td>")
            continue
        look = "actions" if column.label == "Actions" else "num" if column.is_number else ""
        html = _html({"data-label": column.label, "class": look})
        drawn += format_html("<td{}>{}</td>", html, _cell(context, column, row))
    return drawn


def _cell(context: template.Context, column: Column, row: Any) -> SafeString | str:
    value = column.of(row)
    match column.look:
        case "time":
            return time_of(value)
        case "ratio":
            return str(floatformat(value, 2))
        case "count" | "times":
            return f"{grouped(value)}{'×' if column.look == 'times' else ''}"
        case "text":
            return format_html("<span>{}</span>", coded(value)) if value else _faint(column.empty)
    assert context.template is not None, "a tag is rendered by a template"  # noqa: S101
    told = {"row": row, **{name: context.get(name) for name in ("perms", "request")}}
    return format_html("<span>{}</span>", context.template.engine.get_template(column.look).render(context.new(told)))


@register.inclusion_tag("components/fields.html")
def fields(*given: Any, **look: Any) -> dict[str, Any]:
    """Fields of a form, one by one or many at once; `optional` and `mono`: of all of them."""
    return {"fields": [field for each in given for field in ([each] if isinstance(each, BoundField) else each)], **look}


@register.simple_tag
def unit(field: BoundField) -> SafeString:
    """What stands beside a number that has a unit."""
    words = getattr(field.field, "unit", "")
    return format_html('<span class="unit">{}</span>', words) if words else SafeString("")


@register.simple_tag
def button(
    label: str, name: str = "", value: Any = "", form: str = "", to: str = "", when: Any = True, **look: Any
) -> SafeString:
    """A button that sends the form around it, or `form`, to its page or another (`to`), `when` it shows: its label,
    name, value and look (`_pressed`)."""
    given = {"type": "submit", "name": name, "value": str(value) if name else "", "form": form, "formaction": to}
    return _pressed("button", label, given, **look) if when else SafeString("")


@register.simple_tag(takes_context=True)
def post(
    context: template.Context,
    label: str,
    page: Any = "",
    *address: Any,
    query: str = "",
    when: Any = True,
    form_look: str = "",
    **look: Any,
) -> SafeString:
    """A form that is one button, `when` it shows: its label and page, and what the button has."""
    if not when:
        return SafeString("")
    return postform(context, button(label, **look), page, *address, query=query, look=form_look)


@register.simple_tag
def link(label: str, page: Any, *address: Any, query: str = "", when: Any = True, **look: Any) -> SafeString:
    """A link that looks like a button, `when` it shows: its label, page and look (`_pressed`)."""
    return _pressed("a", label, {"href": _url(page, address, query)}, **look) if when else SafeString("")


def _pressed(
    element: str,
    label: str,
    given: dict[str, Any],
    *,
    look: str = "",
    also: str = "",
    key: str = "",
    key_label: str = "",
    title: str = "",
    rel: str = "",
    current: Any = False,
    first: Any = False,
    unchecked: Any = False,
    aria: str = "",
    of: Any = "",
) -> SafeString:
    """A button or what looks like one, with the key of its shortcut. `also` are further classes; `first`: it is pressed
    first; `unchecked`: it sends its form whatever is missing there; `aria` and `of`: an accessible name, where the
    label says less."""
    given = {
        "class": " ".join(["btn", *(f"btn-{part}" for part in look.split()), *also.split()]),
        **given,
        "formnovalidate": bool(unchecked),
    }
    given |= {"title": shown_plain(title), "rel": rel, "aria-current": current and "true", "data-first": bool(first)}
    if aria or of:
        given["aria-label"] = shown_plain(f"{aria or label} {of}".strip())
    if not key:
        return format_html("<{0}{1}>{2}</{0}>", element, _html(given), shown(label))
    given |= {"data-key": SHORTCUTS[key].key, "data-key-label": shown_plain(key_label)}
    return format_html("<{0}{1}>{2} {3}</{0}>", element, _html(given), shown(label), kbd(key))


def _html(given: Mapping[str, Any]) -> SafeString:
    """The attributes of an element that have a value, as of Django's `flatatt`, which takes three times as long."""
    named = (
        (name, "" if value is True else f'="{conditional_escape(value)}"') for name, value in given.items() if value
    )
    return SafeString("".join(f" {name}{told}" for name, told in named))


@register.simple_block_tag(takes_context=True)
def postform(
    context: template.Context,
    content: str,
    page: Any = "",
    *address: Any,
    query: str = "",
    look: str = "",
    **attributes: Any,
) -> SafeString:
    """A form that is sent to a page: the page, its classes (`look`), other attributes (`_` for `-`), and its parts. It
    has its token also within an include that is given nothing else."""
    given = {"method": "post", "action": _url(page, address, query), "class": look, **attributes}
    html = _html({name.replace("_", "-"): value for name, value in given.items()})
    request = context.request  # type: ignore[attr-defined]
    token = format_html('<input type="hidden" name="csrfmiddlewaretoken" value="{}">', get_token(request))
    return format_html("<form{}>{}{}</form>", html, token, SafeString(content))


@register.simple_tag
def goto(
    label: Any,
    page: Any,
    *address: Any,
    query: str = "",
    look: str = "",
    title: Any = "",
    row: bool = False,
    empty: str = "",
    when: Any = True,
) -> SafeString:
    """A link to a page, `when` it shows; `look`: its classes; `row`: the one that the key for the row opens; `empty`:
    what stands there in grey without a label."""
    if not when:
        return SafeString("")
    if empty and not label:
        return _faint(empty)
    given = {"href": _url(page, address, query), "class": look, "title": shown_plain(title), "data-open": row}
    return format_html("<a{}>{}</a>", _html(given), shown(label))


@register.simple_tag
def with_memories(sentence: str, memories: Mapping[str, tuple[str, str]]) -> SafeString:
    """A sentence in which memories stand by their texts, with links: their texts and pages by how it names them,
    no text for one that was erased."""

    def linked(found: re.Match[str]) -> str:
        kind, (text, url) = found.group().partition(" ")[0], memories[found.group()]
        return f"the {kind} {goto(f'“{text}”', url)}" if text else f"an erased {kind}"

    told: str = escape(sentence)
    if memories:
        told = re.sub("|".join(map(re.escape, memories)), linked, told)
    return mark_safe(told[:1].upper() + told[1:])  # noqa: S308 - escaped above


@register.simple_tag
def check_slots(
    checks: Sequence[Mapping[str, Any]], url: str, since: datetime | None, at: datetime | None
) -> SafeString:
    """The last checks of an expectation as a row of marks: runs of one state with a link each to their prompt, or else
    to its page (`url`), and below them when the first (`since`) and the last were."""
    drawn = SafeString("")
    for run in checks:
        marks = format_html_join("", '<i class="is-{}" title="{}"></i>', ((run["state"], one) for one in run["slots"]))
        link = '<a href="{}" aria-label="{}">{}</a>'
        drawn += format_html(link, run["url"] or url, run["told"], marks) if run["state"] else marks
    drawn = format_html('<span class="checks">{}</span>', drawn)
    # One that is retired has no last check.
    if not since or not at:
        return drawn
    before = mark_safe("<i></i>" * len(checks[0]["slots"]))  # noqa: S308 - nothing in it is given
    first = time_of(since) if age_or_day(since) != age_or_day(at) else ""
    return drawn + format_html('<span class="checks-days">{}{}{}</span>', before, first, time_of(at))


@register.simple_tag
def choice(
    live: Any,
    name: str,
    value: Any,
    label: str,
    query: str = "",
    part: str = "",
    look: str = "",
    chosen: Any = None,
    count: Any = "",
    ends: bool = False,
    of: str = "",
) -> SafeString:
    """A choice between states of a result: where that is `live` a button of the form around it, else a link.

    `query` and `part`: the rest of the link's address; `look`: its class; `chosen`: the value in use; `count`: how many
    it has. `ends`: chosen again it is no longer chosen. `of`: what a number is, for those who do not see it.
    """
    is_chosen = str(value) == str(chosen)
    given = {"id": f"{name}-{value}"}
    value = "" if ends and is_chosen else value
    if live:
        given = {"type": "submit", **given, "name": name, "value": value}
    else:
        given["href"] = f"?{'&'.join(filter(None, (query, f'{name}={value}')))}{f'#{part}' if part else ''}"
    given |= {"class": look} if look else {}
    given |= {"aria-label": f"{of} {label}"} if of else {}
    given |= {"aria-current": "true"} if is_chosen and not ends else {}
    told = format_html("{} {}", label, detail(count, look="count")) if count else label
    attributes = format_html_join("", ' {}="{}"', given.items())
    return format_html("<{0}{1}>{2}</{0}>", "button" if live else "a", attributes, told)


def _url(page: Any, address: tuple[Any, ...], query: str) -> str:
    """The address of a page: by its name, or written out, or that of an object with what stands below it."""
    if hasattr(page, "get_absolute_url"):
        return f"{page.get_absolute_url()}{''.join(f'{part}/' for part in address)}{query}"
    is_written = page[:1] in ("", "/", "#", "?") or page.startswith("mailto:")
    return f"{page if is_written else reverse(page, args=address)}{query}"


_SPARK = '<svg class="spark" width="100%" height="32" role="img" aria-label="{}">{}</svg>'
_SPARK_BAR = '<rect class="{}" x="{}%" y="{}" width="{}%" height="{}"><title>{}: {}</title></rect>'
_SPARK_NONE = '<circle class="spark-none" cx="{}%" cy="30.5" r="1.5"><title>{}: {}</title></circle>'
_SPARK_MOST = '<text class="spark-most" x="{}%" y="{}" text-anchor="{}">{}</text>'
_SPARK_LINE = '<line class="spark-line" x1="{}%" y1="{}" x2="{}%" y2="{}" />'
_SPARK_DOT = '<circle class="{}" cx="{}%" cy="{}" r="2.5"><title>{}: {}</title></circle>'
SPARK_HEIGHT, SPARK_LETTERS = 31.0, 20
"""Pixels of the greatest value, and how many letters stand above the columns on a phone."""


@register.simple_tag
def sparkline(
    points: Sequence[tuple[str, float | None]],
    label: str,
    unit: str = "",
    failed: Sequence[int] = (),
    floor: int | None = None,
    ticks: bool = False,
) -> SafeString:
    """A series as small columns over the width of its place, the last one, which is now, in the accent; a dot for none.

    `points` are the names of hours or days with their values, None where nothing was measured, and `failed` how much
    of each is a failure; `label` says what they are, for those who do not see them, with `unit`. Beside it the page
    must say its last or its whole value. With a `floor`, it is a line from there to 100; as `ticks`, each value is a
    low mark, or a high one of those with a failure.
    """
    values = [value or 0 for _, value in points]
    if floor is not None:
        words = f"{label}, {floor} to 100: {points[-1][0]} {values[-1]:g}"
        return format_html(_SPARK, words, _spark_line(points, floor))
    unit = f" {unit}" if unit else ""
    drawn = SafeString("")
    most = max(values, default=0)
    shapes = bars(values, SPARK_HEIGHT, top=most, gap=0.3, min_height=2.0)
    for (name, value), bar, failures in zip(points, shapes, failed or repeat(0), strict=False):
        told = "not measured" if value is None else f"{value:,.0f}{unit}"
        told += f", {failures:,} failed" if failures else ""
        if not bar.height:
            drawn += format_html(_SPARK_NONE, plain(bar.middle), name, told)
            continue
        parts = [("spark-now" if name == points[-1][0] else "spark-bar", bar.y + 1, bar.height)]
        if ticks:
            parts = [("chart-failed", 1.0, SPARK_HEIGHT) if failures else ("spark-passed", 12.0, 10.0)]
        elif failures and value:
            parts.append(("chart-failed", bar.y + 1, max(bar.height * failures / value, 2.0)))
        sizes = ((look, plain(bar.x), plain(y), plain(bar.width), plain(tall), name, told) for look, y, tall in parts)
        drawn += format_html_join("", _SPARK_BAR, sizes)
    at_most = f"at most {most:,.0f}{unit}, {points[-1][0]} {points[-1][1] or 0:,.0f}"
    words = f"{sum(map(bool, failed))} of {len(points)} days with a failure" if ticks else at_most
    numbered = () if ticks else told_places(values, SPARK_LETTERS)
    numbers = ((at, shapes[at].middle, shapes[at].y - 2, f"{values[at]:,.0f}") for at in numbered)
    return format_html(_SPARK, f"{label}: {words}", drawn + _spark_numbers(numbers, len(points) - 1))


def _spark_numbers(numbers: Iterable[tuple[int, float, float, str]], last: int) -> SafeString:
    """Numbers by the places, x and y of what they tell; long ones of the first and last place stay within."""
    told = []
    for place, x, y, number in numbers:
        ends = {0: (0.0, "start"), last: (100.0, "end")} if len(number) > 2 else {}
        x, anchor = ends.get(place, (x, "middle"))
        told.append((plain(x), plain(y), anchor, number))
    return format_html_join("", _SPARK_MOST, told)


def _spark_line(points: Sequence[tuple[str, float | None]], floor: int) -> SafeString:
    scale = (SPARK_HEIGHT - 6) / (100 - floor)
    spots = [
        (plain(100 * (place + 0.5) / len(points)), plain(3 + scale * (100 - (value or 0))))
        for place, (_, value) in enumerate(points)
    ]
    lines = format_html_join("", _SPARK_LINE, (start + end for start, end in pairwise(spots)))
    looks = ["spark-bar"] * (len(points) - 1) + ["spark-now"]
    dots = ((look, *spot, *point) for look, spot, point in zip(looks, spots, points, strict=True))
    values = [value or 0 for _, value in points]
    at_ends = told_places(values, SPARK_LETTERS, ())
    told = ((at, float(spots[at][0]), float(spots[at][1]) - 6, f"{values[at]:g}") for at in at_ends)
    return lines + format_html_join("", _SPARK_DOT, dots) + _spark_numbers(told, len(points) - 1)


_SECTION = (
    """<a{}><rect class="{}" data-section="{}" x="{}%" width="{}%" height="16"><title>{}: {}</title></rect></a>"""
)
_SECTIONS = """<svg class="sections-bar" width="100%" height="16" aria-hidden="true">{}</svg>"""


@register.simple_tag
def sections_bar(segments: Sequence[tuple[Segment, int, str]], page: str | None = None) -> SafeString:
    """The sections of a prompt side by side, with links to them on `page`, as the list that names them has."""
    parts = (
        (
            _html({"href": f"{page}{at}", "tabindex": "-1"} if page is not None else {}),
            *(one.css_class, one.css_class, plain(one.x), plain(one.width), one.label, tokens(count)),
        )
        for one, count, at in segments
        if one.width
    )
    return format_html(_SECTIONS, format_html_join("", _SECTION, parts))


CHART_TOP = 24
"""Pixels above the upper edge, where values stand and what is pointed at is told."""
_COLUMN = """<g class="chart-col"><rect class="chart-hit" x="{}%" y="0" width="{}%" height="{}" />{}
<text class="chart-told" x="{}%" y="12" text-anchor="{}">{}</text></g>"""
_TOLD_AT = (0, "start"), (50, "middle"), (100, "end")
"""Where a column of the left, middle and right third of a chart is told, so that no words leave a narrow chart."""
_BAR = '<rect class="{}" x="{}%" y="{}" width="{}%" height="{}" />'
_NONE = '<circle class="chart-none" cx="{}%" cy="{}" r="2" />'
_POINT = '<circle class="{}" cx="{}%" cy="{}" r="4" />'
_VALUE = '<text class="chart-value" x="{}%" y="{}" text-anchor="{}">{}</text>'
_TICK = '<text class="{}" x="{}%" y="{}" text-anchor="{}">{}</text>'
_LINE = '<line class="{}" x1="{}%" y1="{}" x2="{}%" y2="{}" />'


@register.simple_tag
def chart_columns(chart: Chart) -> SafeString:
    """The columns of a chart, or its line, on lines at the labels of its axis, with labels below."""
    base, last = chart.height + CHART_TOP, len(chart.axis) - 1
    drawn = SafeString("")
    for number in range(last + 1):
        y = plain(int(CHART_TOP + chart.height * number / last) + 0.5)
        drawn += format_html(_LINE, "chart-base" if number == last else "chart-grid", 0, y, 100, y)
    for before, column in pairwise([chart.columns[0], *chart.columns]):
        inside = _point(column, "chart-point") if chart.is_line else _bars(column, base)
        if column.value:
            at, anchor = column.value_at
            # Below a point to which the line falls.
            off = 18 if chart.is_line and before.bar.y < column.bar.y else -8
            inside += format_html(_VALUE, plain(at), plain(column.bar.y + CHART_TOP + off), anchor, column.value)
        told = *_TOLD_AT[min(int(column.middle * 3 / 100), 2)], column.title
        drawn += format_html(_COLUMN, plain(column.place.x), plain(column.place.width), base, inside, *told)
        if column.tick:
            look = f"chart-tick{' is-minor' if column.is_minor else ''}"
            drawn += format_html(_TICK, look, plain(column.label_at[0]), base + 17, column.label_at[1], column.tick)
    return drawn + _line(chart) if chart.is_line else drawn


def _bars(column: ChartColumn, base: float) -> SafeString:
    """The bar, or a dot for none."""
    bar = column.bar
    parts = column.parts or ((f"chart-bar{' is-last' if column.is_last else ''}", bar.y, bar.height),)
    none = SafeString("") if bar.height else format_html(_NONE, plain(bar.middle), base - 3)
    at = plain(bar.x), plain(bar.width)
    sizes = ((look, at[0], plain(y + CHART_TOP), at[1], plain(tall)) for look, y, tall in parts if tall)
    return format_html_join("", _BAR, sizes) + none


def _point(column: ChartColumn, look: str) -> SafeString:
    if column.point.value is None:
        return SafeString("")
    return format_html(_POINT, look, plain(column.middle), plain(column.bar.y + CHART_TOP))


def _line(chart: Chart) -> SafeString:
    """The line through all points, and on it those where something began or ended, and where it ends."""
    known = [column for column in chart.columns if column.point.value is not None]
    places = [(plain(column.middle), plain(column.bar.y + CHART_TOP)) for column in known]
    drawn = format_html_join("", _LINE, (("chart-line", *begin, *end) for begin, end in pairwise(places)))
    looks = ((one, f"chart-mark {one.point.mark}" if one.point.mark else "chart-end" * one.is_last) for one in known)
    return drawn + format_html_join("", "{}", ((_point(column, look),) for column, look in looks if look))

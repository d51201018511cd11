"""The small parts that pages repeat most: times, badges, buttons, and the head of a table."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django import template
from django.forms import BoundField
from django.forms.utils import flatatt
from django.template.defaulttags import CsrfTokenNode
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from nousweb.console.common import ChartColumn, bars
from nousweb.console.templatetags.console import ago, dt, iso, plain
from nousweb.console.templatetags.visible import shown, shown_plain

register = template.Library()


@register.simple_tag(name="time")
def time_ago(at: datetime | None, empty: str = "never", prefix: str = "") -> SafeString:
    """A moment by its age, with the exact time as a tooltip."""
    if not at:
        return _faint(empty)
    age = f"{prefix} {ago(at)}".strip()
    return format_html('<time class="nowrap" datetime="{}" title="{}">{}</time>', iso(at), dt(at), age)


def _faint(words: str) -> SafeString:
    return format_html('<span class="faint">{}</span>', words)


@register.simple_tag
def said(value: Any, empty: str = "–") -> SafeString | str:
    """A value, a moment as its exact time; `empty`: what stands there in grey for none."""
    if value in (None, ""):
        return _faint(empty)
    return dt(value) if isinstance(value, datetime) else shown(value)


@register.simple_tag
def source(sources: Mapping[int, dict[str, Any]], number: int) -> SafeString:
    """The number of a memory as a link to its page, with its text as a tooltip; one without a page leads to its row."""
    memory = sources.get(number, {})
    page = memory.get("url") or f"#use-{number}"
    return format_html(
        '<a class="mark-number" href="{}" title="{}" aria-label="Memory {}">{}</a>',
        page,
        shown_plain(memory.get("text", "")),
        number,
        number,
    )


@register.simple_tag
def detail(value: Any, before: str = "", after: str = "", look: str = "", of: str = "span") -> SafeString:
    """An element (`of`) with a value and the words around it; without a value it is left out."""
    html = flatatt({"class": look} if look else {})
    return format_html("<{0}{1}>{2}{3}{4}</{0}>", of, html, before, shown(value), after) if value else SafeString("")


OUTCOME_KINDS = {"success": "ok", "partial": "warn", "failure": "removed"}


@register.filter
def outcome_kind(outcome: str) -> str:
    """The kind of the badge of an outcome."""
    return OUTCOME_KINDS.get(outcome, "neutral")


@register.simple_tag
def badge(text: Any, kind: str = "neutral", title: str = "", when: Any = True) -> SafeString:
    """A badge; kind: neutral, accent, added, removed, warn, block or ok; `when`: what it says holds, else it is left
    out."""
    if not when:
        return SafeString("")
    tooltip = format_html(' title="{}"', shown_plain(title)) if title else ""
    return format_html('<span class="badge badge-{}"{}>{}</span>', kind, tooltip, shown(text))


@register.simple_tag
def entry(label: str, value: Any, empty: str = "–", note: str = "") -> SafeString:
    """A term of a definition list with its value and a note, a moment by its age; for nothing `empty`, or no entry at
    all."""
    if value in (None, "") and not empty:
        return SafeString("")
    return format_html(
        "<dt>{}</dt> <dd>{}{}</dd>",
        label,
        time_ago(value) if isinstance(value, datetime) else said(value, empty),
        format_html(' <span class="faint">({})</span>', note) if note else "",
    )


@register.simple_tag
def heads(labels: str, actions: Any = False, list: bool = False) -> SafeString:
    """The heads of a table ("Type|Size:num|Chart:hidden") with their classes, before its rows. `actions`: the rows end
    with buttons. `list`: keys go through the rows."""
    columns = [head.partition(":") for head in labels.split("|")] + [("Actions", ":", "hidden")] * bool(actions)
    cells = SafeString("")
    for label, _, look in columns:
        inside = format_html('<span class="visually-hidden">{}</span>', label) if look == "hidden" else label
        class_ = format_html(' class="{}"', look) if look not in ("", "hidden") else ""
        cells += format_html('<th scope="col"{}>{}</th>', class_, inside)
    return format_html("<thead><tr>{}</tr></thead><tbody{}>", cells, SafeString(" data-keylist" * list))


@register.inclusion_tag("components/fields.html")
def fields(*given: Any, **look: Any) -> dict[str, Any]:
    """Fields of a form, one by one or many at once; `optional` and `mono`: of all of them."""
    return {"fields": [field for each in given for field in ([each] if isinstance(each, BoundField) else each)], **look}


@register.inclusion_tag("components/button.html")
def button(label: str, name: str = "", value: Any = "", **look: Any) -> dict[str, Any]:
    """A button that sends the form around it: its label, name, value, shortcut (`key`) and class (`look`)."""
    return {"label": label, "name": name, "value": value, **look}


@register.inclusion_tag("components/post.html")
def post(label: str, page: Any = "", *address: Any, query: str = "", when: Any = True, **look: Any) -> dict[str, Any]:
    """A form that is one button: its label, page, shortcut (`key`), class (`look`), `name`, `value`; `when`."""
    return {"label": label, "url": _url(page, address, query), "when": when, **look}


@register.inclusion_tag("components/link.html")
def link(label: str, page: Any, *address: Any, query: str = "", when: Any = True, **look: Any) -> dict[str, Any]:
    """A link that looks like a button: its label, page, shortcut (`key`) and class (`look`); `when` it shows."""
    return {"label": label, "url": _url(page, address, query), "when": when, **look}


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
    """A form that is sent to a page: the page, its classes (`look`), other attributes (`_` for `-`), and its parts."""
    given = {"method": "post", "action": _url(page, address, query), "class": look, **attributes}
    html = flatatt({name.replace("_", "-"): value for name, value in given.items() if value})
    return format_html("<form{}>{}{}</form>", html, CsrfTokenNode().render(context), SafeString(content))


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
) -> SafeString:
    """A link to a page; `look`: its classes; `row`: the one that the key for the row opens; `empty`: what stands there
    in grey without a label."""
    if empty and not label:
        return _faint(empty)
    given = {"href": _url(page, address, query), "class": look, "title": shown_plain(title), "data-open": row}
    html = flatatt({name: value for name, value in given.items() if value})
    return format_html("<a{}>{}</a>", html, shown(label))


def _url(page: Any, address: tuple[Any, ...], query: str) -> str:
    """The address of a page: by its name, or written out, or that of an object with what stands below it."""
    if hasattr(page, "get_absolute_url"):
        return f"{page.get_absolute_url()}{''.join(f'{part}/' for part in address)}{query}"
    return f"{page if page[:1] in ('', '/', '#', '?') else reverse(page, args=address)}{query}"


_VALUE = '<text class="chart-value" x="{}%" y="{}" text-anchor="{}">{}</text>'
_SPARK = '<svg class="spark" width="{}" height="24" role="img" aria-label="{}">{}</svg>'
_SPARK_BAR = '<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}: {}</title></rect>'
SPARK_HEIGHT, SPARK_STEP = 23.0, 10
"""Pixels: the height of the greatest value, and the width of a column where there are few."""


@register.simple_tag
def sparkline(points: Sequence[tuple[str, float | None]], label: str, unit: str = "") -> SafeString:
    """A series as small columns that fit into a line of text, the last one, which is now, in the accent.

    `points` are the names of hours or days with their values, None where nothing was measured; `label` says what they
    are, for those who do not see them, with `unit`. Beside it the page must say its last or its whole value.
    """
    values = [value or 0 for _, value in points]
    unit = f" {unit}" if unit else ""
    if not any(values):
        return format_html('<span class="faint">{}</span>', f"no{unit}" if unit else "–")
    step = max(2, min(SPARK_STEP, 120 // len(points)))
    shapes = []
    for place, ((name, value), bar) in enumerate(zip(points, bars(values, SPARK_HEIGHT, top=max(values)), strict=True)):
        look = "spark-none" if not value else "spark-now" if place == len(points) - 1 else "spark-bar"
        told = "not measured" if value is None else f"{value:,.0f}{unit}"
        tall = bar.height or 1
        shapes.append((look, place * step, plain(24 - tall), step - (step + 4) // 5, plain(tall), name, told))
    greatest, last = max(values), points[-1][1]
    words = f"{label}: at most {greatest:,.0f}{unit}, {points[-1][0]} {last or 0:,.0f}"
    return format_html(_SPARK, len(points) * step, words, format_html_join("", _SPARK_BAR, shapes))


_COLUMN = """<g class="chart-col"><title>{}</title>
<rect class="chart-hit" x="{}%" y="0" width="{}%" height="92" />{}</g>"""
_BAR = '<rect class="chart-bar{}" x="{}%" y="{}" width="{}%" height="{}" />'
_TICK = '<text class="chart-tick" x="{}%" y="108" text-anchor="{}">{}</text>'
CHART_TOP = 16
"""Pixels above the greatest column, where its value stands."""


@register.simple_tag
def chart_columns(columns: Iterable[ChartColumn]) -> SafeString:
    """The columns of a chart with their values above and labels below them, the last one in the accent."""
    drawn = SafeString("")
    for column in columns:
        inside = SafeString("")
        if column.bar and column.bar.height:
            bar, top = column.bar, column.bar.y + CHART_TOP
            look = " is-last" if column.is_last else ""
            inside += format_html(_BAR, look, plain(bar.x), plain(top), plain(bar.width), plain(bar.height))
            if column.value:
                inside += format_html(_VALUE, plain(column.middle), plain(top - 4), column.anchor, column.value)
        drawn += format_html(_COLUMN, column.title, plain(column.place.x), plain(column.place.width), inside)
        if column.tick:
            drawn += format_html(_TICK, plain(column.middle), column.anchor, column.tick)
    return drawn

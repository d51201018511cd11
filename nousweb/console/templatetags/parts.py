"""The small parts that pages repeat most: times, badges, buttons, and the head of a table."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from nousweb.console.common import Bar
from nousweb.console.templatetags.console import ago, count, dt, iso, plain
from nousweb.console.templatetags.visible import shown, shown_plain

register = template.Library()


@register.simple_tag(name="time")
def time_ago(at: datetime | None, empty: str = "never", prefix: str = "") -> SafeString:
    """A moment by its age, with the exact time as a tooltip."""
    if not at:
        return format_html('<span class="faint">{}</span>', empty)
    before = f"{prefix} " if prefix else ""
    return format_html('<time class="nowrap" datetime="{}" title="{}">{}{}</time>', iso(at), dt(at), before, ago(at))


@register.simple_tag
def badge(text: Any, kind: str = "neutral", title: str = "") -> SafeString:
    """A badge; kind: neutral, accent, added, removed, warn, block or ok."""
    tooltip = format_html(' title="{}"', shown_plain(title)) if title else ""
    return format_html('<span class="badge badge-{}"{}>{}</span>', kind, tooltip, shown(text))


@register.simple_tag
def entry(label: str, value: Any) -> SafeString:
    """A term of a definition list with its value: a moment with its age, a dash for nothing."""
    said = shown(value)
    if isinstance(value, datetime):
        said = format_html('{} <span class="faint">({})</span>', dt(value), ago(value))
    elif value in (None, ""):
        said = format_html('<span class="faint">{}</span>', "–")
    return format_html("<dt>{}</dt> <dd>{}</dd>", label, said)


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


@register.inclusion_tag("components/post.html")
def post(label: str, page: Any = "", *address: Any, query: str = "", **look: Any) -> dict[str, Any]:
    """A form that is one button: its label, its page, its shortcut (`key`), class (`look`), `name` and `value`."""
    return {"label": label, "url": _url(page, address, query), **look}


@register.inclusion_tag("components/link.html")
def link(label: str, page: Any, *address: Any, query: str = "", **look: Any) -> dict[str, Any]:
    """A link that looks like a button: its label, its page, its shortcut (`key`) and class (`look`)."""
    return {"label": label, "url": _url(page, address, query), **look}


@register.simple_tag
def goto(
    label: Any, page: Any, *address: Any, query: str = "", look: str = "", title: Any = "", row: bool = False
) -> SafeString:
    """A link to a page; `look`: its classes; `row`: the one that the key for the row opens."""
    given = (("class", look), ("title", shown_plain(title)))
    attributes = format_html_join("", ' {}="{}"', ((name, value) for name, value in given if value))
    opens = SafeString(" data-open" if row else "")
    return format_html('<a href="{}"{}{}>{}</a>', _url(page, address, query), attributes, opens, shown(label))


@register.simple_tag
def crumb(label: Any, page: Any, *address: Any, query: str = "") -> SafeString:
    """An item of a list of links: its label and its page."""
    return format_html("<li>{}</li>", goto(label, page, *address, query=query))


def _url(page: Any, address: tuple[Any, ...], query: str) -> str:
    """The address of a page: by its name, or written out, or that of an object with what stands below it."""
    if hasattr(page, "get_absolute_url"):
        return f"{page.get_absolute_url()}{''.join(f'{part}/' for part in address)}{query}"
    return f"{page if page[:1] in ('', '/', '#', '?') else reverse(page, args=address)}{query}"


_BAR = '<rect class="chart-bar" x="{}%" y="{}" width="{}%" height="{}"><title>{}: {}</title></rect>'


@register.simple_tag
def chart_bars(columns: Iterable[tuple[str, int, Bar]]) -> SafeString:
    """The columns of a small chart: label, number and shape of each; one without a height is left out."""
    shapes = ((label, number, bar) for label, number, bar in columns if bar.height)
    return format_html_join(
        "\n",
        _BAR,
        (
            (plain(bar.x), plain(bar.y), plain(bar.width), plain(bar.height), label, count(number))
            for label, number, bar in shapes
        ),
    )


@register.simple_tag
def number_cells(numbers: Iterable[int]) -> SafeString:
    """The cells of a row of a table that holds nothing but numbers."""
    return format_html_join("\n", '<td class="num">{}</td>', ((count(number),) for number in numbers))

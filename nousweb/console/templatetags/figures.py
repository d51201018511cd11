"""Render many numbers by code, since a fragment for each takes several times as long."""

from collections.abc import Iterable

from django import template
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from nousweb.console.common.charts import Bar
from nousweb.console.templatetags.console import count, plain

register = template.Library()

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

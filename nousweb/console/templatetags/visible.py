"""Render untrusted text; the template loader adds `shown` or `shown_plain` everywhere."""

import re
from collections.abc import Callable, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from nousweb.lib.visible_text import direction, is_plain, snippet, terms_in, visible_html, visible_plain

register = template.Library()

# Of these Django prints what the locale wants, and none holds anybody's words.
_NOBODYS_WORDS = (int, float, Decimal, date, time, timedelta, type(None))


@register.filter
def shown(value: Any, visible: Callable[[str], str] = visible_html) -> Any:
    """`value` with a mark for each character that does not show, isolated from its neighbours. Markup of our own, and
    what Django prints as the locale wants, stay as they are."""
    if hasattr(value, "__html__") or isinstance(value, _NOBODYS_WORDS):
        return value
    text = value if isinstance(value, str) else str(value)
    return value if is_plain(text) else visible(text)


MAX_LEVEL = 6
"""Of a heading in Markdown."""


@register.filter
def outlined(value: str) -> SafeString:
    """As `shown`, line by line, with Markdown headings in bold and items of lists indented; their signs are there,
    but of no size."""
    return format_html_join("\n", "{}", ([_outlined(line)] for line in value.split("\n")))


def _outlined(line: str) -> Any:
    sign, _, words = line.partition(" ")
    if sign in ("-", "*", "+") and words:
        return format_html('<span class="listed"><span class="tick">{} </span>{}</span>', sign, shown(words))
    if set(sign) != {"#"} or len(sign) > MAX_LEVEL:
        return shown(line)
    return format_html('<strong><span class="tick">{} </span>{}</strong>', sign, shown(words))


@register.filter
def coded(value: str) -> Any:
    """As `shown`, with what stands between backticks as code; they are there, but of no size."""
    pieces = re.split(r"(`[^`\n]+`)", value)
    if len(pieces) == 1 or not is_plain(value):
        return shown(value)
    code = "<code>{0}{1}{0}</code>".format('<span class="tick">`</span>', "{}")
    parts = (
        format_html(code, piece[1:-1]) if place % 2 else format_html("{}", piece) for place, piece in enumerate(pieces)
    )
    return format_html_join("", "{}", ([part] for part in parts))


@register.filter
def marked(value: Any) -> Any:
    """As `shown`, for a piece of a line that is isolated as a whole, as a span of a difference is."""
    return shown(value, partial(visible_html, isolate=False))


@register.filter
def highlighted(value: Any, terms: Sequence[str]) -> SafeString:
    """As `shown`, with each of the `terms` marked (`terms_in`), whatever its case."""
    text = str(value)
    pieces = re.split(f"({terms_in(text, terms)})", text, flags=re.IGNORECASE) if terms else [text]
    inner = format_html_join(
        "",
        "{}",
        (
            [format_html("<mark>{}</mark>" if number % 2 else "{}", visible_html(piece, isolate=False))]
            for number, piece in enumerate(pieces)
        ),
    )
    return format_html('<bdi dir="{}">{}</bdi>', direction(text), inner)


@register.filter
def found(value: str, terms: Sequence[str]) -> Any:
    """The part of a text around the first place of the `terms`, which are marked; without terms as `coded`."""
    return highlighted(snippet(value, terms), terms) if terms else coded(value)


@register.filter
def shown_plain(value: Any) -> Any:
    """As `shown`, where no element can stand: in attributes, options and the title of a page."""
    return shown(value, visible_plain)


@register.simple_block_tag
def trim(content: str) -> SafeString:
    """Drops white space at both ends; the template loader puts it around every fragment."""
    return mark_safe(content.strip())  # noqa: S308 - rendered by a template, so escaped already

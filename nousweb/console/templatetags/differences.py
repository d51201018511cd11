"""Render the lines of a difference by code, since a fragment for each line takes many times as long."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from django import template
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe

from nousweb.console.inbox.item_titles import ItemTitle, changed_words, is_rewritten
from nousweb.console.templatetags.visible import marked
from nousweb.lib.line_differences import DiffSpan
from nousweb.lib.textdiff import Row, TextDiff, folded, span_text
from nousweb.lib.visible_text import direction

register = template.Library()

ELEMENTS = {"removed": "del", "added": "ins"}
SIGNS = {"removed": "−", "added": "+"}
NO_LINE = '<span class="diff-no diff-blank"> </span><span class="diff-text diff-blank"></span>'


@register.simple_tag
def diff_rows(diff: TextDiff, layout: str = "") -> SafeString:
    """Lines of a difference, those of both texts beside each other where `layout` is "split" or "auto", and as one text
    where it is "words"; a gap unfolds.

    No white space stands inside of a text: it would be read as part of it.
    """
    rows = folded(diff.lines, 0) if layout == "words" else diff.rows
    return mark_safe(_html(rows, LAYOUTS.get(layout, _unified)))  # noqa: S308 - each text is escaped below


@register.simple_tag
def layout_choices(layout: str) -> list[tuple[str, bool]]:
    """The layouts that a person chooses from, each with whether the key leads to it."""
    return [(name, name == CHOICES[(CHOICES.index(layout) + 1) % len(CHOICES)]) for name in CHOICES]


@register.simple_tag
def diff_side(diff: TextDiff, side: str) -> SafeString:
    """The whole text of one side ("removed": the old one, or "added"), with the words marked that the other lacks."""
    lines = (row.old_spans if side == "removed" else row.new_spans for row in diff.lines)
    html = "\n".join(_marked_words(spans) for spans in lines if spans)
    return mark_safe(f'<bdi class="pre-wrap">{html}</bdi>')  # noqa: S308 - each text is escaped above


@register.simple_tag
def item_title(title: ItemTitle | None) -> SafeString:
    """The words of a title in one line, the changed ones marked, and in grey how many other lines change."""
    if title is None:
        return SafeString("")
    words = _marked_words(title.spans)
    more = f' <span class="item-more">{title.more}</span>' if title.rest else ""
    # Each text is escaped above.
    return mark_safe(f'<bdi class="item-words" dir="{direction(title.words)}">{words}</bdi>{more}')  # noqa: S308


@register.simple_tag
def changed_line(old: str, new: str) -> SafeString:
    """The first line in which two texts differ."""
    return item_title(changed_words(old, new))


def _html(rows: Iterable[Row], lines: Callable[[Row], Iterator[str]]) -> str:
    return "\n".join(
        _gap(row.hidden_rows, lines)
        if row.kind == "gap"
        else "".join(f'<div class="diff-row">{line}</div>' for line in lines(row))
        for row in rows
    )


def _gap(hidden: Sequence[Row], lines: Callable[[Row], Iterator[str]]) -> str:
    said = f"{len(hidden)} unchanged line{'' if len(hidden) == 1 else 's'}"
    return f'<details class="diff-gap"><summary>{said}</summary>{_html(hidden, lines)}</details>'


def _unified(row: Row) -> Iterator[str]:
    if row.kind == "equal":
        yield f"{_number(row.old_no)}{_number(row.new_no)}{_equal(row.old_spans)}"
        return
    if row.old_no:
        blank = _number(" ", " is-removed")
        yield f"{_number(row.old_no, ' is-removed')}{blank}{_changed(row.old_spans, row.kind, 'removed')}"
    if row.new_no:
        blank = _number(" ", " is-added")
        yield f"{blank}{_number(row.new_no, ' is-added')}{_changed(row.new_spans, row.kind, 'added')}"


def _split(row: Row) -> Iterator[str]:
    if row.kind == "equal":
        # The same line again is for the eyes alone.
        beside = _number(row.new_no, ' is-equal-new" aria-hidden="true')
        again = _equal(row.new_spans, ' is-equal-new" aria-hidden="true')
        yield f"{_number(row.old_no)}{_equal(row.old_spans)}{beside}{again}"
        return
    old, new = NO_LINE, NO_LINE
    if row.old_no:
        old = f"{_number(row.old_no, ' is-removed')}{_changed(row.old_spans, row.kind, 'removed')}"
    if row.new_no:
        new = f"{_number(row.new_no, ' is-added')}{_changed(row.new_spans, row.kind, 'added')}"
    yield f"{old}{new}"


def _words(row: Row) -> Iterator[str]:
    """A line once, with what goes and comes inside of it; one that says something else, as both lines."""
    if row.kind != "changed":
        yield _equal(row.spans) if row.kind == "equal" else _changed(row.spans, row.kind, row.kind)
    elif is_rewritten(row.spans):
        yield _changed(row.old_spans, row.kind, "removed")
        yield _changed(row.new_spans, row.kind, "added")
    else:
        edited = _marked_words(row.spans)
        yield f'<span class="diff-text is-edited" data-mark=" " dir="{_direction(row.new_spans)}">{edited}</span>'


LAYOUTS = {"words": _words, "unified": _unified, "split": _split, "auto": _split}
CHOICES = ("words", "unified", "split")


def _marked_words(spans: Iterable[DiffSpan]) -> str:
    texts = ((ELEMENTS.get(span.kind), conditional_escape(marked(span.text))) for span in spans)
    return "".join(f"<{element}>{text}</{element}>" if element else text for element, text in texts)


def _number(number: int | str | None, style: str = "") -> str:
    return f'<span class="diff-no{style}">{number}</span>'


def _equal(spans: Iterable[DiffSpan], style: str = "") -> str:
    words = "".join(conditional_escape(marked(span.text)) for span in spans)
    style = f" is-heading{style}" if words.startswith("#") else style
    return f'<span class="diff-text{style}" data-mark=" " dir="{_direction(spans)}">{words}</span>'


def _changed(spans: Iterable[DiffSpan], kind: str, side: str) -> str:
    """A line that is on one side alone; of a changed one, the words that are not on the other are marked."""
    words = _marked_words(spans if kind == "changed" else (DiffSpan(span_text(spans)),))
    heard = f'<span class="visually-hidden">{side}:</span>'
    sign = SIGNS[side]
    return f'<span class="diff-text is-{side}" data-mark="{sign}" dir="{_direction(spans)}">{heard}{words}</span>'


def _direction(spans: Iterable[DiffSpan]) -> str:
    """ "rtl" or "ltr", for the spans of one line."""
    return direction(span_text(spans))

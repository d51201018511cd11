"""Words and numbers as the console prints them. Query strings: use Django's own {% querystring %}."""

import datetime as dt_module
import json
import re
from collections.abc import Iterator
from typing import Any

from django import template
from django.contrib.messages.storage.base import Message
from django.core.paginator import Paginator
from django.forms import BaseForm, BoundField, CheckboxInput, TextInput
from django.template import Context
from django.template.loader_tags import BLOCK_CONTEXT_KEY
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from context.engine.analysis.frames import FRAMES
from identity.policy.changes import audit_phrase
from memory.models import Fact
from nousweb.console.common import SHORTCUTS, Title, author_words, section_label
from nousweb.console.common.provenance import evidence_quote


def source_quote(fact: Fact | None) -> dict[str, str] | None:
    """The quote of a fact's source event; None for a fact without one."""
    event = fact.source_event if fact else None
    return evidence_quote(event.content, fact.content) if fact and event else None


register = template.Library()
register.filter(section_label)
register.filter("phrase", audit_phrase)
register.filter("author", author_words)
register.filter("source_quote", source_quote)

EXACT = "%Y-%m-%d %H:%M %Z"
_AGES = (("y", 365 * 86_400), ("mo", 30 * 86_400), ("d", 86_400), ("h", 3_600), ("min", 60))


@register.filter
def ago(value: dt_module.datetime | None) -> str:
    """The time before or after now, in the largest unit: "3 h ago", "in 2 d"; whole ones, of months the nearest."""
    if value is None:
        return ""
    seconds = (timezone.now() - _aware(value)).total_seconds()
    for unit, length in _AGES:
        if abs(seconds) >= length:
            number = abs(seconds) / length
            amount = f"{round(number) if unit == 'mo' else int(number)} {unit}"
            return f"{amount} ago" if seconds > 0 else f"in {amount}"
    return "just now" if seconds >= 0 else "in a moment"


@register.filter
def iso(value: dt_module.datetime) -> str:
    """As programs read it, to the second: "2026-03-04T15:07:09+00:00"."""
    return localtime(value).isoformat(timespec="seconds")


@register.filter
def dt(value: dt_module.datetime | None) -> str:
    """Local time that sorts as text, with its zone: "2026-03-04 15:07 UTC"."""
    return f"{localtime(value):{EXACT}}" if value else ""


@register.filter
def day(value: dt_module.datetime | None) -> str:
    """A local day in short, with its year where that is not the current one: "8 Nov", "8 Nov 2024"."""
    return _day(localtime(value), timezone.localtime()) if value else ""


def _day(local: dt_module.datetime, now: dt_module.datetime) -> str:
    return f"{local.day} {local:%b}{'' if local.year == now.year else f' {local:%Y}'}"


_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")


@register.filter
def short_dates(text: str) -> str:
    """A text with its ISO dates in short: "as of 3 Oct"."""

    def short(found: re.Match[str]) -> str:
        try:
            return day(dt_module.datetime.fromisoformat(found.group()))
        except ValueError:
            return found.group()

    return _DATE.sub(short, str(text))


WEEK = dt_module.timedelta(days=7)


def age_or_day(value: dt_module.datetime) -> str:
    """A moment as pages print it: by its age within a week, else its day, with the year where it is another one:
    "3 h ago", "8 Nov", "8 Nov 2024"."""
    return ago(value) if abs(timezone.now() - _aware(value)) < WEEK else day(value)


@register.filter
def when(value: dt_module.datetime | None) -> str:
    """The day and the time, of today the time alone: "8 Nov, 15:07", "15:07"."""
    if value is None:
        return ""
    local, now = localtime(value), timezone.localtime()
    return f"{'' if local.date() == now.date() else f'{_day(local, now)}, '}{local:%H:%M}"


@register.filter
def moment(value: dt_module.datetime) -> str:
    """Local time to the second, with its zone."""
    return f"{localtime(value):%Y-%m-%d %H:%M:%S %Z}"


def localtime(value: dt_module.datetime) -> dt_module.datetime:
    """A moment in the time zone of whoever reads the page."""
    return timezone.localtime(_aware(value))


def _aware(value: dt_module.datetime) -> dt_module.datetime:
    return timezone.make_aware(value) if timezone.is_naive(value) else value


@register.filter
def lasting(start: dt_module.datetime, end: dt_module.datetime) -> str:
    """The time from ``start`` to ``end``, in the largest whole unit: "55 s", "3 h"."""
    seconds = (_aware(end) - _aware(start)).total_seconds()
    for unit, length in _AGES:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(int(seconds), 0)} s"


_SPEAKER = re.compile(r"^(?:Input|Output): ")
LINE = 240
"""Characters of a line in a list."""


@register.filter
def said_lines(summary: str) -> list[str]:
    """The first two lines of a summary, without the words that say which is the input and which the output."""
    lines = [_SPEAKER.sub("", line.strip()) for line in summary.splitlines() if line.strip()]
    return [line if len(line) <= LINE else f"{line[:LINE]}…" for line in lines[:2]]


@register.filter
def count(value: float | None) -> str:
    """A number with thousands separated: "1,204"."""
    return "–" if value is None else f"{value:,}"


@register.filter
def of_number(noun: str, number: int) -> str:
    """A regular plural as it stands beside a number: "fact" beside 1, else "facts"."""
    return noun.removesuffix("s") if number == 1 else noun


@register.filter
def signed(value: int) -> str:
    """A change with its sign: "+1,204", "−11", "0"."""
    return f"{value:+,}".replace("-", "−") if value else "0"


@register.filter
def tokens(value: int | None) -> str:
    """An estimated token count: "≈ 1,204 tokens"."""
    return "–" if value is None else f"≈ {exact_tokens(value)}"


@register.filter
def exact_tokens(value: int) -> str:
    """A token count that a model's own tokeniser gave: "1,204 tokens"."""
    return f"{value:,} token{'' if value == 1 else 's'}"


@register.filter
def plain(value: float) -> str:
    """A number for an attribute, with a point whatever the locale: "12.5"."""
    return f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"


@register.filter
def elided(paginator: "Paginator[Any]", number: int) -> Iterator[int | str]:
    """The page numbers around ``number`` and at both ends, with an ellipsis between them."""
    return paginator.get_elided_page_range(number, on_each_side=2, on_ends=1)


@register.filter
def cell(title: Title, row: Any) -> Any:
    """The content of the first cell of a row of a list."""
    return title.of(row)


@register.filter
def frame_label(frame: str) -> str:
    """The name of a frame, by its key."""
    return FRAMES[frame].label if frame in FRAMES else frame


@register.filter
def is_check(field: BoundField) -> bool:
    """Whether a field is a single checkbox, whose label stands after it."""
    return isinstance(field.field.widget, CheckboxInput)


@register.filter
def is_optional(field: BoundField) -> bool:
    """Whether a field may stay empty; a checkbox says so by itself."""
    return not field.field.required and not is_check(field)


FIRST_FILTERS = (
    "q",
    "state",
    "status",
    "category",
    "agent",
    "kind",
    "assignee",
    "subject",
    "period",
    "outcome",
    "since",
    "until",
    "risk",
    "sort",
)
FILTERS_SHOWN = 4
SELDOM_FILTERS = frozenset({"action", "author", "channel"})
"""Those of the audit trail, behind "More" as long as they have no value."""


def _is_choice(field: BoundField) -> bool:
    """Whether a field leaves a choice: not between any agent and the only one."""
    return field.name != "agent" or bool(field.value() or field.errors) or len(getattr(field.field, "choices", ())) > 2


@register.filter
def filter_fields(form: BaseForm) -> tuple[list[BoundField], list[BoundField]]:
    """The fields of a filter that are shown, those of FIRST_FILTERS before others, and those behind "More". A field
    with a value is shown, a choice of one agent is not. Texts say in their fields what they are."""
    places = {name: place for place, name in enumerate(FIRST_FILTERS)}
    days = ("since", "until") if "period" in form.fields else ()
    places |= dict.fromkeys(days, len(places))
    for field in form.visible_fields():
        if isinstance(field.field.widget, TextInput) and field.widget_type in ("text", "search"):
            words = "Search" if field.label == "Words" else field.label
            field.field.widget.attrs.setdefault("placeholder", words)
    ranked = sorted(filter(_is_choice, form.visible_fields()), key=lambda field: places.get(field.name, len(places)))
    shown = [field for field in ranked if field.name not in SELDOM_FILTERS.union(days)][:FILTERS_SHOWN]
    # An order leaves nothing out, so it need not show.
    first = [field for field in ranked if field in shown or field.errors or (field.value() and field.name != "sort")]
    rest = [field for field in ranked if field not in first]
    # A menu of one would take its place.
    return (first, rest) if len(rest) > 1 else (ranked, [])


@register.simple_block_tag(takes_context=True)
def component(context: Context, content: str, name: str, **values: Any) -> SafeString:
    """A component whose text is too long for one line: its content is its `text`; it sees nothing but `values`.

    Use `{% include %}` for a component without such a text.
    """
    text = mark_safe(content.strip())  # noqa: S308 - rendered by a template, so escaped already
    assert context.template is not None, "a tag is rendered by a template"  # noqa: S101
    found = context.template.engine.get_template(f"components/{name}.html")
    return found.render(context.new({"csrf_token": context.get("csrf_token"), **values, "text": text}))


@register.filter
def further(query: str, name: str) -> str:
    """The beginning of the address of the same page, with its `query`, and with a value for one more name."""
    return f"?{query}&{name}=" if query else f"?{name}="


@register.simple_tag(takes_context=True)
def block_again(context: Context, name: str) -> SafeString:
    """A block of the page in a second place, as the title that is also the heading."""
    return context.render_context[BLOCK_CONTEXT_KEY].get_block(name).render(context)


NOTICE_KINDS = {"success": ("ok", "Done."), "warning": ("warn", "Careful."), "error": ("error", "Not done.")}
"""Django's level of a message: how it looks, and its first word."""


@register.filter
def notice(message: Message) -> tuple[str, str]:
    """The kind of notice that a message becomes, and its bold first word."""
    return NOTICE_KINDS.get(message.level_tag, ("accent", "Note."))


HTMX_CONFIG = {
    "includeIndicatorStyles": False,
    # Pages have no inline styles: the policy of their content forbids them.
    "attributesToSettle": ["class", "width", "height"],
    "allowEval": False,
    "allowScriptTags": False,
    "selfRequestsOnly": True,
    "historyCacheSize": 0,
    "refreshOnHistoryMiss": True,
    "timeout": 30000,
    "responseHandling": [
        {"code": "204", "swap": False},
        {"code": "[23]..", "swap": True},
        # These bring a page to show: the conflict, or the form with its errors.
        {"code": "409|422", "swap": True},
        {"code": "[45]..", "swap": False, "error": True},
    ],
}


@register.simple_tag
def htmx_config() -> str:
    """The configuration of htmx on a page, for its `meta` element."""
    return json.dumps(HTMX_CONFIG)


@register.simple_tag
def key(name: str, label: str = "") -> SafeString:
    """The attributes of the element that a shortcut presses; `label` is its description in the help, by default the
    shortcut's own."""
    attribute = format_html('data-key="{}"', SHORTCUTS[name].key)
    return format_html('{} data-key-label="{}"', attribute, label) if label else attribute


@register.simple_tag
def swaps(part: str = "#main", also: str = "#page-head:innerHTML,#rail:innerHTML,#demo-tour") -> SafeString:
    """The attributes of links and forms that show another state of their page: its parts are swapped, and the address
    follows. Without script they load the page. `part`: less than the whole of it; `also`: what else is swapped."""
    return format_html(
        'hx-boost="true" hx-target="{0}" hx-select="{0}" hx-select-oob="{1}" hx-swap="outerHTML{2}"',
        part,
        also,
        " show:window:top" if part == "#main" else "",
    )


@register.simple_tag
def kbd(name: str) -> SafeString:
    """The key of a shortcut as it is printed."""
    return format_html("<kbd>{}</kbd>", SHORTCUTS[name].key)


@register.simple_tag
def key_registry() -> str:
    """All shortcuts for the script: keys by name, and the meaning of each key."""
    keys = {name: shortcut.key for name, shortcut in SHORTCUTS.items()}
    return json.dumps({"keys": keys, "meanings": {shortcut.key: shortcut.meaning for shortcut in SHORTCUTS.values()}})

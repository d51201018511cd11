"""Lists of the console, each declared once: its words, its columns and its actions. `base_list.html` shows them; as
files, they are CSV or JSON Lines.

Rows of a file are read a batch at a time while they are sent, so that it takes as much memory as one batch.
"""

import contextvars
import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Model, QuerySet
from django.forms import BaseForm
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.http import urlencode
from django.utils.text import slugify

from identity.models import Agent
from identity.services.audit import list_export_record
from nousweb.console.common.view_helpers import principal_of, query_without
from nousweb.lib import clock
from nousweb.lib.keyset_page import KeysetPage, Row, keyset_page

PAGE_SIZE = 50

MAX_ROWS_COUNTED = 10_000


class BoundedPaginator(Paginator):
    """A paginator that counts, and reaches, at most MAX_ROWS_COUNTED rows: further ones are found by filtering.

    A first page that is not full has counted them, which where few rows have a word takes as long as finding them.
    """

    def get_page(self, number: Any) -> "Page[Any]":
        """The page of this number; the first or last one for a number that does not exist."""
        if str(number or 1) != "1":
            return super().get_page(number)
        rows = list(self.object_list[: self.per_page + 1])
        if len(rows) <= self.per_page:
            self.count = len(rows)
        return Page(rows[: self.per_page], 1, self)

    @cached_property
    def count(self) -> int:
        """The number of rows, counted without sorting them."""
        rows: Any = self.object_list
        return rows.order_by()[:MAX_ROWS_COUNTED].count()

    @property
    def is_full(self) -> bool:
        """Whether there may be more rows than it reaches."""
        return self.count >= MAX_ROWS_COUNTED


def page_of(request: HttpRequest, rows: "QuerySet[Any] | list[Any]", size: int = PAGE_SIZE) -> "Page[Any]":
    """The page that ?page= names; the first or last one for a number that does not exist."""
    return Paginator(rows, size).get_page(request.GET.get("page"))


def request_page(
    request: HttpRequest, rows: QuerySet[Row], moment: str, *, latest_first: bool = True, size: int = PAGE_SIZE
) -> KeysetPage[Row]:
    """The page that ?before= or ?after= names, in the order of `moment` and the id. Raises Invalid."""
    before, after = request.GET.get("before", ""), request.GET.get("after", "")
    return keyset_page(rows, moment=moment, size=size, after=after, before=before, latest_first=latest_first)


Value = str | Callable[[Any], Any]
"""An attribute of a row, or a function of it."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, its value, and how it looks.

    `look` is "text", "time", "count", "times", "ratio", or the template of the cell, which gets the `row`. `is_usual`
    tells of a row what needs no word: its cell stays empty, and a column of such rows is left out. `sort` are the
    values of ?sort= that its heading chooses, the first one first; the list is ascending by those in `ASCENDING`.
    """

    label: str
    value: Value = "pk"
    look: str = "text"
    empty: str = "–"
    is_usual: Callable[[Any], bool] = lambda row: False
    is_last: bool = False
    sort: tuple[str, ...] = ()

    @property
    def is_number(self) -> bool:
        """Whether it stands at its right edge, as numbers do, and the age of a row in the last column."""
        return self.is_last or self.look in ("count", "times", "ratio")

    def of(self, row: Any) -> Any:
        return _read(row, self.value)


ASCENDING = frozenset({"name", "oldest", "subject"})
"""Values of ?sort= by which a list goes up."""


@dataclass(frozen=True, slots=True)
class Title:
    """The first cell of a row: its words, which link to its page if any, badges (kind and text), and a second line.

    `initials`: those of its words, or its first two letters, stand before it. `is_pinned`: a pin after it says that it
    is always in the prompt; `has_code`: its second line is code.
    """

    words: Value
    badges: Callable[[Any], list[tuple[str, str]]] = lambda row: []
    detail: Value = lambda row: ""
    is_code: Callable[[Any], bool] = lambda row: False
    is_pinned: Callable[[Any], bool] = lambda row: False
    has_code: Callable[[Any], bool] = lambda row: False
    url: Value = lambda row: row.get_absolute_url()
    sort: tuple[str, ...] = ()
    initials: bool = False

    def of(self, row: Any) -> dict[str, Any]:
        read = {
            name: _read(row, getattr(self, name))
            for name in ("words", "url", "badges", "detail", "is_code", "is_pinned")
        }
        read["detail_look"] = "mono row-detail" if self.has_code(row) else "muted row-detail"
        words = str(read["words"]).split()
        initials = "".join(word[0] for word in words[:: len(words) - 1]) if len(words) > 1 else read["words"][:2]
        # A template looks long for what a row does not have.
        read["is_keyed"] = any(getattr(row, name, "") for name in ("project", "task", "whose"))
        read["tags"] = getattr(row, "tags", ())
        return {**read, "initials": initials * self.initials}


def _read(row: Any, value: Value) -> Any:
    return getattr(row, value) if isinstance(value, str) else value(row)


@dataclass(frozen=True, slots=True)
class Action:
    """A button beside the heading, by the name of its page, its shortcut and the permission that shows it."""

    label: str
    page: str
    key: str
    permission: str

    @property
    def look(self) -> str:
        """How its button looks: the one for a new row is the page's primary one."""
        return "primary" if self.key == "new" else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage:
    """A list: its words, the order of its pages, and the columns of a table unless its template shows the rows.

    `moment` is the column by which pages and files are ordered; `numbered` pages have the order of their query.
    `about_new` stands in the form for a new row, which is the variable `creation_form`.
    """

    title: str
    noun: str
    empty: str
    about: str = ""
    moment: str = "created_at"
    size: int = 50
    numbered: bool = False
    is_exported: bool = True
    row: Title | None = None
    columns: tuple[Column, ...] = ()
    actions: tuple[Action, ...] = ()
    about_new: str = ""
    template: str = "base_list.html"

    @property
    def nouns(self) -> str:
        return f"{self.noun}s"

    def page(self, request: HttpRequest, rows: Any) -> "KeysetPage[Any] | Page[Any]":
        """The page of `rows` that the address names. Raises Invalid."""
        if self.numbered:
            return BoundedPaginator(rows, self.size).get_page(request.GET.get("page"))
        return request_page(request, rows, self.moment, size=self.size)

    def context(
        self,
        request: HttpRequest,
        page: "KeysetPage[Any] | Page[Any]",
        form: BaseForm | None = None,
        is_filtered: bool = False,
        kept: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """What `base_list.html` needs. `kept` are the parameters that stay when the filters are cleared."""
        query = urlencode(kept or {})
        rows = page.rows if isinstance(page, KeysetPage) else list(page)
        return {
            "list": self,
            "page": page,
            "rows": rows,
            "columns": [column for column in self.columns if not all(map(column.is_usual, rows))],
            "query": query_without(request),
            "form": form,
            "is_filtered": is_filtered,
            "kept": kept or {},
            "select": "",
            "actions": [action for action in self.actions if principal_of(request).may(action.permission)],
            "every": f"{request.path}?{query}" if query else request.path,
        }


MAX_EXPORT_ROWS = 100_000
BATCH_ROWS = 500
CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson; charset=utf-8"}
"""By the format that ?export= names."""
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""With these a text begins that spreadsheets may compute, also as full-width letters (OWASP, CSV Injection)."""
PAGE_NAMES = frozenset({"export", "page", "before", "after"})
"""Query parameters that are not filters."""

ExportColumn = str | tuple[str, Callable[[Any], Any]]
"""The attribute of a row with the column's name, or a name and a function that reads the value."""


@dataclass(frozen=True, slots=True)
class ListExport:
    """An export of a list: its name in files and in the audit trail, and its columns."""

    title: str
    columns: tuple[ExportColumn, ...]

    @property
    def names(self) -> list[str]:
        return [column if isinstance(column, str) else column[0] for column in self.columns]

    def values(self, row: Any) -> list[Any]:
        return [getattr(row, column) if isinstance(column, str) else column[1](row) for column in self.columns]


@dataclass(frozen=True, slots=True)
class ExportRows:
    """The rows of a list in batches: how many will be sent, and whether there are more than may be."""

    count: int
    is_cut: bool
    batches: Iterator[Sequence[Any]]


def model_columns(model: type[Model], *left_out: str) -> tuple[ExportColumn, ...]:
    """The columns of a table, without its agent, which the file is named for, and without `left_out`."""
    names = [field.attname for field in model._meta.concrete_fields]
    return tuple(name for name in names if name not in ("agent_id", *left_out))


def keyset_rows(rows: QuerySet[Any], moment: str) -> ExportRows:
    """The rows of a query, latest first by the column `moment`. Counts them with one query."""
    found = rows.order_by()[: MAX_EXPORT_ROWS + 1].count()
    count = min(found, MAX_EXPORT_ROWS)
    return ExportRows(count, found > count, _keyset_batches(rows, moment, count))


def _keyset_batches(rows: QuerySet[Any], moment: str, left: int) -> Iterator[Sequence[Any]]:
    after = ""
    while left > 0:
        page = keyset_page(rows, moment=moment, size=min(BATCH_ROWS, left), after=after)
        yield page.rows
        left, after = left - len(page.rows), page.next
        if not after:
            return


def key_rows(
    keys: Sequence[Any], read: Callable[[Sequence[Any]], Sequence[Any]], limit: int = MAX_EXPORT_ROWS
) -> ExportRows:
    """The rows that `read` finds for keys, in their order; as many keys as `limit` count as cut."""
    parts = (keys[start : start + BATCH_ROWS] for start in range(0, len(keys), BATCH_ROWS))
    return ExportRows(len(keys), len(keys) >= limit, (read(part) for part in parts))


def export_format(request: HttpRequest) -> str:
    """The format in which an address asks for a list; "" where it asks for the page, as each form does."""
    asked = request.GET.get("export", "")
    return asked if asked in CONTENT_TYPES and request.method in ("GET", "HEAD") else ""


def list_export(
    request: HttpRequest, export: ListExport, rows: ExportRows, *, agent: Agent | None = None, both: bool = False
) -> HttpResponseBase:
    """The file of a list, after a record of it in the audit trail. `both` says that it may tell of the subconscious.

    The view has checked the rights. Headers say how many rows there are and whether they were cut, and so does the
    last line of a file that was.
    """
    kind = export_format(request)
    day = timezone.localtime(clock.now()).date().isoformat()
    name = f"{agent.slug if agent else 'console'}-{slugify(export.title)}-{day}.{kind}"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Nous-Export-Rows": str(rows.count),
        "Nous-Export-Cut": "true" if rows.is_cut else "false",
    }
    if request.method == "HEAD":
        return HttpResponse(content_type=CONTENT_TYPES[kind], headers=headers)
    list_export_record(
        title=export.title,
        agent=agent,
        file_format=kind,
        filters={key: values for key, values in request.GET.lists() if key not in PAGE_NAMES and any(values)},
        rows=rows.count,
        is_cut=rows.is_cut,
        both=both,
        by=principal_of(request),
    )
    write = _csv_parts if kind == "csv" else _jsonl_parts
    # What limits the statements of a request ends with its view; batches are read after that.
    limited = contextvars.copy_context()
    batches = iter(lambda: limited.run(next, rows.batches, None), None)
    return StreamingHttpResponse(write(export, rows, batches), content_type=CONTENT_TYPES[kind], headers=headers)


def _csv_parts(export: ListExport, rows: ExportRows, batches: Iterable[Sequence[Any]]) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer)

    def written() -> str:
        text = buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        return text

    writer.writerow(export.names)
    yield written()
    for batch in batches:
        writer.writerows([csv_value(value) for value in export.values(row)] for row in batch)
        yield written()
    if rows.is_cut:
        writer.writerow([_cut_note(rows)])
        yield written()


def _jsonl_parts(export: ListExport, rows: ExportRows, batches: Iterable[Sequence[Any]]) -> Iterator[str]:
    for batch in batches:
        yield "".join(_json(dict(zip(export.names, export.values(row), strict=True))) + "\n" for row in batch)
    if rows.is_cut:
        yield _json({"cut": _cut_note(rows)}) + "\n"


def _cut_note(rows: ExportRows) -> str:
    return f"The export was cut after {rows.count:,} rows. Filter the list to export the others."


def csv_value(value: Any) -> Any:
    """A value as a cell: moments in ISO 8601, lists and objects as JSON, and no text that a spreadsheet computes."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    if isinstance(value, bool | list | tuple | dict):
        return _json(value)
    text = value.isoformat() if isinstance(value, date) else str(value)
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date | datetime) else str(value)

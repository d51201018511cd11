"""Lists as files: the rows of a page's list, with its filters, as CSV or as JSON Lines.

Rows are read a batch at a time while they are sent, so that a file of any length takes as much memory as one batch.
"""

import contextvars
import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils import timezone
from django.utils.text import slugify

from identity.models import Agent
from identity.services.list_export import list_export_record
from nousweb.console.common.view_helpers import principal_of
from nousweb.lib import clock
from nousweb.lib.keyset_page import keyset_page

MAX_EXPORT_ROWS = 100_000
BATCH_ROWS = 500
CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson; charset=utf-8"}
"""By the format that ?export= names."""
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""With these a text begins that spreadsheets may compute, also as full-width letters (OWASP, CSV Injection)."""
PAGE_NAMES = frozenset({"export", "page", "before", "after"})
"""Query parameters that are not filters."""

Column = str | tuple[str, Callable[[Any], Any]]
"""The attribute of a row with the column's name, or a name and a function that reads the value."""


@dataclass(frozen=True, slots=True)
class ListExport:
    """An export of a list: its name in files and in the audit trail, and its columns."""

    title: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        return [one if isinstance(one, str) else one[0] for one in self.columns]

    def values(self, row: Any) -> list[Any]:
        return [getattr(row, one) if isinstance(one, str) else one[1](row) for one in self.columns]


@dataclass(frozen=True, slots=True)
class ExportRows:
    """The rows of a list in batches: how many will be sent, and whether there are more than may be."""

    count: int
    is_cut: bool
    batches: Iterator[Sequence[Any]]


def model_columns(model: type[Model], *left_out: str) -> tuple[Column, ...]:
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

"""Lists of the console, each declared once: its words, its columns and its actions. `base_list.html` shows them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page
from django.forms import BaseForm
from django.http import HttpRequest
from django.utils.http import urlencode

from nousweb.console.common.pagination import BoundedPaginator, query_without, request_page
from nousweb.lib.keyset_page import KeysetPage

Value = str | Callable[[Any], Any]
"""An attribute of a row, or a function of it."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, its value, and how it looks.

    `look` is "text", "time", "count", "times", "ratio", or the template of the cell, which gets the `row`.
    """

    label: str
    value: Value = "pk"
    look: str = "text"
    empty: str = "–"

    @property
    def is_number(self) -> bool:
        return self.look in ("count", "times", "ratio")

    def of(self, row: Any) -> Any:
        return _read(row, self.value)


@dataclass(frozen=True, slots=True)
class Title:
    """The first cell of a row: its words, which link to its page, badges (kind and text), and a second line."""

    words: Value
    badges: Callable[[Any], list[tuple[str, str]]] = lambda row: []
    detail: Value = lambda row: ""
    is_code: Callable[[Any], bool] = lambda row: False

    def of(self, row: Any) -> dict[str, Any]:
        return {name: _read(row, getattr(self, name)) for name in ("words", "badges", "detail", "is_code")}


def _read(row: Any, value: Value) -> Any:
    return getattr(row, value) if isinstance(value, str) else value(row)


@dataclass(frozen=True, slots=True)
class Action:
    """A button beside the heading, by the name of its page, its shortcut and the permission that shows it."""

    label: str
    page: str
    key: str
    permission: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage:
    """A list: its words, the order of its pages, and the columns of a table unless its template shows the rows.

    `moment` is the column by which pages and files are ordered; `numbered` pages have the order of their query.
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
        form: BaseForm | None,
        is_filtered: bool,
        kept: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """What `base_list.html` needs. `kept` are the parameters that stay when the filters are cleared."""
        query = urlencode(kept or {})
        return {
            "list": self,
            "page": page,
            "rows": page.rows if isinstance(page, KeysetPage) else list(page),
            "query": query_without(request),
            "form": form,
            "is_filtered": is_filtered,
            "kept": kept or {},
            "all_url": f"{request.path}?{query}" if query else request.path,
        }

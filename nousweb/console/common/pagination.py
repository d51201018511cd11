"""Pages of the console's lists, whose cost does not grow with the table."""

from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

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


def query_without(request: HttpRequest, *names: str) -> str:
    """The query string without `names` and without where the page starts."""
    query = request.GET.copy()
    for name in ("page", "before", "after", *names):
        query.pop(name, None)
    return query.urlencode()

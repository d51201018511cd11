"""Pages whose cost does not grow with the table."""

from typing import Any

from django.core.paginator import Paginator
from django.utils.functional import cached_property

MOST_ROWS = 10_000


class BoundedPaginator(Paginator):
    """A paginator that counts, and reaches, at most MOST_ROWS rows: further ones are found by filtering."""

    @cached_property
    def count(self) -> int:
        """The number of rows, counted without sorting them."""
        rows: Any = self.object_list
        return rows.order_by()[:MOST_ROWS].count()

    @property
    def is_full(self) -> bool:
        """Whether there may be more rows than it reaches."""
        return self.count >= MOST_ROWS

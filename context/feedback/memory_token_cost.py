"""The cost of the memories shown to an agent in tokens, and the share of tokens that answers referred to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, F, FloatField, Max, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Cast, Coalesce

from context.models import MemoryUsage
from memory.models import ItemType, SearchItem
from memory.persona import PersonaMemory

SORTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "wasted": ("Tokens without use", ("-wasted", "-included")),
    "told": ("Tokens included", ("-included",)),
    "times": ("Times shown", ("-times", "-included")),
    "least": ("Least referenced", ("share", "-included")),
    "most": ("Most referenced", ("-share", "-included")),
}
"""Label and columns of each order; the first is the page's own."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One memory in a period: times and tokens in prompts, and references by answers.

    `text` is "" if the memory is gone or quarantined. `wasted` are the tokens without a reference.
    """

    type: str
    id: str
    text: str
    persona: str
    times: int
    referenced: int
    included: int
    wasted: int
    last: datetime

    @property
    def percent(self) -> int:
        """The share of its tokens that was referred to."""
        return round(100 * (self.included - self.wasted) / self.included) if self.included else 0


USES_READ = 20_000
"""Maximum number of the latest uses that are counted."""


def ledger(view: PersonaMemory, since: datetime, sort: str) -> QuerySet[Any]:
    """A row for each memory that prompts with a reported answer showed since a moment, in an order of `SORTS`.

    Only the latest USES_READ uses count.
    """
    uses = MemoryUsage.objects.filter(agent=view.agent, persona__in=view.personas)
    earliest = uses.filter(at__gte=since).order_by("-at").values("at")[USES_READ : USES_READ + 1]
    rows = uses.filter(at__gte=Coalesce(Subquery(earliest), Value(since)), item_type__in=ItemType.values)
    return (
        rows.order_by()
        .values("item_type", "item_id")
        .annotate(
            times=Count("pk"),
            references=Count("pk", filter=Q(referenced=True)),
            included=Coalesce(Sum("tokens"), 0),
            wasted=Coalesce(Sum("tokens", filter=Q(referenced=False)), 0),
            last=Max("at"),
        )
        .annotate(share=Cast(F("references"), FloatField()) / F("times"))
        .order_by(*SORTS[sort][1], "item_type", "item_id")
    )


def ledger_rows(view: PersonaMemory, counted: Iterable[Mapping[str, Any]]) -> list[LedgerRow]:
    """The rows of one page with the texts of the memories. One statement."""
    counted = list(counted)
    items = SearchItem.objects.filter(
        agent=view.agent,
        persona__in=view.personas,
        item_type__in={row["item_type"] for row in counted},
        item_id__in={row["item_id"] for row in counted},
    )
    texts = {(kind, key): (text, persona) for kind, key, text, persona in items.values_list(
        "item_type", "item_id", "text", "persona"
    )}  # fmt: skip
    return [
        LedgerRow(
            row["item_type"],
            row["item_id"],
            *texts.get((row["item_type"], row["item_id"]), ("", "")),
            row["times"],
            row["references"],
            row["included"],
            row["wasted"],
            row["last"],
        )
        for row in counted
    ]

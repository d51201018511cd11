"""Facts and documents of an agent that end soon, or have ended lately."""

from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest

from memory.models import ItemType, SearchItem, ends_at
from memory.selectors.filters import EndingFilter
from memory.types import MEMORY_TYPES
from nousweb.console.common import Column, Title
from nousweb.console.memory.page_context import MemoryList, PersonaScope, memory_list
from nousweb.console.templatetags.parts import goto


def _ending(scope: PersonaScope) -> QuerySet[SearchItem]:
    # A document that is not searched has a row that is not active, without a time of retirement.
    in_use = Q(active=True) | Q(retired_at__isnull=True)
    return scope.memory.rows(SearchItem).filter(in_use, item_type__in=EndingFilter.TYPES, valid_until__isnull=False)


def _memories(request: HttpRequest, scope: PersonaScope, rows: list[SearchItem]) -> dict[str, Any]:
    """The memories of these rows of the index, in their order."""
    found: dict[str, Any] = {}
    for name in EndingFilter.TYPES:
        ids = [row.item_id for row in rows if row.item_type == name]
        if ids:
            rows_of_type = scope.memory.rows(MEMORY_TYPES[name].model).filter(pk__in=ids)
            found |= {str(memory.pk): memory for memory in rows_of_type}
    for memory in found.values():
        memory.agent = scope.agent
        memory.may_keep, memory.query = scope.by.may("memory.add_fact"), scope.suffix
    return {"rows": [found[row.item_id] for row in rows if row.item_id in found]}


def _change(memory: Any) -> Any:
    """The link to the form that keeps a memory or moves its end."""
    if not memory.may_keep:
        return ""
    slug, key = memory.agent.slug, memory.pk
    if memory._meta.model_name == ItemType.FACT:
        return goto("Keep or move", "agent_fact_change", slug, key, "expiry", query=memory.query)
    return goto("Keep or move", "agent_document_expiry", slug, key, query=memory.query)


agent_endings = memory_list(
    MemoryList(
        title="Ending soon",
        noun="ending",
        about="Facts and documents with an end, the next first.",
        empty="Facts and documents that expire, and facts with an end, appear here before their"
        " end and for a while after it.",
        moment="valid_until",
        numbered=True,
        is_exported=False,
        tells_past=False,
        model=SearchItem,
        permission="memory.view_fact",
        filter=EndingFilter,
        select=_ending,
        row=Title(lambda memory: str(memory)),
        more=_memories,
        columns=(
            Column("Type", lambda memory: memory._meta.verbose_name.capitalize()),
            Column("Ends", ends_at, "time"),
            Column("Then", lambda memory: "forgotten" if ends_at(memory) == memory.expires_at else "no longer true"),
            Column("Change", _change),
        ),
    )
)
"""The memories with an end in the time that the filter names."""

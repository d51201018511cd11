"""The API of the state of the search index."""

from collections.abc import Collection
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema
from pydantic import Field

from identity.selectors import agent_called
from memory.persona import memory_of
from memory.search.index_tables import PERSONA_OF_TABLE
from memory.services.search_index.reembedding import language_used
from nousweb.lib.constrained_types import AgentSlug
from nousweb.lib.schemas import REFUSALS
from nousweb.lib.transactions import sql_rows

router = Router()


class IndexOut(Schema):
    ready: int
    pending: int
    failed: int
    language: str = Field(description="Code of the language of the word search, as set or detected")


@router.get("/index", response={200: IndexOut, **REFUSALS}, summary="State of the search index")
def index_get(request: HttpRequest, agent: AgentSlug = "") -> Any:
    """How many memories of the token's persona are ready for search by meaning, pending, or failed."""
    found, by = agent_called(request, agent, "memory.view_searchitem")
    by.require_all_projects()
    return {**index_counts(found.pk, memory_of(found, by).personas), "language": language_used(found)}


def index_counts(agent_id: int, personas: Collection[str]) -> dict[str, int]:
    """Rows of an agent's index by status: ready, pending, failed."""
    # Each persona's table by itself: all are counted in one index, and what is not ready, mostly nothing, in another.
    parts = []
    for table, persona in PERSONA_OF_TABLE.items():
        if persona in personas:
            mine = f"FROM {table} WHERE agent_id = {int(agent_id)}"
            parts.append(f"SELECT 'ready', count(*) {mine}")
            parts.append(f"SELECT status, count(*) {mine} AND status <> 'ready' GROUP BY status")
    counts = {"ready": 0, "pending": 0, "failed": 0}
    for status, number in sql_rows(" UNION ALL ".join(parts)):
        counts[status] += number
    counts["ready"] -= counts["pending"] + counts["failed"]
    return counts

"""The API of the state of the search index."""

from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema
from pydantic import Field

from identity.selectors import agent_for
from memory.api.common import REFUSALS, principal
from memory.persona import memory_of
from memory.selectors.index_status_counts import index_counts
from memory.services.search_index.agent_languages import language_used
from nousweb.lib.constrained_types import AgentSlug

router = Router()


class IndexOut(Schema):
    ready: int
    pending: int
    failed: int
    language: str = Field(description="Code of the language of the word search, as set or detected")


@router.get("/index", response={200: IndexOut, **REFUSALS}, summary="State of the search index")
def index_get(request: HttpRequest, agent: AgentSlug = "") -> Any:
    """How many memories of the token's persona are ready for search by meaning, pending, or failed."""
    by = principal(request)
    found = agent_for(by, agent)
    by.require("memory.view_searchitem", found)
    by.require_all_projects()
    return {**index_counts(found.pk, memory_of(found, by).personas), "language": language_used(found)}

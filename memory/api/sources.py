"""The API of the sources that memories were read from."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema
from pydantic import Field

from memory.api.common import SourceRefIn, agent_arguments
from memory.services.memory_write import source_report
from nousweb.lib.constrained_types import AgentSlug, ProjectKey, UserKey
from nousweb.lib.schemas import REFUSALS


class SourceReportIn(SourceRefIn):
    project: ProjectKey = Field("", description="Of the memories that were read from it; empty for none")
    user: UserKey = ""


class SourceReportOut(Schema):
    locator: str = Field(alias="source.locator", description="Its url or path")
    sha256: str = Field(alias="source.sha256", description="The digest of its latest reading")
    seen_at: datetime = Field(alias="source.seen_at")
    changed_at: datetime | None = Field(alias="source.changed_at", description="Since when it has this digest")
    marked: int = Field(description="Memories whose lines got the mark that their source changed, or lost it")


router = Router()


@router.post("/sources", response={200: SourceReportOut, **REFUSALS}, summary="Report the digest of a source")
def sources_post(request: HttpRequest, payload: SourceReportIn, agent: AgentSlug = "") -> Any:
    """Call this when you have read a page or file again. Prompts mark what rests on another digest of it from now on.

    A reading that is older than the last one changes nothing.
    """
    return source_report(**agent_arguments(request, agent, "memory.add_fact"), **payload.dict())

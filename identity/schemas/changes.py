"""Response schemas of the API of the change feed."""

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import Field


class FeedChangeOut(Schema):
    id: UUID = Field(description="Stable id of this change, on pages and in webhooks")
    kind: str = Field(description="Object and action, such as `fact.superseded`")
    persona: str
    at: datetime
    object_type: str
    object_id: str
    details: dict[str, Any] = Field(description="Ids, numbers and codes that belong to this kind")
    body: dict[str, Any] | None = Field(
        None, description="With `bodies`: the current object; null if it no longer exists or has no body"
    )


class FeedOut(Schema):
    items: list[FeedChangeOut]
    next: str = Field(description="Pass as `after` for the next page; also given on the last page")
    more: bool = Field(description="Whether more changes are available now")

"""What the API of the change feed gives."""

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import Field


class FeedChangeOut(Schema):
    id: UUID = Field(description="The same wherever this change appears: in pages, to webhooks, again")
    kind: str = Field(description="What it is about and what happened, such as `fact.superseded`")
    persona: str
    at: datetime
    object_type: str
    object_id: str
    details: dict[str, Any] = Field(description="Ids, numbers and words of ours that belong to this kind")
    body: dict[str, Any] | None = Field(
        None, description="With `bodies`: the object as it is now; null where it is gone or has no body"
    )


class FeedOut(Schema):
    items: list[FeedChangeOut]
    next: str = Field(description="Pass as `after`: on every page, the last one too")
    more: bool = Field(description="Whether there is more already; else wait for it")

"""Request and response schemas of the API of webhooks."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from ninja import Schema
from pydantic import Field

from nousweb.lib.schemas import Input

Scope = Literal["identity:read", "memory:read", "context:read", "expectations:run"]


class WebhookIn(Input):
    url: str = Field(max_length=500, description="https:// or http://; a private address is refused")
    scopes: list[Scope] = Field(description="Scopes of the receiver", max_length=4)
    kinds: list[str] = Field(
        [], max_length=100, description="Only these kinds of change; empty for all that the scopes allow"
    )
    persona: Literal["actor", "subconscious"] = "actor"
    bodies: bool = Field(False, description="Include the object of each change, as it is at that time")
    secret: str = Field("", max_length=200, description="16 characters or more; made here if not given")


class WebhookPatch(Input):
    url: str | None = Field(None, max_length=500)
    scopes: list[Scope] | None = Field(None, max_length=4)
    kinds: list[str] | None = Field(None, max_length=100)
    bodies: bool | None = None
    secret: str | None = Field(None, max_length=200)
    active: bool | None = Field(None, description="false pauses it, true resumes it")


class WebhookOut(Schema):
    id: UUID
    url: str
    persona: str
    scopes: list[str]
    kinds: list[str]
    bodies: bool
    state: str
    created_at: datetime
    created_by: str


class WebhookMadeOut(WebhookOut):
    secret: str = Field(description="Cannot be shown again")


class WebhooksOut(Schema):
    items: list[WebhookOut]


class DeliveryOut(Schema):
    id: UUID
    number: int
    status: str
    kinds: list[str]
    changes: int = Field(description="Number of changes in the message")
    attempts: int
    created_at: datetime
    tried_at: datetime | None
    finished_at: datetime | None
    answer_status: int | None
    duration_ms: int | None
    error: str

    @staticmethod
    def resolve_changes(delivery: object) -> int:
        return len(delivery.changes)  # type: ignore[attr-defined]


class DeliveriesOut(Schema):
    items: list[DeliveryOut]
    next: int | None = Field(description="Pass as `before` for the next page; null on the last")


class ReplayIn(Input):
    delivery: UUID | None = Field(None, description="Delivery to resend; by default all that failed permanently")


class ReplayOut(Schema):
    replayed: int

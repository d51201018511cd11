"""The API of webhooks, for people only, whatever a token's scopes say."""

from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from identity.models import Webhook, WebhookDelivery
from identity.principal import Principal
from identity.selectors import agent_called
from identity.services.webhooks import (
    deliveries_replay,
    webhook_create,
    webhook_delete,
    webhook_update,
    webhooks_of,
)
from nousweb.lib import existing
from nousweb.lib.schemas import CHANGE_REFUSALS, Derived, Input

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


class WebhookOut(Derived, of=Webhook, fields="id url persona scopes kinds bodies state created_at created_by"): ...


class WebhookMadeOut(WebhookOut):
    secret: str = Field(description="Cannot be shown again")


class WebhooksOut(Schema):
    items: list[WebhookOut]


class DeliveryOut(
    Derived,
    of=WebhookDelivery,
    fields="id number status kinds changes attempts created_at tried_at finished_at answer_status duration_ms error",
):
    changes: int = Field(description="Number of changes in the message")

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


router = Router(tags=["webhooks"])


@router.get("/webhooks", response={200: WebhooksOut, **CHANGE_REFUSALS}, summary="List webhooks (people)")
def webhooks_list(request: HttpRequest, agent: str = "") -> Any:
    """The webhooks of an agent; none of the subconscious without the right to it."""
    return {"items": list(webhooks_of(*agent_called(request, agent)))}


@router.post(
    "/webhooks", response={201: WebhookMadeOut, **CHANGE_REFUSALS}, summary="Let an address know of changes (people)"
)
def webhooks_post(request: HttpRequest, payload: WebhookIn, agent: str = "") -> Any:
    """Sends changes to an address from now on. The response contains the secret, which cannot be shown again."""
    found, by = agent_called(request, agent)
    webhook, secret = webhook_create(agent=found, by=by, **payload.dict())
    return Status(201, {**WebhookOut.from_orm(webhook).dict(), "secret": secret})


@router.patch(
    "/webhooks/{webhook_id}", response={200: WebhookOut, **CHANGE_REFUSALS}, summary="Change a webhook (people)"
)
def webhooks_patch(request: HttpRequest, webhook_id: UUID, payload: WebhookPatch, agent: str = "") -> Any:
    """Changes the given fields. Changes made while it was paused are sent after it is resumed."""
    webhook, by = _webhook(request, agent, webhook_id)
    return webhook_update(webhook=webhook, by=by, **payload.dict())


@router.delete("/webhooks/{webhook_id}", response={204: None, **CHANGE_REFUSALS}, summary="Delete a webhook (people)")
def webhooks_delete(request: HttpRequest, webhook_id: UUID, agent: str = "") -> Any:
    """Deletes it with the records of its messages."""
    webhook, by = _webhook(request, agent, webhook_id)
    webhook_delete(webhook=webhook, by=by)
    return Status(204, None)


@router.get(
    "/webhooks/{webhook_id}/deliveries",
    response={200: DeliveriesOut, **CHANGE_REFUSALS},
    summary="What was sent (people)",
)
def deliveries_list(
    request: HttpRequest,
    webhook_id: UUID,
    agent: str = "",
    status: Literal["", "waiting", "delivered", "dead"] = "",
    limit: int = Query(50, ge=1, le=200),
    before: int | None = Query(None, ge=1, le=2**62),
) -> Any:
    """Messages to a webhook, latest first."""
    found = _webhook(request, agent, webhook_id)[0].messages.order_by("-number")
    if status:
        found = found.filter(status=status)
    if before is not None:
        found = found.filter(number__lt=before)
    page = list(found[: limit + 1])
    items = page[:limit]
    return {"items": items, "next": items[-1].number if len(page) > limit else None}


@router.post(
    "/webhooks/{webhook_id}/replay", response={200: ReplayOut, **CHANGE_REFUSALS}, summary="Send again (people)"
)
def deliveries_again(request: HttpRequest, webhook_id: UUID, payload: ReplayIn, agent: str = "") -> Any:
    """Resends one message, or all that failed permanently."""
    webhook, by = _webhook(request, agent, webhook_id)
    delivery = None
    if payload.delivery is not None:
        delivery = existing(webhook.messages.filter(pk=payload.delivery).first(), "There is no such message.")
    return {"replayed": deliveries_replay(webhook=webhook, by=by, delivery=delivery)}


def _webhook(request: HttpRequest, slug: str, webhook_id: UUID) -> tuple[Webhook, Principal]:
    agent, by = agent_called(request, slug)
    found = webhooks_of(agent, by).select_related("agent").filter(pk=webhook_id)
    return existing(found.first(), "There is no such webhook."), by

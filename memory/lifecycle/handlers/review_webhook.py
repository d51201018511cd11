"""Notify the operator's webhook of a pending review: signed, with retries, and without text of memories.

Delivery is at least once: if a worker is killed between the response and its record, the notice is sent again with the
same id.
"""

import hashlib
import hmac
import http.client
import json
from typing import Any

from django.conf import settings

from memory.lifecycle.handler import Handler
from memory.models import Job, MemoryReview
from nousweb.lib.http_exchange import http_exchange

TIMEOUT_SECONDS = 10


class WebhookFailed(Exception):
    """The webhook did not accept the notice."""


def review_notice_signature(body: bytes, secret: str) -> str:
    """The value of X-Nous-Signature: `sha256=` and the HMAC-SHA256 of the body in hexadecimal."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def _prepare(job: Job) -> str:
    if not settings.WEBHOOK_URL:
        return "no address"
    review = MemoryReview.objects.select_related("agent").filter(agent=job.agent_id, pk=job.subject_id).first()
    if review is None or review.status != MemoryReview.Status.PENDING:
        return "answered"
    body = json.dumps(
        {
            "event": "memory_review.waiting",
            "id": str(review.pk),
            "agent": review.agent.slug,
            "kind": review.kind,
            "created_at": review.created_at.isoformat(),
            "path": f"/review/memory/{review.pk}/",
        }
    ).encode()
    former = settings.WEBHOOK_FORMER_SECRET
    headers = {
        "Content-Type": "application/json",
        "X-Nous-Delivery": str(review.pk),
        "X-Nous-Signature": review_notice_signature(body, settings.WEBHOOK_SECRET),
        # While the receiver may not have the new secret yet.
        **({"X-Nous-Former-Signature": review_notice_signature(body, former)} if former else {}),
    }
    try:
        answer = http_exchange(settings.WEBHOOK_URL, body, headers, seconds=TIMEOUT_SECONDS)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise WebhookFailed(f"The webhook's address cannot be reached ({type(error).__name__}).") from error
    if answer.status >= 300:
        raise WebhookFailed(f"The webhook's address answered {answer.status}.")
    return f"answered {answer.status}"


def _apply(job: Job, outcome: str) -> dict[str, Any]:
    return {"webhook": outcome}


WEBHOOK = Handler(apply=_apply, prepare=_prepare)

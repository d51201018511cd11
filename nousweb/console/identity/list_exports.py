"""The columns of identity's lists as files."""

from identity.models import WebhookDelivery
from nousweb.console.common.list_export import ListExport, model_columns

AUDIT = ListExport(
    "Audit trail",
    (
        "id",
        "at",
        "author_kind",
        "author_name",
        "action",
        "object_type",
        "object_id",
        "object_label",
        "message",
        ("agent", lambda event: event.agent_slug),
        "persona",
        "channel",
        "request_id",
    ),
)
"""Without the states before and after, which the list does not show either."""
DELIVERIES = ListExport("Deliveries", model_columns(WebhookDelivery))
PROPOSALS = ListExport(
    "Proposals",
    (
        ("id", lambda item: item.proposal.pk),
        ("agent", lambda item: item.proposal.agent.slug),
        *(
            (name, lambda item, name=name: getattr(item.proposal, name))
            for name in (
                "persona",
                "section",
                "risk",
                "status",
                "base_version",
                "content",
                "reason",
                "author_kind",
                "author_name",
                "reviewer_name",
                "comment",
                "edited",
                "self_applied",
                "created_at",
                "decided_at",
                "expires_at",
            )
        ),
    ),
)

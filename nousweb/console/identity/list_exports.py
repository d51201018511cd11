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

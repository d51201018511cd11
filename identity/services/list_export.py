"""The audit record of a list that a person exported as a file."""

from collections.abc import Mapping, Sequence

from django.db import transaction

from identity.models import Agent, AuditEvent
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.inbox_items import person_of


@transaction.atomic
def list_export_record(
    *,
    title: str,
    agent: Agent | None,
    file_format: str,
    filters: Mapping[str, Sequence[str]],
    rows: int,
    is_cut: bool,
    both: bool,
    by: Principal,
) -> None:
    """Record that `by` exports the list called `title`, of an agent or of the console, before the first row is sent.

    `rows` is the number of rows when it began. With `both` the list may include the subconscious, and so may its
    filters, which are then shown only to people who may see that. Raises NotAllowed for callers that are no person.
    """
    person = person_of(by)
    given = {name: list(values) for name, values in filters.items()}
    audit_record(
        by=by,
        action="list.export",
        target=agent or person,
        agent=agent,
        label=f"{title} of {agent.name}" if agent else title,
        after={"format": file_format, "rows": rows, "cut": is_cut, "filters": given},
        persona=AuditEvent.BOTH if both else "",
    )

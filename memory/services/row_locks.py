"""Lock one row of memory for a change."""

from typing import TypeVar

from identity.models import AgentRow
from nousweb.lib.errors import NotFound

Row = TypeVar("Row", bound=AgentRow)


def row_lock(row: Row) -> Row:
    """The row as it stands, locked until the transaction ends, with its agent. Raises NotFound when it has gone.

    Its key stays free: the subconscious may refer to a row of the actor's, and neither waits for the other.
    """
    rows = type(row)._default_manager.select_for_update(of=("self",), no_key=True).select_related("agent")
    found = rows.filter(agent=row.agent_id, pk=row.pk).first()
    if found is None:
        raise NotFound(f"There is no such {row._meta.verbose_name}.")
    return found

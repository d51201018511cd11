"""Changing some fields of one row, with what they held before."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import Model

from nousweb.lib import clock
from nousweb.lib.errors import NotFound

Row = TypeVar("Row", bound=Model)


def row_lock(row: Row) -> Row:
    """The row as it stands, locked until the transaction ends, with its agent. Raises NotFound when it has gone.

    Its key stays free: the subconscious may refer to a row of the actor's, and neither waits for the other.
    """
    rows = type(row)._default_manager.select_for_update(of=("self",), no_key=True).select_related("agent")
    found = rows.filter(pk=row.pk).first()
    if found is None:
        raise NotFound(f"There is no such {row._meta.verbose_name}.")
    return found


def row_change(row: Model, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Save those of `values` that differ; return what they were and what they are, ready for the audit trail.

    A value of None leaves its field alone. Two empty dicts mean that nothing changed and nothing was saved.
    """
    changed = {name: value for name, value in values.items() if value is not None and value != getattr(row, name)}
    before = {name: _plain(getattr(row, name)) for name in changed}
    for name, value in changed.items():
        setattr(row, name, value)
    if changed:
        now = clock.now()
        stamp: dict[str, datetime | None] = {"updated_at": now} if hasattr(row, "updated_at") else {}
        if "active" in changed and hasattr(row, "retired_at"):
            stamp["retired_at"] = None if changed["active"] else now
        for name, moment in stamp.items():
            setattr(row, name, moment)
        row.save(update_fields=[*changed, *stamp])
    return before, {name: _plain(value) for name, value in changed.items()}


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def in_transaction() -> bool:
    """Whether a transaction is open, in which no model may be asked; the one around a test does not count."""
    try:
        with transaction.atomic(durable=True):
            return False
    except RuntimeError:
        return True

"""Change fields of a row, and return their former values for the audit trail."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Model

from nousweb.lib import clock


def fields_change(row: Model, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
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

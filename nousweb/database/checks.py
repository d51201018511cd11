"""Checks of this installation for `manage.py check`, besides Django's own."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Tags, Warning, register
from django.db import Error

from nousweb.database.postgres_roles import product_role_weakness


@register(Tags.database)
def database_role_check(*, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Warn of a role that could change the audit trail. Asked for with `check --database default`."""
    found: list[CheckMessage] = []
    for alias in databases or ():
        try:
            weakness = product_role_weakness(alias)
        except Error:
            continue  # That it cannot be reached, others say.
        if weakness:
            hint = "Give the tables to an owner of their own: docs/operations.md, 'A PostgreSQL of your own'."
            found.append(Warning(weakness, hint=hint, id="nous.W001"))
    return found

"""The database backend. A new connection gets the limits of the present work. A reused connection gets them together
with the check that it still works, which Django makes once per request anyway. A server that ends a connection reports
it or closes the connection, and both are visible here: if nothing has arrived, and no limits are to be set, no round
trip is made.

Behind a pooler that shares connections between transactions (NOUS_DB_PREPARE=0) nothing is set, since other clients
would get the settings. The limits are then the role's own (docs/operations.md). Nor are rows read from a server-side
cursor outside of a transaction, which would stay on one connection while the program gets another."""

import select
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register
from django.db import Error
from django.db.backends.postgresql import base
from django.db.backends.utils import CursorWrapper
from pgvector import HalfVector
from pgvector.psycopg.halfvec import HalfVectorBinaryDumper, HalfVectorDumper
from psycopg.pq import TransactionStatus

from nousweb.database.postgres_roles import product_role_weakness
from nousweb.database.statement_timeouts import LIMITS, work_at_hand


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


class DatabaseWrapper(base.DatabaseWrapper):
    """PostgreSQL with time limits. `cursor_type` sends statements; telemetry sets one that makes spans."""

    cursor_type: type[CursorWrapper] = CursorWrapper

    def make_cursor(self, cursor: Any) -> CursorWrapper:
        return self.cursor_type(cursor, self)

    def get_connection_params(self) -> dict[str, Any]:
        params = super().get_connection_params()
        if settings.DB_PREPARE:
            limits = LIMITS[work_at_hand()].settings
            options = [params.get("options", ""), *(f"-c {name}={value}" for name, value in limits.items())]
            params["options"] = " ".join(options).strip()
        return params

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        for dumper in (HalfVectorDumper, HalfVectorBinaryDumper):
            connection.adapters.register_dumper(HalfVector, dumper)
        connection.nous_work = work_at_hand()
        return connection

    def chunked_cursor(self) -> Any:
        """A cursor whose rows are read in parts."""
        return super().chunked_cursor() if settings.DB_PREPARE or self.in_atomic_block else self.cursor()

    def is_usable(self) -> bool:
        """Whether the server answers; the limits of the work at hand hold from here on."""
        kind = work_at_hand()
        if self.connection is None or not settings.DB_PREPARE:
            return super().is_usable()
        if getattr(self.connection, "nous_work", kind) == kind:
            return _is_quiet(self.connection) or super().is_usable()
        asked = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in LIMITS[kind].settings.items())
        try:
            with self.wrap_database_errors:
                self.connection.execute(f"SELECT {asked}")
        except Error:
            return False
        self.connection.nous_work = kind
        return True


def _is_quiet(connection: Any) -> bool:
    """Whether a connection is open, between transactions, and nothing has come over it since its last statement."""
    if connection.closed or connection.info.transaction_status != TransactionStatus.IDLE:
        return False
    arrived = select.poll()
    arrived.register(connection.fileno(), select.POLLIN)
    return not arrived.poll(0)

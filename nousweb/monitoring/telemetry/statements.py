"""A span for each SQL statement, with its text and without its values."""

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from django.db.backends.utils import CursorWrapper

from nousweb.database.base import DatabaseWrapper
from nousweb.lib import prepared_statements
from nousweb.lib.prepared_statements import PreparedCursor
from nousweb.lib.tracing import NOTHING, Span
from nousweb.monitoring.telemetry.tracer import OtelTracer

MAX_CHARACTERS = 4_000
LITERALS = re.compile(
    r"""("[^"]*") | E'(?:[^'\\]|''|\\.)*(?:'|$) | '(?:[^']|'')*(?:'|$) | \$\$.*?(?:\$\$|$)""",
    re.VERBOSE | re.DOTALL,
)
OPERATION = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|SAVEPOINT|RELEASE|ROLLBACK|SET|CREATE|DROP|ALTER)\b")
TABLE = re.compile(r'\b(?:FROM|INTO|UPDATE)\s+"?([a-z_]\w*)"?')

_tracer: OtelTracer | None = None
_database = ""


def statements_trace(tracer: OtelTracer, database: str) -> None:
    """Create a span for each statement of this process. Connections and prepared statements stay as they are."""
    global _tracer, _database
    _tracer, _database = tracer, database
    prepared_statements.cursor_type = _PreparedCursor
    DatabaseWrapper.cursor_type = _Cursor


def statements_untrace() -> None:
    """Stop creating spans for statements."""
    global _tracer
    _tracer = None
    prepared_statements.cursor_type = PreparedCursor
    DatabaseWrapper.cursor_type = CursorWrapper


class _PreparedCursor(PreparedCursor):
    __slots__ = ()

    def execute(self, statement: str, values: Mapping[str, Any]) -> None:
        with _span(statement):
            super().execute(statement, values)


class _Cursor(CursorWrapper):
    def _execute(self, sql: Any, params: Any, *ignored: Any) -> Any:
        with _span(sql):
            return super()._execute(sql, params, *ignored)  # type: ignore[misc]

    def _executemany(self, sql: Any, param_list: Any, *ignored: Any) -> Any:
        with _span(sql):
            return super()._executemany(sql, param_list, *ignored)  # type: ignore[misc]


def _span(statement: Any) -> AbstractContextManager[Span]:
    if _tracer is None:
        return NOTHING
    summary, text = described(statement[:MAX_CHARACTERS]) if isinstance(statement, str) else ("SQL", "")
    about = {"db.system.name": "postgresql", "db.namespace": _database, "db.query.summary": summary}
    return _tracer.span(summary, "client", {**about, "db.query.text": text} if text else about)


@lru_cache(maxsize=1_024)
def described(statement: str) -> tuple[str, str]:
    """A summary of a statement (operation and table), and its text with question marks for quoted parts."""
    text = LITERALS.sub(lambda found: found[1] or "?", statement)
    operation, table = OPERATION.search(text), TABLE.search(text)
    words = [operation[1] if operation else text.split(None, 1)[0] if text.strip() else "SQL"]
    if table:
        words.append(table[1])
    return " ".join(words)[:100], text

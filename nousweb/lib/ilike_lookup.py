"""`column__ilike="words"`: rows whose text contains these words, case-insensitively.

Like Django's `icontains`, but PostgreSQL can use the statistics of the column to estimate the number of rows, and so to
decide whether the first rows of an ordered list are found sooner along its index. For an expression, which `icontains`
makes of each column, it assumes that hardly any row matches.
"""

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField, TextField
from django.db.models.lookups import IContains
from django.db.models.sql.compiler import SQLCompiler


@CharField.register_lookup
@TextField.register_lookup
class Ilike(IContains):
    """Case is ignored as PostgreSQL's locale says; `%` and `_` of the words mean themselves."""

    lookup_name = "ilike"

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        column, given = self.process_lhs(compiler, connection)
        words, wanted = self.process_rhs(compiler, connection)
        return f"{column} ILIKE {words}", (*given, *wanted)

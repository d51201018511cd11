"""`column__ilike="words"`: rows whose text holds these words, in capitals or not.

As Django's `icontains`, but for how PostgreSQL sees it: it knows from its statistics of the column how many rows to
expect, and so whether the first of an ordered list are found sooner along its index. Of an expression, as `icontains`
makes of each column, it assumes that hardly any has the words.
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

"""Stores with very much in them, at once."""

from django.db import connection, models


def multiply(row: models.Model, count: int, **changed: str) -> None:
    """Store `count` further rows like `row`, each with a key of its own; the database makes them from the stored row.

    `changed` gives fields that differ, as SQL in which `n` counts from 0.
    """
    meta = row._meta
    keyed = {meta.pk.name: "gen_random_uuid()"} if isinstance(meta.pk, models.UUIDField) else {}
    values = {
        field.column: (keyed | changed).get(field.name, f"original.{connection.ops.quote_name(field.column)}")
        for field in meta.concrete_fields
        if not field.generated and (field is not meta.pk or keyed)
    }
    table, key = connection.ops.quote_name(meta.db_table), connection.ops.quote_name(meta.pk.column)
    columns = ", ".join(map(connection.ops.quote_name, values))
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({columns}) SELECT {', '.join(values.values())}"  # noqa: S608
            f" FROM {table} AS original, generate_series(0, %s - 1) AS n WHERE original.{key} = %s",
            [count, row.pk],
        )
        assert cursor.rowcount == count
        # As autovacuum would have done: without it, queries are planned for a table of a few rows.
        cursor.execute(f"ANALYZE {table}")

"""The database privileges of the running product, declared as data, and their granting.

Two roles: the owner creates and changes tables (migrations, indexes); the product reads and writes rows, and cannot
delete history. The product only inserts into append-only tables. Only the functions of an erasure delete from them,
which belong to the owner and leave a receipt.
"""

from dataclasses import dataclass

import psycopg
from psycopg import sql

ROWS = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE"})
"""Privileges of the product on an ordinary table. The next `migrate` grants them for a new table."""

APPEND_ONLY: dict[str, tuple[str, ...]] = {
    "identity_auditevent": (),
    "identity_identityversion": ("is_current",),
    "memory_event": (),
    "memory_factchange": (),
    "memory_judgecall": (),
}
"""Tables to which the product only adds, each with the columns that it may update nevertheless."""

READ_ONLY = frozenset({"django_migrations"})
LESS_THAN_ROWS: dict[str, frozenset[str]] = {
    **dict.fromkeys(READ_ONLY, frozenset({"SELECT"})),
    **dict.fromkeys(APPEND_ONLY, frozenset({"SELECT", "INSERT"})),
    # Of these the product updates no row: it only deletes old rows, and rows of erased agents.
    "identity_change": frozenset({"SELECT", "INSERT", "DELETE"}),
    "identity_changestream": frozenset({"SELECT", "DELETE"}),
    # The seals: the product adds them and their leaves, and an erasure's functions note the holes.
    "identity_logseal": frozenset({"SELECT", "INSERT"}),
    "identity_logleaves": frozenset({"SELECT", "INSERT"}),
    "identity_loghole": frozenset({"SELECT"}),
}
"""Privileges of the product on tables whose rows it does not write as it likes."""

OWNERS_FUNCTIONS = (
    "nous_erase_facts",
    "nous_erase_documents",
    "nous_erase_events",
    "nous_erase_project",
    "nous_erase_user",
    "nous_assign_events",
    "nous_erase_agent",
    "nous_changes_publish",
    "nous_changes_purge",
    "nous_sample_renew",
)
"""Functions that run with the owner's rights; nobody but the product may call them."""

WITNESS = "identity_auditevent"
"""A role that may change this table may change history."""


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    kind: str
    held: frozenset[str]


def privileges_grant(connection: psycopg.Connection, product: str) -> None:
    """Grant the declared privileges to the role `product` on everything in the current schema, and revoke others.

    Run it as the owner of the tables (or a superuser), in one transaction. Does nothing for a role that is the owner
    itself. Privileges that match already are not touched.
    """
    if _may_become_owner(connection, product):
        return
    role = sql.Identifier(product)
    with connection.transaction():
        # Two at once would write the same rows of the catalogue.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('nous.privileges'))")
        _grant_database(connection, role)
        for table in _tables(connection, product):
            name = sql.Identifier(table.name)
            sequence = table.kind == "S"
            wanted = frozenset({"USAGE", "SELECT"}) if sequence else LESS_THAN_ROWS.get(table.name, ROWS)
            if table.held != wanted:
                connection.execute(sql.SQL("REVOKE ALL ON {} FROM {}").format(name, role))
                rights = sql.SQL(", ").join(map(sql.SQL, sorted(wanted)))
                connection.execute(sql.SQL("GRANT {} ON {} TO {}").format(rights, name, role))
                for column in APPEND_ONLY.get(table.name, ()):
                    connection.execute(
                        sql.SQL("GRANT UPDATE ({}) ON {} TO {}").format(sql.Identifier(column), name, role)
                    )
        _grant_functions(connection, role)


def weakness(connection: psycopg.Connection, product: str | None = None) -> str:
    """Why role `product` (by default the connection's own) is too mighty, in one sentence; "" when it is not.

    "" also before the first migration.
    """
    found = connection.execute(
        """
        SELECT role.rolname,
               role.rolsuper OR role.rolreplication OR role.rolcreaterole,
               pg_has_role(role.oid, witness.relowner, 'MEMBER'),
               EXISTS (
                   SELECT 1 FROM unnest(ARRAY['UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER']) AS one
                   WHERE has_table_privilege(role.oid, witness.oid, one))
        FROM pg_roles role, pg_class witness
        WHERE role.rolname = coalesce(%s, current_user) AND witness.oid = to_regclass(%s)
        """,
        [product, WITNESS],
    ).fetchone()
    if found is None:
        return ""
    name, mighty, owner, may_change = found
    if mighty:
        return f"The database role {name} of the product is all but a superuser, so no table is safe from it."
    if owner:
        return f"The database role {name} of the product owns its tables, so it could change the audit trail."
    if may_change:
        return f"The database role {name} of the product has the right to change rows of the audit trail."
    return ""


def _may_become_owner(connection: psycopg.Connection, product: str) -> bool:
    row = connection.execute(
        "SELECT role.rolsuper OR pg_has_role(role.oid, coalesce(witness.relowner, me.oid), 'MEMBER')"
        " FROM pg_roles role JOIN pg_roles me ON me.rolname = current_user"
        " LEFT JOIN pg_class witness ON witness.oid = to_regclass(%s) WHERE role.rolname = %s",
        [WITNESS, product],
    ).fetchone()
    return row is None or bool(row[0])


def _tables(connection: psycopg.Connection, product: str) -> list[_Table]:
    """Tables and sequences of the current schema, with the privileges of `product` on each."""
    rows = connection.execute(
        """
        SELECT c.relname, c.relkind::text, coalesce(array_agg(a.privilege_type) FILTER (WHERE a.grantee = r.oid), '{}')
        FROM pg_class c
        CROSS JOIN pg_roles r
        LEFT JOIN LATERAL aclexplode(c.relacl) a ON true
        WHERE r.rolname = %s AND c.relnamespace = to_regnamespace(current_schema()) AND c.relkind IN ('r', 'p', 'S')
          AND pg_has_role(c.relowner, 'USAGE')
          AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                          AND d.deptype = 'e')
        GROUP BY c.relname, c.relkind ORDER BY c.relname
        """,
        [product],
    ).fetchall()
    return [_Table(name, kind, frozenset(held)) for name, kind, held in rows]


def _grant_database(connection: psycopg.Connection, role: sql.Identifier) -> None:
    """Let the product in; without temporary tables, which could hide the real ones from a function."""
    row = connection.execute(
        "SELECT current_database(), current_schema(), pg_has_role(datdba, 'USAGE')"
        " FROM pg_database WHERE datname = current_database()"
    ).fetchone()
    if row is None or row[1] is None:
        return
    database, schema = sql.Identifier(row[0]), sql.Identifier(row[1])
    if row[2]:
        connection.execute(sql.SQL("REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC").format(database))
        connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, role))
        connection.execute(sql.SQL("REVOKE CREATE ON SCHEMA {} FROM PUBLIC").format(schema))
    connection.execute(sql.SQL("REVOKE CREATE ON SCHEMA {} FROM {}").format(schema, role))
    connection.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, role))


def _grant_functions(connection: psycopg.Connection, role: sql.Identifier) -> None:
    functions = connection.execute(
        "SELECT oid::regprocedure::text FROM pg_proc"
        " WHERE pronamespace = to_regnamespace(current_schema()) AND proname = ANY(%s)",
        [list(OWNERS_FUNCTIONS)],
    ).fetchall()
    for (signature,) in functions:
        # A signature is printed quoted where it has to be, by the server itself.
        function = sql.SQL(signature)
        connection.execute(sql.SQL("REVOKE ALL ON FUNCTION {} FROM PUBLIC").format(function))
        connection.execute(sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(function, role))

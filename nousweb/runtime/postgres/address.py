"""The address of a database in the form that PostgreSQL's programs take."""

from collections.abc import Mapping

from psycopg.conninfo import conninfo_to_dict

VARIABLES = {
    "host": "PGHOST",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "dbname": "PGDATABASE",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
}
"""By the name in an address; in a program's environment others on the machine do not see them."""


def address_variables(url: str) -> Mapping[str, str]:
    """The variables that stand for a `postgresql://` address."""
    return {VARIABLES[key]: str(value) for key, value in conninfo_to_dict(url).items() if key in VARIABLES}

"""Requirements for an external PostgreSQL server."""

import psycopg

from nousweb.runtime.postgres.problem import PostgresProblem

LOWEST_SERVER = 15
LOWEST_VECTOR = (0, 8)


def check_requirements(url: str) -> None:
    """Raise PostgresProblem unless `url` is a server >= 15 with pgvector >= 0.8. Takes one connection."""
    try:
        with psycopg.connect(url, connect_timeout=10) as connection:
            server = connection.info.server_version
            row = connection.execute(
                "SELECT installed_version, default_version FROM pg_available_extensions WHERE name = 'vector'"
            ).fetchone()
            where = _where(connection)
    except psycopg.Error as error:
        # libpq's messages name host, port, user and database, and never the password.
        reason = " ".join(str(error).split()).rstrip(".")
        raise PostgresProblem(f"The database named by DATABASE_URL cannot be used: {reason}.") from error
    if server < LOWEST_SERVER * 10000:
        raise PostgresProblem(
            f"The server {where} is PostgreSQL {server // 10000}, and {LOWEST_SERVER} or newer is needed."
        )
    if row is None:
        raise PostgresProblem(
            f"The server {where} has no pgvector: install pgvector 0.8 or newer there, "
            "or unset DATABASE_URL to use the embedded PostgreSQL."
        )
    installed, available = row
    if _version(installed or available) < LOWEST_VECTOR:
        cure = "run ALTER EXTENSION vector UPDATE there" if _version(available) >= LOWEST_VECTOR else "upgrade it there"
        raise PostgresProblem(
            f"The server {where} has pgvector {installed or available}, and 0.8 or newer is needed: {cure}."
        )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _where(connection: psycopg.Connection) -> str:
    info = connection.info
    return f"at {info.host}:{info.port}"

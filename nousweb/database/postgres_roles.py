"""The two PostgreSQL roles: the product's, and for some commands the owner's."""

from collections.abc import Iterator
from contextlib import contextmanager

import environ
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections

from nousweb.database.privileges import privileges_grant, weakness
from nousweb.lib.distribution import is_distributed

CREDENTIALS = ("USER", "PASSWORD", "HOST", "PORT")


def addresses_read() -> None:
    """Take the addresses of the database from the environment again: the embedded server was started meanwhile."""
    read = environ.Env()
    address = read.db_url("DATABASE_URL")
    default = settings.DATABASES[DEFAULT_DB_ALIAS]
    default |= {name: address.get(name, "") for name in ("NAME", *CREDENTIALS)}
    default["OPTIONS"] |= address.get("OPTIONS", {})
    settings.DATABASE_OWNER = read.db_url("DATABASE_OWNER_URL")
    settings.DATABASE_ROLE = str(address.get("USER") or "")


@contextmanager
def as_owner(alias: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """Let this thread's connection be the owner's, as DATABASE_OWNER_URL names it; unchanged without one.

    Not inside a transaction. The product's connection is opened again afterwards.
    """
    connection = connections[alias]
    if settings.DATABASE_OWNER is None:
        yield
        return
    before = connection.settings_dict
    options = {name: value for name, value in before["OPTIONS"].items() if name != "assume_role"}
    owner = {name: settings.DATABASE_OWNER.get(name, "") for name in CREDENTIALS}
    # The database stays the product's: migrations and the product use the same one.
    options |= settings.DATABASE_OWNER.get("OPTIONS", {})
    connection.close()
    connection.settings_dict = before | owner | {"OPTIONS": options}
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict = before


def product_role_grant(alias: str = DEFAULT_DB_ALIAS) -> None:
    """Give the product's role the rights that it needs, and take others away; as the owner of the tables."""
    if settings.DATABASE_OWNER is None or not settings.DATABASE_ROLE:
        return
    if is_distributed():
        one_role_check()
    connection = connections[alias]
    connection.ensure_connection()
    privileges_grant(connection.connection, settings.DATABASE_ROLE)


def one_role_check() -> None:
    """Raise ImproperlyConfigured where the owner of distributed tables has another role than the product.

    Citus refuses the functions of an erasure, the owner's, in a transaction in which another role has written.
    """
    if settings.DATABASE_OWNER and settings.DATABASE_OWNER.get("USER") != settings.DATABASE_ROLE:
        raise ImproperlyConfigured("DATABASE_OWNER_URL: on Citus the product has the role that owns the tables.")


def product_role_weakness(alias: str = DEFAULT_DB_ALIAS) -> str:
    """Why the product's role is too mighty, in one sentence; "" when it is not."""
    connection = connections[alias]
    connection.ensure_connection()
    return weakness(connection.connection, settings.DATABASE_ROLE or None)

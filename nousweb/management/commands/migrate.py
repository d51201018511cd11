"""Django's `migrate` as the owner of the tables, who then grants the product its privileges on them."""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands.migrate import Command as DjangoMigrate
from django.db import ProgrammingError, connections
from django.db.migrations.loader import MigrationLoader

from nousweb.database.postgres_roles import as_owner, product_role_grant

REFUSED = "42501"
APPS = ("identity", "memory", "context")


class Command(DjangoMigrate):
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with as_owner(options["database"]):
                other_version_refuse(options["database"])
                super().handle(*args, **options)
                product_role_grant(options["database"])
        except ProgrammingError as error:
            if getattr(error.__cause__, "sqlstate", "") != REFUSED:
                raise
            raise CommandError(
                f"The database role that migrates may not do so ({' '.join(str(error).split())}): "
                "name the owner of the tables with DATABASE_OWNER_URL."
            ) from error


def other_version_refuse(alias: str) -> None:
    """Raise CommandError for a database with migrations that this version lacks: `migrate` would do nothing there.

    That is a database from before 0.1.0, whose migrations began anew, or one of a later version.
    """
    loader = MigrationLoader(connections[alias])
    unknown = sorted({key for key in loader.applied_migrations if key[0] in APPS} - set(loader.disk_migrations))
    if unknown:
        raise CommandError(
            f"This database has the migration {'.'.join(unknown[-1])}, which this version does not have: it was made "
            "by a later version, or by one before 0.1.0. Install the version that made it. To move from before 0.1.0, "
            "export each agent there (`exportagent`) and import it into a new database (`importagent`)."
        )

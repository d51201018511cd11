"""Django's `migrate` as the owner of the tables, who then grants the product its privileges on them."""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands.migrate import Command as DjangoMigrate
from django.db import ProgrammingError

from nousweb.database.postgres_roles import as_owner, product_role_grant

REFUSED = "42501"


class Command(DjangoMigrate):
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with as_owner(options["database"]):
                super().handle(*args, **options)
                product_role_grant(options["database"])
        except ProgrammingError as error:
            if getattr(error.__cause__, "sqlstate", "") != REFUSED:
                raise
            raise CommandError(
                f"The database role that migrates may not do so ({' '.join(str(error).split())}): "
                "name the owner of the tables with DATABASE_OWNER_URL."
            ) from error

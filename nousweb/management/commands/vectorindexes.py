import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memory.search.vector_indexes import may_index, vector_indexes_keep
from nousweb.database.postgres_roles import as_owner


class Command(BaseCommand):
    help = (
        "Make the approximate vector indexes that large collections want, and drop those that none wants, as the owner "
        "of the tables. `serve` does it by itself; beside other supervisors run it with --watch."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--watch", action="store_true", help="go on, looking every minute")

    def handle(self, *args: Any, watch: bool, **options: Any) -> None:
        while True:
            with as_owner():
                if not may_index():
                    raise CommandError("Only the owner of the tables may do this: name it with DATABASE_OWNER_URL.")
                changed = vector_indexes_keep()
            if changed or not watch:
                self.stdout.write(f"{changed} indexes made or dropped.")
            if not watch:
                return
            time.sleep(60)

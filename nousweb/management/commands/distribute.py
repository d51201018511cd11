from argparse import ArgumentParser
from typing import Any

from django.db import connection

from nousweb.database.distribute import NotDistributable, distribute
from nousweb.database.postgres_roles import as_owner, one_role_check
from nousweb.lib.commands import ServiceCommand


class Command(ServiceCommand):
    help = "Distribute the tables of agents over the servers of a Citus cluster; on its coordinator, as a superuser."
    problems = (NotDistributable,)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--shards", type=int, default=32, help="parts of each table (default: 32)")

    def handle(self, *args: Any, shards: int, **options: Any) -> None:
        one_role_check()
        with as_owner():
            connection.ensure_connection()
            done = distribute(connection.connection, shards=shards)
        moved = sum(done.rows.values())
        self.stdout.write(f"Distributed by agent: {len(done.distributed)} tables. {' '.join(done.distributed)}")
        self.stdout.write(f"Copied to each server: {len(done.reference)} tables. {' '.join(done.reference)}")
        self.stdout.write(f"Kept on the coordinator: {done.local} tables.")
        self.stdout.write(f"Keys that contain the agent now: {len(done.keys)}. {' '.join(done.keys)}")
        self.stdout.write(f"Foreign keys dropped: {len(done.dropped)}. {'; '.join(done.dropped)}")
        self.stdout.write(f"Rows moved: {moved}. Copies removed from the coordinator: {len(done.emptied)} tables.")

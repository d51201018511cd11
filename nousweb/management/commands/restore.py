"""Restores a backup, or a dump of pg_dump's custom format, into an empty database, and migrates it."""

import os
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command

from nousweb.lib.commands import ServiceCommand
from nousweb.runtime.backup import BackupProblem, backup_restore
from nousweb.runtime.postgres.shared_server import owner_url


class Command(ServiceCommand):
    help = __doc__
    problems = (BackupProblem,)
    # `migrate` runs the checks.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("backup", type=Path, help="the folder that `backup` wrote, or the file of a dump")

    def handle(self, *args: Any, backup: Path, **options: Any) -> None:
        began = time.monotonic()
        moment, rows, with_secret = backup_restore(
            backup.absolute(),
            url=owner_url(),
            data_folder=Path(settings.DATA_DIR),
            keep_secret=bool(os.environ.get("NOUS_SECRET_KEY")),
        )
        seconds = time.monotonic() - began
        call_command("migrate", verbosity=0, interactive=False)
        of = f" of {moment:%Y-%m-%d %H:%M:%S %Z}" if moment else ""
        self.stdout.write(f"Restored{of}: {rows:,} rows in {seconds:.1f} s, and migrated.")
        if not with_secret:
            self.stdout.write("The secret is the one of this installation, not one of the backup.")
        self.stdout.write("Run `manage.py verify` next: it checks the log against its seals.")

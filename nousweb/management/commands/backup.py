"""Writes a backup of the database and the installation's secret into a new folder, while everything goes on."""

import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings

from nousweb.lib.commands import ServiceCommand
from nousweb.runtime.backup import BackupProblem, backup_take
from nousweb.runtime.postgres.shared_server import owner_url


class Command(ServiceCommand):
    help = __doc__
    problems = (BackupProblem,)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help="a folder that does not exist yet")

    def handle(self, *args: Any, folder: Path, **options: Any) -> None:
        # Create the secret now, if nothing has been signed yet, so that the backup includes it.
        str(settings.SECRET_KEY)
        began = time.monotonic()
        moment, rows, size = backup_take(folder.absolute(), url=owner_url(), data_folder=Path(settings.DATA_DIR))
        self.stdout.write(
            f"Backup of {moment:%Y-%m-%d %H:%M:%S %Z}: {rows:,} rows,"
            f" {size / 1024**2:.1f} MB, in {time.monotonic() - began:.1f} s."
        )
        if not (folder / "secret_key").exists():
            self.stdout.write("The secret is not in it: it is kept in NOUS_SECRET_KEY, so keep that.")

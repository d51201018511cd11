"""Change the installation's secret, which signs sessions and encrypts secrets in the database."""

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from identity.principal import Principal
from identity.services.encrypted_secrets import encrypted_secrets_count, encrypted_secrets_rewrite, sessions_count
from nousweb.lib.installation import former_secrets_forget, secret_change

WORDS = {
    "present": "by the secret of now",
    "former": "by a former secret",
    "none": "by none yet",
    "lost": "by a secret that is not known here",
}


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "action",
            choices=["status", "new", "rewrite", "forget"],
            help="status: what is by which secret; new: make a secret, and keep the former one beside it; rewrite:"
            " encrypt everything by the secret of now; forget: believe the former secrets no more",
        )

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        getattr(self, f"_{action}")()

    def _status(self) -> None:
        for what, counted in (("Kept secrets", encrypted_secrets_count()), ("Sessions", sessions_count())):
            parts = [f"{counted[key]:,} {words}" for key, words in WORDS.items() if counted[key]]  # type: ignore[index]
            self.stdout.write(f"{what}: {', '.join(parts) or 'none'}.")
        self.stdout.write(f"Former secrets that are believed: {len(settings.SECRET_KEY_FALLBACKS)}.")

    def _new(self) -> None:
        secret_change(self._file())
        self.stdout.write("There is a new secret. Start the product again, then run `secret rewrite`.")

    def _rewrite(self) -> None:
        rewritten = encrypted_secrets_rewrite(by=Principal.of_command())
        lost = encrypted_secrets_count()["lost"]
        self.stdout.write(f"Encrypted by the secret of now: {rewritten:,}.")
        if lost:
            raise CommandError(
                f"{lost:,} are encrypted by a secret that is not known here. Name it in NOUS_SECRET_KEY_FALLBACKS"
                " and run this again."
            )

    def _forget(self) -> None:
        waiting = encrypted_secrets_count()["former"]
        if waiting:
            raise CommandError(f"{waiting:,} are still encrypted by a former secret: run `secret rewrite` first.")
        former_secrets_forget(self._file())
        self.stdout.write(
            "The former secrets are forgotten. Start the product again: sessions that they signed end then."
        )

    def _file(self) -> Path:
        if os.environ.get("NOUS_SECRET_KEY"):
            raise CommandError(
                "The secret is kept in NOUS_SECRET_KEY: change it there, and name the former one in"
                " NOUS_SECRET_KEY_FALLBACKS as long as it is to be believed."
            )
        return Path(settings.DATA_DIR) / "secret_key"

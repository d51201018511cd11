from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from identity.principal import Principal
from memory.lifecycle.runner import activities_heal
from memory.services.loops import derived_backfill
from memory.services.search_index.row_embedding import embed_pending_rows, index_retry


class Command(BaseCommand):
    help = "Heal what derives from memory: missing rows, summaries and vectors. Running it again finds nothing to do."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-vectors", action="store_true", help="leave the vectors to the worker")

    def handle(self, *args: Any, no_vectors: bool, **options: Any) -> None:
        healed = {"activities": activities_heal(), **derived_backfill()}
        healed["retried"] = index_retry(agent=None, by=Principal.of_command())
        if not no_vectors:
            healed["vectors"] = 0
            while made := embed_pending_rows():
                healed["vectors"] += made
        self.stdout.write(", ".join(f"{name} {count}" for name, count in healed.items()))

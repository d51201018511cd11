from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from identity.principal import Principal
from memory.management.progress import file_progress
from memory.transfer.agent_import import agent_import


class Command(BaseCommand):
    help = "Make an agent of a file that exportagent wrote: all of it, or nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--slug", default="", help="what to call the agent; as it was by default")

    def handle(self, *args: Any, **options: Any) -> None:
        with file_progress(self.stderr, options["file"], "{name}: {why} Nothing was stored.") as bar:
            agent, counts = agent_import(
                path=options["file"],
                slug=options["slug"],
                by=Principal.of_command(channel="import"),
                progress=lambda done, total: bar.show(done / max(total, 1), f"{done:,} of {total:,} rows"),
            )
        self.stderr.write(f"Agent {agent.slug} is there, with {sum(counts.values()):,} rows.")

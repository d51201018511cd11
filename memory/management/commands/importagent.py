from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from identity.principal import Principal
from memory.management.progress import ProgressBar
from memory.transfer.agent_import import agent_import
from nousweb.lib.errors import DomainError


class Command(BaseCommand):
    help = "Make an agent of a file that exportagent wrote: all of it, or nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--slug", default="", help="what to call the agent; as it was by default")

    def handle(self, *args: Any, **options: Any) -> None:
        bar = ProgressBar(self.stderr)
        by = Principal.of_command(channel="import")
        try:
            agent, counts = agent_import(
                path=options["file"],
                slug=options["slug"],
                by=by,
                progress=lambda done, total: bar.show(done / max(total, 1), f"{done:,} of {total:,} rows"),
            )
        except DomainError as error:
            raise CommandError(f"{options['file'].name}: {error.detail.rstrip('.')}. Nothing was stored.") from error
        except OSError as error:
            raise CommandError(f"{options['file']}: {error.strerror}") from error
        finally:
            bar.end()
        self.stderr.write(f"Agent {agent.slug} is there, with {sum(counts.values()):,} rows.")

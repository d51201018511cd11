from argparse import ArgumentParser
from typing import Any

from identity.principal import Principal
from identity.selectors import agent_get
from memory.services.search_index.reembedding import index_rebuild
from nousweb.lib.commands import ServiceCommand


class Command(ServiceCommand):
    help = (
        "Rebuild the search index from the primary rows; searches go on meanwhile. New vectors follow from the worker."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--agent", default="", help="slug of the only agent to rebuild; all by default")

    def handle(self, *args: Any, agent: str, **options: Any) -> None:
        found = agent_get(agent, Principal.of_command()) if agent else None

        def progress(done: int, total: int) -> None:
            self.stderr.write(f"\r{done:,} of {total:,}", ending="" if done < total else "\n")

        result = index_rebuild(agent=found, progress=progress)
        self.stdout.write(f"{result['written']} rows written, {result['deleted']} without a memory deleted.")

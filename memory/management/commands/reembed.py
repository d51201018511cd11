from argparse import ArgumentParser
from typing import Any

from identity.principal import Principal
from memory.embedding import EmbeddingFailed
from memory.embedding.registry import configured_name
from memory.services.search_index.reembedding import (
    ReembedProgress,
    reembed_cancel,
    reembed_continue,
    reembed_progress,
    reembed_start,
)
from nousweb.lib.commands import ServiceCommand


class Command(ServiceCommand):
    help = (
        "Move the search index to another embedding model. Searches answer from the old vectors until all the new ones "
        "are there. Interrupted, it goes on where it was."
    )
    problems = (EmbeddingFailed,)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--model", default="", help="embedder or embedder:model; what the settings say by default")
        parser.add_argument("--background", action="store_true", help="only begin, and leave the work to the worker")
        parser.add_argument("--status", action="store_true", help="only say how far it is")
        parser.add_argument("--cancel", action="store_true", help="stop, and keep the model that there is")

    def handle(self, *args: Any, model: str, background: bool, status: bool, cancel: bool, **options: Any) -> None:
        by = Principal.of_command()
        if status:
            now = reembed_progress()
            self.stdout.write(_line(now) if now else "The index is not moving to another model.")
            return
        if cancel:
            self.stdout.write("Stopped." if reembed_cancel(by=by) else "The index is not moving to another model.")
            return
        building = reembed_start(model=model or configured_name(), by=by)
        if background:
            self.stdout.write(f"The worker moves the index to {building.name}.")
            return
        self._work(building.name)

    def _work(self, name: str) -> None:
        last: ReembedProgress | None = None
        while last is None or not last.finished:
            last = reembed_continue(progress=lambda now: self.stderr.write(f"\r{_line(now)}", ending=""))
            if last is None:
                break
        self.stderr.write("")
        self.stdout.write(f"The index answers with {name}.")


def _line(now: ReembedProgress) -> str:
    return f"{now.model}: {now.done:,} of {now.total:,}"

import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from identity.principal import Principal
from identity.selectors import agent_get
from memory.transfer.agent_export import agent_export
from nousweb.lib.commands import ServiceCommand


class Command(ServiceCommand):
    help = "Write an agent with all of its memory as JSON lines, for importagent. Without its tokens."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent", help="the agent's slug")
        parser.add_argument(
            "--out", type=Path, help="a new file, readable by its owner only; standard output by default"
        )
        parser.add_argument("--persona", default="", choices=["", "actor"], help="without what is the subconscious's")
        parser.add_argument("--audit", action="store_true", help="with its audit trail")

    def handle(self, *args: Any, **options: Any) -> None:
        by = Principal.of_command()
        agent = agent_get(options["agent"], Principal.of_command())
        lines = agent_export(agent=agent, by=by, with_audit=options["audit"], persona=options["persona"])
        out: Path | None = options["out"]
        if out is None:
            for line in lines:
                self.stdout.write(line, ending="")
            return
        part = out.with_name(out.name + ".part")
        try:
            if out.exists():
                raise CommandError(f"{out} is there already.")
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                count = sum(1 for line in lines if file.write(line))
            # Only a whole file gets the name.
            part.rename(out)
        except OSError as error:
            raise CommandError(f"{out}: {error.strerror}") from error
        print(f"{count:,} lines in {out}", file=sys.stderr)  # noqa: T201

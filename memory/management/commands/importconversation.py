import re
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from identity.models import Persona
from identity.principal import Principal
from identity.selectors import agent_get
from memory.management.progress import file_progress
from memory.transfer.conversation_readers import READERS, conversation_import
from memory.transfer.json_stream import printable


class Command(BaseCommand):
    help = "Import a conversation as events. Running it again goes on where it stopped and stores nothing twice."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--agent", required=True, help="the agent's slug")
        parser.add_argument("--format", required=True, choices=sorted(READERS))
        parser.add_argument("--persona", choices=Persona.values, default=Persona.ACTOR.value)
        parser.add_argument("--project", default="", help="key of the project that the events belong to")
        parser.add_argument("--task", default="", help="key of the task that the events belong to")
        parser.add_argument("--user", default="", help="key of the user whose events they are, * for everybody")
        parser.add_argument(
            "--conversation", default="all", help="which conversation of the file, counted from 1; all by default"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        number = options["conversation"]
        if number != "all" and not re.fullmatch(r"[0-9]{1,9}", number):
            raise CommandError("--conversation is a number or all.")
        with file_progress(self.stderr, path) as bar:
            imported = conversation_import(
                agent=agent_get(options["agent"], Principal.of_command()),
                path=path,
                format=options["format"],
                by=Principal.of_command(channel="import"),
                persona=options["persona"],
                project=options["project"],
                task=options["task"],
                user=options["user"],
                conversation=None if number == "all" else int(number),
                progress=lambda share, stored, repeated: bar.show(share, f"{stored:,} stored, {repeated:,} known"),
            )
        stored = f"{imported.stored:,} event{'' if imported.stored == 1 else 's'} stored"
        were = "was" if imported.repeated == 1 else "were"
        self.stderr.write(f"{stored}, {imported.repeated:,} {were} there already.")
        for why, count in imported.left_out.most_common():
            self.stderr.write(f"{count:,} left out: {printable(why)}")

from argparse import ArgumentParser
from typing import Any

from identity.models import Persona
from identity.policy.permissions import DEFAULT_SCOPES, SCOPE_PERMISSIONS
from identity.principal import Principal
from identity.selectors import agent_get
from identity.services.tokens import token_create
from nousweb.lib.commands import ServiceCommand


class Command(ServiceCommand):
    help = "Make an agent's token and print it, once, alone on standard output."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent", help="the agent's slug")
        parser.add_argument("--persona", required=True, choices=Persona.values)
        parser.add_argument(
            "--scope",
            action="append",
            choices=sorted(SCOPE_PERMISSIONS),
            help=f"may repeat; by default {', '.join(DEFAULT_SCOPES)}",
        )
        parser.add_argument("--name", default="command line")
        parser.add_argument(
            "--project", action="append", default=[], help="limits it to this project and global memory; may repeat"
        )
        parser.add_argument(
            "--global-memory", choices=["read", "write"], default="write", help="what a limited token does with it"
        )
        parser.add_argument("--user", default="", help="binds it to a user, with everybody's memory to read")

    def handle(self, *args: Any, **options: Any) -> None:
        _, secret = token_create(
            agent=agent_get(options["agent"], Principal.of_command()),
            persona=options["persona"],
            name=options["name"],
            scopes=options["scope"] or DEFAULT_SCOPES,
            projects=options["project"],
            global_memory=options["global_memory"],
            user=options["user"],
            by=Principal.of_command(),
        )
        self.stdout.write(secret)

from argparse import ArgumentParser
from typing import Any

from identity.models import AgentKind
from identity.principal import Principal
from identity.selectors import agent_get
from identity.services.agents import agent_create
from nousweb.lib.commands import ServiceCommand


class Command(ServiceCommand):
    help = "Make an agent, seeded from NOUS_IDENTITY_PROMPT and from facts of another agent where these are given."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("--name", default="", help="its name for people; the slug by default")
        parser.add_argument("--kind", default=AgentKind.SQUIRE, help=", ".join(AgentKind.values))
        parser.add_argument("--facts-from", default="", help="an agent whose facts about its user seed the preferences")

    def handle(self, *args: Any, **options: Any) -> None:
        agent = agent_create(
            slug=options["slug"],
            name=options["name"],
            kind=options["kind"],
            facts_from=agent_get(options["facts_from"], Principal.of_command()) if options["facts_from"] else None,
            by=Principal.of_command(),
        )
        self.stderr.write(f"Agent {agent.slug} is there, {agent.initiation_state}.")

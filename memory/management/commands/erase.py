from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from identity.principal import Principal
from identity.selectors import agent_get
from memory.models import Fact
from memory.services.erasure import Receipt, agent_erase, fact_erase, project_erase, subject_erase
from nousweb.lib.errors import DomainError


class Command(BaseCommand):
    help = "Erase a fact, a subject, a project or an agent for good. A receipt stays in the audit trail."

    def add_arguments(self, parser: ArgumentParser) -> None:
        kinds = parser.add_subparsers(dest="kind", required=True, metavar="fact|subject|project|agent")
        fact = kinds.add_parser("fact", help="one fact with its history")
        fact.add_argument("id", type=UUID)
        subject = kinds.add_parser("subject", help="every fact about a subject")
        subject.add_argument("agent", help="the agent's slug")
        subject.add_argument("subject", help="in any case of letters")
        project = kinds.add_parser("project", help="everything that carries the key of a project")
        project.add_argument("agent", help="the agent's slug")
        project.add_argument("project", help="its key, as it is written")
        agent = kinds.add_parser("agent", help="the agent with all of its memory, identity and tokens")
        agent.add_argument("agent", help="the agent's slug")
        for kind in (fact, subject, project, agent):
            kind.add_argument("--reason", required=True, help="kept in the receipt; it must not repeat what is erased")
            kind.add_argument("--no-input", action="store_true", help="ask nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["no_input"] and input("This cannot be undone. Type erase to go on: ").strip() != "erase":
            raise CommandError("Nothing was erased.")
        try:
            receipt = self._erase(options, Principal.of_command())
        except DomainError as error:
            raise CommandError(error.detail) from error
        self.stderr.write("Erased: " + ", ".join(f"{count:,} {name}" for name, count in receipt.rows.items()))
        if receipt.still_quoted:
            quoted = ", ".join(f"{count:,} {name}" for name, count in receipt.still_quoted.items())
            self.stderr.write(f"Still quoted in rows that are not part of it: {quoted}")

    def _erase(self, options: dict[str, Any], by: Principal) -> Receipt:
        reason = options["reason"]
        if options["kind"] == "fact":
            fact = Fact.objects.select_related("agent").filter(pk=options["id"]).first()
            if fact is None:
                raise CommandError("There is no such fact.")
            return fact_erase(fact=fact, by=by, reason=reason)
        agent = agent_get(options["agent"])
        if options["kind"] == "subject":
            return subject_erase(agent=agent, subject=options["subject"], by=by, reason=reason)
        if options["kind"] == "project":
            return project_erase(agent=agent, project=options["project"], by=by, reason=reason)
        return agent_erase(agent=agent, by=by, reason=reason)

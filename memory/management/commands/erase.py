from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError

from identity.models import Agent, Persona
from identity.principal import Principal
from identity.selectors import agent_get
from memory.models import Document, Fact
from memory.services.erasure import (
    Receipt,
    agent_erase,
    document_erase,
    documents_quoting,
    fact_erase,
    facts_about,
    project_erase,
    subject_erase,
    user_erase,
)
from nousweb.lib.commands import ServiceCommand


class Command(ServiceCommand):
    help = "Erase a fact, subject, document, project, user or agent for good. A receipt stays in the audit trail."

    def add_arguments(self, parser: ArgumentParser) -> None:
        kinds = parser.add_subparsers(dest="kind", required=True, metavar="fact|subject|document|project|user|agent")
        fact = kinds.add_parser("fact", help="one fact with its history")
        fact.add_argument("id", type=UUID)
        subject = kinds.add_parser("subject", help="every fact about a subject")
        subject.add_argument("agent", help="the agent's slug")
        subject.add_argument("subject", help="in any case of letters")
        for kind in (fact, subject):
            kind.add_argument("--documents", action="store_true", help="with the documents that quote what is erased")
        document = kinds.add_parser("document", help="what is kept under a key, with all of its versions")
        document.add_argument("id", type=UUID, help="of any of its versions")
        project = kinds.add_parser("project", help="everything that carries the key of a project")
        project.add_argument("agent", help="the agent's slug")
        project.add_argument("project", help="its key, as it is written")
        agent = kinds.add_parser("agent", help="the agent with all of its memory, identity and tokens")
        agent.add_argument("agent", help="the agent's slug")
        user = kinds.add_parser("user", help="everything that carries the key of a user")
        user.add_argument("agent", help="the agent's slug")
        user.add_argument("user", help="its key, as it is written")
        for kind in (fact, subject, document, project, user, agent):
            kind.add_argument("--reason", required=True, help="kept in the receipt; it must not repeat what is erased")
            kind.add_argument("--no-input", action="store_true", help="ask nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["no_input"] and input("This cannot be undone. Type erase to go on: ").strip() != "erase":
            raise CommandError("Nothing was erased.")
        receipt = self._erase(options, Principal.of_command())
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
            quoting = self._quoting(fact.agent, [fact], options)
            return fact_erase(fact=fact, by=by, reason=reason, documents=quoting)
        if options["kind"] == "document":
            document = Document.objects.select_related("agent").filter(pk=options["id"]).first()
            if document is None:
                raise CommandError("There is no such document.")
            return document_erase(document=document, by=by, reason=reason)
        agent = agent_get(options["agent"], Principal.of_command())
        if options["kind"] == "subject":
            quoting = self._quoting(agent, list(facts_about(agent, options["subject"])), options)
            return subject_erase(agent=agent, subject=options["subject"], by=by, reason=reason, documents=quoting)
        if options["kind"] == "user":
            return user_erase(agent=agent, user=options["user"], by=by, reason=reason)
        if options["kind"] == "project":
            return project_erase(agent=agent, project=options["project"], by=by, reason=reason)
        return agent_erase(agent=agent, by=by, reason=reason)

    def _quoting(self, agent: Agent, facts: list[Fact], options: dict[str, Any]) -> list[UUID]:
        """The documents that are to go with these facts."""
        if not options["documents"]:
            return []
        return [one.document.pk for one in documents_quoting(agent, facts, personas=Persona.values) if one.quotes]

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError

from identity.models import Agent, Persona
from identity.principal import Principal
from identity.selectors import agent_get
from memory.models import Document, Event, Fact
from memory.services.erasure import (
    Receipt,
    agent_erase,
    document_erase,
    documents_quoting,
    event_erase,
    fact_erase,
    facts_about,
    ids_by_type,
    memories_quoting,
    project_erase,
    subject_erase,
    user_erase,
)
from nousweb.lib.commands import ServiceCommand
from nousweb.lib.errors import existing

AGENT = {"agent": {"help": "the agent's slug"}}
KEY = {"help": "its key, as it is written"}
QUOTING = {"--documents": {"action": "store_true", "help": "with the documents that quote what is erased"}}
KINDS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "fact": ("one fact with its history", {"id": {"type": UUID}, **QUOTING}),
    "subject": ("every fact about a subject", {**AGENT, "subject": {"help": "in any case of letters"}, **QUOTING}),
    "document": (
        "what is kept under a key, with all of its versions",
        {"id": {"type": UUID, "help": "of any of its versions"}},
    ),
    "event": (
        "one event, with the prompts that quote it",
        {
            "id": {"type": int},
            "--memories": {"action": "store_true", "help": "with the events, facts and documents that quote it"},
        },
    ),
    "project": ("everything that carries the key of a project", {**AGENT, "project": KEY}),
    "user": ("everything that carries the key of a user", {**AGENT, "user": KEY}),
    "agent": ("the agent with all of its memory, identity and tokens", AGENT),
}
"""What can be erased, with its help and its arguments."""
ALWAYS: Mapping[str, Any] = {
    "--reason": {"required": True, "help": "kept in the receipt; it must not repeat what is erased"},
    "--no-input": {"action": "store_true", "help": "ask nothing"},
}


class Command(ServiceCommand):
    help = (
        "Erase a fact, subject, document, event, project, user or agent for good. A receipt stays in the audit trail."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        kinds = parser.add_subparsers(dest="kind", required=True, metavar="|".join(KINDS))
        for kind, (said, arguments) in KINDS.items():
            of_kind = kinds.add_parser(kind, help=said)
            for name, about in {**arguments, **ALWAYS}.items():
                of_kind.add_argument(name, **about)

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
            fact = _row(Fact, options)
            quoting = self._quoting(fact.agent, [fact], options)
            return fact_erase(fact=fact, by=by, reason=reason, documents=quoting)
        if options["kind"] == "document":
            return document_erase(document=_row(Document, options), by=by, reason=reason)
        if options["kind"] == "event":
            event = _row(Event, options)
            too = memories_quoting(event, personas=Persona.values, most=None) if options["memories"] else []
            return event_erase(event=event, by=by, reason=reason, **ids_by_type(too))
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
        found = documents_quoting(agent, facts, personas=Persona.values)
        return ids_by_type([one for one in found if one.quotes])["documents"]


def _row(model: Any, options: dict[str, Any]) -> Any:
    rows = model._default_manager.select_related("agent").filter(pk=options["id"])
    return existing(rows.first(), f"There is no such {model._meta.model_name}.")

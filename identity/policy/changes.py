"""The kinds of changes in the change feed, declared as data: their names, and the permission to see them.

A change is visible to those who may read its object: to a token by its scopes, to a person by their permissions.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """`permission` is needed to know of it and to read its body; `actions` are those of the audit trail that are it.

    `details` are members of the audit record's state after it that travel too: ids, numbers and words of our own.
    `named_by` is the attribute that names its object outside, where a key would count what everybody does.
    """

    permission: str
    actions: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    named_by: str = "pk"


VERSION, PROPOSAL = "identity.view_identityversion", "identity.view_changeproposal"
FACT, EPISODE, REVIEW = "memory.view_fact", "memory.view_episode", "memory.view_memoryreview"
CENSOR, PROCEDURE, DECISION = "memory.view_censor", "memory.view_procedure", "memory.view_decision"
DOCUMENT = "memory.view_document"
EVENT, WORKING, CONTEXT = "memory.view_event", "memory.view_workingmemory", "context.assemble_context"
EXPECTATION = "context.view_expectation"

CHANGE_KINDS: dict[str, ChangeKind] = {
    "agent.changed": ChangeKind(
        "identity.view_agent",
        ("agent.create", "agent.update", "agent.configure", "agent.reinitiate", "agent.import"),
        named_by="slug",
    ),
    "log.sealed": ChangeKind(
        "identity.view_agent", details=("kind", "number", "first", "count", "root", "chain_previous", "sealed_at")
    ),
    "identity.changed": ChangeKind(VERSION, details=("version",)),
    "proposal.created": ChangeKind(PROPOSAL, ("proposal.create",), ("base_version",)),
    "proposal.decided": ChangeKind(PROPOSAL, details=("status",)),
    "proposal.withdrawn": ChangeKind(PROPOSAL, ("proposal.withdraw",)),
    "proposal.expired": ChangeKind(PROPOSAL, ("proposal.expire",)),
    "proposal.reopened": ChangeKind(PROPOSAL),
    "fact.learned": ChangeKind(FACT, ("fact.store",)),
    "fact.confirmed": ChangeKind(FACT, ("fact.confirm",)),
    "fact.superseded": ChangeKind(FACT, ("fact.supersede",), ("superseded_by",)),
    "fact.merged": ChangeKind(FACT, ("fact.merge",), ("superseded_by",)),
    "fact.edited": ChangeKind(FACT, ("fact.edit", "fact.unconfirm")),
    "fact.invalidated": ChangeKind(FACT, ("fact.invalidate",)),
    "fact.restored": ChangeKind(FACT, ("fact.restore",)),
    "fact.erased": ChangeKind(FACT),
    "subject.created": ChangeKind(FACT, ("subject.create",)),
    "subject.changed": ChangeKind(
        FACT, ("subject.alias_add", "subject.edit", "subject.merge", "subject.split", "subject.undo"), ("into", "other")
    ),
    "review.opened": ChangeKind(REVIEW, ("memory_review.ask",), ("kind",)),
    "review.resolved": ChangeKind(REVIEW, ("memory_review.resolve",), ("resolution",)),
    "review.reopened": ChangeKind(REVIEW, ("memory_review.undo",)),
    "review.expired": ChangeKind(REVIEW, ("memory_review.expire",)),
    "episode.opened": ChangeKind(EPISODE, ("episode.open",)),
    "episode.extended": ChangeKind(EPISODE, ("episode.append",)),
    "episode.updated": ChangeKind(EPISODE, ("episode.update", "episode.describe")),
    "episode.closed": ChangeKind(EPISODE, ("episode.close",)),
    "decision.recorded": ChangeKind(DECISION, ("decision.record",)),
    "decision.reviewed": ChangeKind(DECISION, ("decision.review",), ("outcome",)),
    "decision.updated": ChangeKind(DECISION, ("decision.update",)),
    "decision.linked": ChangeKind(DECISION, ("decision.link",), ("episode",)),
    "document.stored": ChangeKind(DOCUMENT, ("document.put", "document.restore"), ("version",)),
    "document.superseded": ChangeKind(DOCUMENT, ("document.supersede",), ("superseded_by",)),
    "document.retired": ChangeKind(DOCUMENT, ("document.retire",)),
    "document.erased": ChangeKind(DOCUMENT),
    "document.updated": ChangeKind(DOCUMENT, ("document.update",)),
    "procedure.created": ChangeKind(PROCEDURE, ("procedure.create",)),
    "procedure.updated": ChangeKind(PROCEDURE, ("procedure.update",)),
    "procedure.used": ChangeKind(PROCEDURE, ("procedure.activate", "procedure.report")),
    "censor.created": ChangeKind(CENSOR, ("censor.create",)),
    "censor.updated": ChangeKind(CENSOR, ("censor.update", "censor.retire", "censor.revive", "censor.false_positive")),
    "censor.triggered": ChangeKind(CENSOR, details=("verdict",)),
    "events.recorded": ChangeKind(EVENT, ("events.record",), ("count", "first_id", "last_id")),
    "loop.closed": ChangeKind(EVENT, ("loop.close",), ("closed_by",), named_by="loop_id"),
    "working.changed": ChangeKind(
        WORKING,
        ("working.set", "working.clear", "working.item_add", "working.item_remove", "working.thread_open",
         "working.thread_close"),
        named_by="session_id",
    ),
    "context.assembled": ChangeKind(CONTEXT),
    "context.answered": ChangeKind(CONTEXT),
    "context.outcome": ChangeKind(CONTEXT, ("context.outcome",), ("outcome",)),
    "pin.added": ChangeKind(CONTEXT, ("context.pin",), ("type",), named_by="item_id"),
    "pin.removed": ChangeKind(CONTEXT, ("context.unpin",), named_by="item_id"),
    "expectation.changed": ChangeKind(
        EXPECTATION, ("expectation.create", "expectation.update", "expectation.retire", "expectation.restore")
    ),
    "expectation.broken": ChangeKind(EXPECTATION, details=("state",)),
    "expectation.mended": ChangeKind(EXPECTATION, details=("state",)),
}  # fmt: skip
"""By name: the type of the object, a dot, and the action."""

KIND_OF_ACTION = {action: kind for kind, declared in CHANGE_KINDS.items() for action in declared.actions}

KIND_OF_VERB = {"create": "created", "update": "updated", "retire": "retired", "restore": "restored"}
"""Names in the feed for plain actions on an object."""


def changes_declare(name: str, permission: str, verbs: Iterable[str]) -> None:
    """Let the feed tell of plain actions (`KIND_OF_VERB`) on objects called `name`: once, while the apps are set up.

    Raises ValueError for a kind that is declared already.
    """
    for verb in verbs:
        kind, action = f"{name}.{KIND_OF_VERB[verb]}", f"{name}.{verb}"
        if kind in CHANGE_KINDS:
            raise ValueError(f"{kind} is declared already.")
        CHANGE_KINDS[kind] = ChangeKind(permission, (action,))
        KIND_OF_ACTION[action] = kind


NOT_IN_FEED = frozenset(
    {
        "token.create", "token.revoke", "token.rotate", "secret.rewrite",
        "agent.erase", "fact.erase", "subject.erase", "document.erase",
        "project.erase",
        "index.retry", "lifecycle.retry", "memory.import", "memory_import.create", "memory_import.start",
        "memory_import.stop", "memory_import.discard", "memory_export.start", "memory_export.stop",
        "memory_export.discard", "memory_export.download",
        "memory.hold", "memory.release",
        "identity.update", "identity.rollback", "identity.seed", "proposal.approve", "proposal.revert",
        "proposal.undo", "proposal.reject", "proposal.keep", "censor.trigger",
        "webhook.create", "webhook.update", "webhook.delete", "webhook.disable", "delivery.replay",
        "item.assign", "item.snooze", "item.unsnooze", "item.skip", "item.return", "item.comment", "item.ask_opinion",
        "item.give_opinion", "notification.read", "notification.mail", "saved_filter.save", "saved_filter.delete",
        "mail_preference.set", "list.export",
        "demo_tour.begin", "demo_tour.leave", "demo_tour.resume", "demo_tour.look",
        "playground.talk",
    }
)  # fmt: skip
"""Actions on agents that another change reports (a version: `identity.changed`) or that are no domain event."""

MAX_PAGE = 500
LONGEST_WAIT_SECONDS = 20
POLL_SECONDS = 0.25
"""A reader that waits looks so often: two indexed statements, outside of every transaction."""

RETRY_WAIT_SECONDS = 2
"""After so long a reader comes again that found no place to wait."""

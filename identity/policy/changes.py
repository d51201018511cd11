"""The actions of the audit trail and the kinds of changes in the change feed, declared as data.

A change is visible to those who may read its object: to a token by its scopes, to a person by their permissions.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """`permission` is needed to know of it and to read its body.

    `details` are members of the audit record's state after it that travel too: ids, numbers and words of our own.
    `named_by` is the attribute that names its object outside, where a key would count what everybody does.
    """

    permission: str
    details: tuple[str, ...] = ()
    named_by: str = "pk"


VERSION, PROPOSAL = "identity.view_identityversion", "identity.view_changeproposal"
FACT, EPISODE, REVIEW = "memory.view_fact", "memory.view_episode", "memory.view_memoryreview"
CENSOR, PROCEDURE, DECISION = "memory.view_censor", "memory.view_procedure", "memory.view_decision"
DOCUMENT = "memory.view_document"
EVENT, WORKING, CONTEXT = "memory.view_event", "memory.view_workingmemory", "context.assemble_context"
EXPECTATION = "context.view_expectation"

CHANGE_KINDS: dict[str, ChangeKind] = {
    "agent.changed": ChangeKind("identity.view_agent", named_by="slug"),
    "log.sealed": ChangeKind(
        "identity.view_agent", details=("kind", "number", "first", "count", "root", "chain_previous", "sealed_at")
    ),
    "identity.changed": ChangeKind(VERSION, details=("version",)),
    "proposal.created": ChangeKind(PROPOSAL, details=("base_version",)),
    "proposal.decided": ChangeKind(PROPOSAL, details=("status",)),
    "proposal.withdrawn": ChangeKind(PROPOSAL),
    "proposal.expired": ChangeKind(PROPOSAL),
    "proposal.reopened": ChangeKind(PROPOSAL),
    "fact.learned": ChangeKind(FACT),
    "fact.confirmed": ChangeKind(FACT),
    "fact.superseded": ChangeKind(FACT, details=("superseded_by",)),
    "fact.merged": ChangeKind(FACT, details=("superseded_by",)),
    "fact.edited": ChangeKind(FACT),
    "fact.invalidated": ChangeKind(FACT),
    "fact.restored": ChangeKind(FACT),
    "fact.erased": ChangeKind(FACT),
    "subject.created": ChangeKind(FACT),
    "subject.changed": ChangeKind(FACT, details=("into", "other")),
    "review.opened": ChangeKind(REVIEW, details=("kind",)),
    "review.resolved": ChangeKind(REVIEW, details=("resolution",)),
    "review.reopened": ChangeKind(REVIEW),
    "review.expired": ChangeKind(REVIEW),
    "episode.opened": ChangeKind(EPISODE),
    "episode.extended": ChangeKind(EPISODE),
    "episode.updated": ChangeKind(EPISODE),
    "episode.closed": ChangeKind(EPISODE),
    "decision.recorded": ChangeKind(DECISION),
    "decision.reviewed": ChangeKind(DECISION, details=("outcome",)),
    "decision.updated": ChangeKind(DECISION),
    "decision.linked": ChangeKind(DECISION, details=("episode",)),
    "document.stored": ChangeKind(DOCUMENT, details=("version",)),
    "document.superseded": ChangeKind(DOCUMENT, details=("superseded_by",)),
    "document.retired": ChangeKind(DOCUMENT),
    "document.erased": ChangeKind(DOCUMENT),
    "document.updated": ChangeKind(DOCUMENT),
    "procedure.created": ChangeKind(PROCEDURE),
    "procedure.updated": ChangeKind(PROCEDURE),
    "procedure.used": ChangeKind(PROCEDURE),
    "censor.created": ChangeKind(CENSOR),
    "censor.updated": ChangeKind(CENSOR),
    "censor.triggered": ChangeKind(CENSOR, details=("verdict",)),
    "event.erased": ChangeKind(EVENT),
    "events.recorded": ChangeKind(EVENT, details=("count", "first_id", "last_id")),
    "loop.closed": ChangeKind(EVENT, details=("closed_by",), named_by="loop_id"),
    "working.changed": ChangeKind(WORKING, named_by="session_id"),
    "context.assembled": ChangeKind(CONTEXT),
    "context.answered": ChangeKind(CONTEXT),
    "context.outcome": ChangeKind(CONTEXT, details=("outcome",)),
    "pin.added": ChangeKind(CONTEXT, details=("type",), named_by="item_id"),
    "pin.removed": ChangeKind(CONTEXT, named_by="item_id"),
    "expectation.changed": ChangeKind(EXPECTATION),
    "expectation.broken": ChangeKind(EXPECTATION, details=("state",)),
    "expectation.mended": ChangeKind(EXPECTATION, details=("state",)),
}
"""By name: the type of the object, a dot, and the action."""

_FACTS, _EVENTS = ("user_profile", "reported", "facts"), ("long_term", "short_term")
_SEARCHED = ("decisions", "facts", "procedures", "episodes", "documents", *_EVENTS)
BLOCKS: dict[str, tuple[str, ...]] = {
    "agent": (
        "identity",
        "user_profile",
        "censors",
        "frame",
        "reported",
        "working_memory",
        "conversation",
        "recent",
        *_SEARCHED,
    ),
    "identity": ("identity",),
    "fact": _FACTS,
    "subject": _FACTS,
    "review": _FACTS,
    "pin": ("user_profile", "reported", *_SEARCHED),
    "censor": ("censors",),
    "working": ("frame", "working_memory"),
    "decision": ("decisions",),
    "procedure": ("procedures",),
    "episode": ("episodes", "recent"),
    "document": ("documents",),
    "event": (*_EVENTS, "recent"),
    "events": (*_EVENTS, "recent"),
    "loop": (*_EVENTS, "recent"),
}
"""The blocks of prompts that changes of an object may change, by its type (context/engine/context_record.py)."""


def blocks_touched(kind: str) -> tuple[str, ...]:
    """The blocks of prompts that a change of this kind may change."""
    return () if kind == "censor.triggered" else BLOCKS.get(kind.partition(".")[0], ())


ACTIONS: dict[str, tuple[str, str]] = {
    "agent.configure": ("changed the prompt settings of", "agent.changed"),
    "agent.create": ("created the agent", "agent.changed"),
    "agent.erase": ("erased the agent", ""),
    "agent.import": ("imported the agent", "agent.changed"),
    "agent.reinitiate": ("rewrote from facts the identity of", "agent.changed"),
    "agent.update": ("changed the agent", "agent.changed"),
    "censor.create": ("added the censor", "censor.created"),
    "censor.false_positive": ("reported a false positive of", "censor.updated"),
    "censor.retire": ("retired the censor", "censor.updated"),
    "censor.revive": ("reactivated the censor", "censor.updated"),
    "censor.trigger": ("triggered a censor of", ""),
    "censor.update": ("changed the censor", "censor.updated"),
    "context.outcome": ("reported the outcome of", "context.outcome"),
    "context.pin": ("pinned", "pin.added"),
    "context.unpin": ("unpinned", "pin.removed"),
    "decision.link": ("linked the decision", "decision.linked"),
    "decision.record": ("recorded the decision", "decision.recorded"),
    "decision.review": ("reviewed the decision", "decision.reviewed"),
    "decision.update": ("changed the decision", "decision.updated"),
    "delivery.replay": ("resent the delivery", ""),
    "demo_tour.begin": ("began the guided demo of", ""),
    "demo_tour.leave": ("left the guided demo of", ""),
    "demo_tour.look": ("viewed, in the guided demo,", ""),
    "demo_tour.resume": ("resumed the guided demo of", ""),
    "document.erase": ("erased the document", ""),
    "document.put": ("stored the document", "document.stored"),
    "document.restore": ("restored the document", "document.stored"),
    "document.retire": ("retired the document", "document.retired"),
    "document.supersede": ("replaced the document", "document.superseded"),
    "document.update": ("changed the document", "document.updated"),
    "episode.append": ("added to the episode", "episode.extended"),
    "episode.close": ("closed the episode", "episode.closed"),
    "episode.describe": ("described the episode", "episode.updated"),
    "episode.open": ("opened the episode", "episode.opened"),
    "episode.update": ("changed the episode", "episode.updated"),
    "event.erase": ("erased the event", ""),
    "events.record": ("recorded events of", "events.recorded"),
    "expectation.create": ("added the expectation", "expectation.changed"),
    "expectation.restore": ("restored the expectation", "expectation.changed"),
    "expectation.retire": ("retired the expectation", "expectation.changed"),
    "expectation.update": ("changed the expectation", "expectation.changed"),
    "fact.confirm": ("confirmed the fact", "fact.confirmed"),
    "fact.edit": ("recategorised the fact", "fact.edited"),
    "fact.erase": ("erased the fact", ""),
    "fact.invalidate": ("marked as wrong the fact", "fact.invalidated"),
    "fact.merge": ("merged the fact", "fact.merged"),
    "fact.restore": ("restored the fact", "fact.restored"),
    "fact.store": ("stored the fact", "fact.learned"),
    "fact.supersede": ("replaced the fact", "fact.superseded"),
    "fact.unconfirm": ("undid a confirmation of the fact", "fact.edited"),
    "fact.update": ("changed the fact", "fact.edited"),
    "identity.rollback": ("rolled back", ""),
    "identity.seed": ("seeded", ""),
    "identity.update": ("wrote", ""),
    "knownsource.report": ("reported the source", ""),
    "index.retry": ("retried failed embeddings of", ""),
    "invitation.accept": ("accepted the invitation", ""),
    "invitation.create": ("created the invitation", ""),
    "invitation.revoke": ("revoked the invitation", ""),
    "item.ask_opinion": ("asked for a second opinion on", ""),
    "item.assign": ("assigned", ""),
    "item.comment": ("commented on", ""),
    "item.give_opinion": ("gave a second opinion on", ""),
    "item.return": ("returned to an inbox", ""),
    "item.skip": ("skipped", ""),
    "item.snooze": ("snoozed", ""),
    "item.unsnooze": ("ended the snooze of", ""),
    "lifecycle.retry": ("requeued the job", ""),
    "list.export": ("exported the list", ""),
    "log.problem": ("found problems in", ""),
    "log.verify": ("requested a verification of", ""),
    "login.lock": ("locked the log-in of", ""),
    "loop.close": ("closed the session", "loop.closed"),
    "mail_preference.set": ("changed the e-mail preferences of", ""),
    "memory.hold": ("quarantined", ""),
    "memory.import": ("imported memories into", ""),
    "memory.release": ("released from quarantine", ""),
    "memory_export.discard": ("deleted an export of", ""),
    "memory_export.download": ("downloaded an export of", ""),
    "memory_export.start": ("started an export of", ""),
    "memory_export.stop": ("stopped an export of", ""),
    "memory_import.create": ("uploaded a file to import into", ""),
    "memory_import.discard": ("discarded an import into", ""),
    "memory_import.start": ("started an import into", ""),
    "memory_import.stop": ("stopped an import into", ""),
    "memory_review.ask": ("opened the review", "review.opened"),
    "memory_review.expire": ("expired the review", "review.expired"),
    "memory_review.resolve": ("resolved the review", "review.resolved"),
    "memory_review.undo": ("undid the resolution of the review", "review.reopened"),
    "notification.mail": ("sent e-mail to", ""),
    "notification.read": ("marked notifications as read of", ""),
    "oauth_client.create": ("added the client", ""),
    "oauth_client.delete": ("deleted the client", ""),
    "oauth_client.register": ("registered the client", ""),
    "playground.talk": ("talked in the playground to", ""),
    "procedure.activate": ("used the procedure", "procedure.used"),
    "procedure.create": ("added the procedure", "procedure.created"),
    "procedure.report": ("reported on the procedure", "procedure.used"),
    "procedure.update": ("changed the procedure", "procedure.updated"),
    "profile.create": ("added the profile", ""),
    "profile.update": ("changed the profile", ""),
    "project.erase": ("erased the project", ""),
    "user.assign": ("assigned memories to a user of", ""),
    "user.erase": ("erased a user of", ""),
    "user.export": ("exported a user of", ""),
    "proposal.approve": ("approved", ""),
    "proposal.create": ("proposed", "proposal.created"),
    "proposal.expire": ("expired", "proposal.expired"),
    "proposal.keep": ("kept", ""),
    "proposal.reject": ("rejected", ""),
    "proposal.revert": ("reverted", ""),
    "proposal.undo": ("undid the decision on", ""),
    "proposal.withdraw": ("withdrew", "proposal.withdrawn"),
    "saved_filter.delete": ("removed the filter", ""),
    "saved_filter.save": ("saved the filter", ""),
    "schedule.pause": ("paused the schedule", ""),
    "schedule.refuse": ("refused the schedule", ""),
    "schedule.resume": ("resumed the schedule", ""),
    "schedule.run": ("ran the schedule now:", ""),
    "screening.end": ("finished screening", ""),
    "screening.start": ("started screening", ""),
    "second_factor.enrol": ("set up the second factor of", ""),
    "second_factor.recover": ("used a recovery code of", ""),
    "second_factor.remove": ("removed the second factor of", ""),
    "second_factor.renew": ("created new recovery codes for", ""),
    "second_factor.require": ("required a second factor for", ""),
    "second_factor.reset": ("reset the second factor of", ""),
    "second_factor.waive": ("no longer required a second factor for", ""),
    "secret.rewrite": ("re-encrypted the secret of", ""),
    "subject.alias_add": ("added a name to the subject", "subject.changed"),
    "subject.create": ("added the subject", "subject.created"),
    "subject.edit": ("changed the subject", "subject.changed"),
    "subject.erase": ("erased the subject", ""),
    "subject.merge": ("merged the subject", "subject.changed"),
    "subject.split": ("split the subject", "subject.changed"),
    "subject.undo": ("undid a change of the subject", "subject.changed"),
    "task.refuse": ("refused the task", ""),
    "token.create": ("created the token", ""),
    "token.revoke": ("revoked the token", ""),
    "token.rotate": ("rotated the token", ""),
    "user.agents": ("changed the agents of", ""),
    "user.create": ("added the account", ""),
    "user.delete": ("deleted the account", ""),
    "user.link": ("connected the log-in of", ""),
    "user.name": ("changed the full name of", ""),
    "user.password": ("changed the password of", ""),
    "user.rights": ("changed the rights of", ""),
    "user.roles": ("changed the roles of", ""),
    "user.sessions_end": ("ended the sessions of", ""),
    "user.update": ("changed the account", ""),
    "webhook.create": ("added the webhook", ""),
    "webhook.delete": ("deleted the webhook", ""),
    "webhook.disable": ("disabled the webhook", ""),
    "webhook.update": ("changed the webhook", ""),
    "working.clear": ("cleared the working memory of", "working.changed"),
    "working.item_add": ("added an item to the working memory of", "working.changed"),
    "working.item_remove": ("removed an item from the working memory of", "working.changed"),
    "working.set": ("set the working memory of", "working.changed"),
    "working.thread_close": ("closed a thread in the working memory of", "working.changed"),
    "working.thread_open": ("opened a thread in the working memory of", "working.changed"),
}
"""The actions of the audit trail: a phrase, before which the author stands and after it the object, and the kind of
change that the feed tells of; "" for what another change reports (a version: `identity.changed`) or is no domain event.
"""

ERASURES = tuple(action for action in ACTIONS if action.endswith(".erase"))
"""Actions whose records are receipts."""
KIND_OF_ACTION = {action: kind for action, (_, kind) in ACTIONS.items() if kind}

PLAIN_ACTIONS = {
    "create": ("added", "created"),
    "update": ("changed", "updated"),
    "retire": ("retired", "retired"),
    "restore": ("restored", "restored"),
}
"""The phrase and the name in the feed of plain actions on an object."""


def action_register(name: str, label: str, verb: str, permission: str) -> None:
    """Declare a plain action on objects called `name`, for people `label`: once, while the apps are set up.

    Raises ValueError for a kind of change that is declared already.
    """
    phrase, word = PLAIN_ACTIONS[verb]
    action, kind = f"{name}.{verb}", f"{name}.{word}"
    if kind in CHANGE_KINDS:
        raise ValueError(f"{kind} is declared already.")
    CHANGE_KINDS[kind] = ChangeKind(permission)
    BLOCKS.setdefault(name, (f"{name}s",))
    ACTIONS[action], KIND_OF_ACTION[action] = (f"{phrase} the {label}", kind), kind


def audit_phrase(action: str) -> str:
    """An action as people say it; of one that is not declared, its words in their order."""
    noun, _, verb = action.partition(".")
    return ACTIONS[action][0] if action in ACTIONS else f"({verb} {noun})".replace("_", " ")


MAX_PAGE = 500
LONGEST_WAIT_SECONDS = 20
POLL_SECONDS = 0.25
"""A reader that waits looks so often: two indexed statements, outside of every transaction."""

RETRY_WAIT_SECONDS = 2
"""After so long a reader comes again that found no place to wait."""

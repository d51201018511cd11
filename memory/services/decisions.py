"""Record decisions with their evidence, and review them by their outcomes."""

from typing import Any

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import Decision, Episode, carried_keys, inherited_user, keys_of
from memory.persona import VIEWS, change_check
from memory.policy import MAX_CONTENT_CHARACTERS
from memory.services.memory_write import (
    fields_change,
    memory_add,
    memory_endorse,
    memory_lock,
    memory_new,
    memory_stored,
    memory_update,
)
from memory.services.trust import least_trusted
from nousweb.lib import Invalid, choice_check, clock, text_check


@agent_transaction()
def decision_record(
    *,
    agent: Agent,
    by: Principal,
    description: str,
    episode: Episode | None = None,
    project: str | None = None,
    task: str | None = None,
    user: str | None = None,
    **fields: Any,
) -> Decision:
    """Record a choice of the persona that `by` acts as; `fields` are context, category, confidence, stakes, reasons,
    tags, scope and importance.

    Without a `project`, `task` or `user` of its own it has those of its episode.
    Raises Invalid, naming the field, also for an episode of a memory that this persona does not see; NotAllowed.
    """
    hidden = episode and not (episode.persona in VIEWS[by.persona].personas and by.reads(episode))
    if episode and (episode.agent_id != agent.pk or hidden):
        raise Invalid("There is no such episode in this memory.", field="episode")
    of = episode or Decision()
    decision = memory_new(
        Decision, agent, by,
        description=description, project=of.project if project is None else project,
        task=of.task if task is None else task, user=inherited_user(user, episode),
        rests_on=episode.trust if episode else "", **fields,
    )  # fmt: skip
    decision.episode = episode
    after = {name: getattr(decision, name) for name in ("description", "confidence", "stakes")}
    return memory_add(decision, by, "decision.record", after | carried_keys(decision))


@agent_transaction(of="decision")
def decision_review(*, decision: Decision, outcome: str, by: Principal, note: str = "") -> Decision:
    """Say what came of a decision; a later review takes the place of this one, and the audit trail keeps both.

    Raises Invalid, NotAllowed, or Conflict where people made or reviewed it and `by` is no person.
    """
    decision = memory_lock(decision, by, "memory.change_decision")
    choice_check("outcome", outcome, Decision.Outcome.values)
    note = text_check("note", note, MAX_CONTENT_CHARACTERS)
    before = {
        "outcome": decision.outcome,
        "outcome_note": decision.outcome_note,
        "reviewed_by": decision.reviewed_by,
    }
    now = clock.now()
    decision.put(outcome=outcome, outcome_note=note, reviewed_by=by.name, reviewed_at=now, updated_at=now)
    memory_endorse(decision, by)
    after = {"outcome": outcome, "outcome_note": note, "reviewed_by": by.name}
    memory_stored(decision, by, "decision.review", before=before, after=after)
    return decision


@agent_transaction(of="decision")
def decision_update(*, decision: Decision, by: Principal, **fields: Any) -> Decision:
    """Change the metadata of a decision and whether search shows it; what was decided, and on what, stays as it was.

    Raises Invalid, NotAllowed, or Conflict where people made or reviewed it and `by` is no person.
    """
    return memory_update(decision, by, fields, only="category tags importance active")


@agent_transaction(of="episode")
def decisions_link(*, episode: Episode, by: Principal) -> int:
    """Link the decisions that were made during a closed episode, and belong to none, to it; returns how many.

    Only those of the same project, task and user.
    """
    change_check(episode, by, "memory.change_decision")
    if episode.ended_at is None:
        return 0
    during = Decision.objects.filter(
        agent=episode.agent,
        persona=episode.persona,
        episode__isnull=True,
        **keys_of(episode),
        created_at__gte=episode.started_at,
        created_at__lte=episode.ended_at,
    )
    linked = during.select_for_update(of=("self",)).select_related("agent").order_by("pk")[:100]
    for decision in linked:
        fields_change(decision, {"episode": episode, "origin": least_trusted((decision.origin, episode.trust))})
        audit_record(
            by=by, action="decision.link", target=decision, agent=decision.agent, after={"episode": str(episode.pk)}
        )
    return len(linked)

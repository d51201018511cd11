"""Record decisions with their evidence, and review them by their outcomes."""

from collections.abc import Sequence

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import Decision, Episode, Scope, carried_keys
from memory.persona import VIEWS, change_check
from memory.policy import MAX_CONTENT_CHARACTERS, MAX_REASONS, MAX_REMARK_CHARACTERS
from memory.services.memory_write import (
    fields_change,
    keys_move,
    memory_add,
    memory_change,
    memory_endorse,
    memory_lock,
    memory_stored,
    new_memory_fields,
)
from memory.services.trust import least_trusted
from nousweb.lib import clock
from nousweb.lib.errors import Invalid
from nousweb.lib.validation import choice_check, tags_check, text_check, texts_check, unit_check, word_check


@agent_transaction()
def decision_record(
    *,
    agent: Agent,
    description: str,
    by: Principal,
    context: str = "",
    category: str = "",
    confidence: float = 0.5,
    stakes: str = Decision.Stakes.MEDIUM,
    reasons: Sequence[str] = (),
    tags: Sequence[str] = (),
    scope: str = Scope.GLOBAL,
    project: str | None = None,
    task: str | None = None,
    importance: float = 0.5,
    episode: Episode | None = None,
) -> Decision:
    """Record a choice of the persona that `by` acts as. `confidence` and `importance` lie in [0, 1].

    Without a `project` or `task` of its own it has those of its episode.
    Raises Invalid, naming the field, also for an episode of a memory that this persona does not see; NotAllowed.
    """
    hidden = episode and not (episode.persona in VIEWS[by.persona].personas and by.reads_project(episode.project))
    if episode and (episode.agent_id != agent.pk or hidden):
        raise Invalid("There is no such episode in this memory.", field="episode")
    held = episode or Decision()
    decision = Decision(
        **new_memory_fields(
            agent,
            by,
            "memory.add_decision",
            tags=tags,
            scope=scope,
            project=held.project if project is None else project,
            task=held.task if task is None else task,
            importance=importance,
            rests_on=episode.trust if episode else "",
        ),
        description=text_check("description", description, MAX_CONTENT_CHARACTERS, required=True),
        context=text_check("context", context, MAX_CONTENT_CHARACTERS),
        category=word_check("category", category) if category else "",
        confidence=unit_check("confidence", confidence),
        stakes=choice_check("stakes", stakes, Decision.Stakes.values),
        reasons=texts_check("reasons", reasons, count=MAX_REASONS, limit=MAX_REMARK_CHARACTERS),
        episode=episode,
    )
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
    decision.outcome, decision.outcome_note = outcome, note
    decision.reviewed_by, decision.reviewed_at = by.name, clock.now()
    decision.updated_at = decision.reviewed_at
    decision.save(update_fields=["outcome", "outcome_note", "reviewed_by", "reviewed_at", "updated_at"])
    memory_endorse(decision, by)
    after = {"outcome": outcome, "outcome_note": note, "reviewed_by": by.name}
    memory_stored(decision, by, "decision.review", before=before, after=after)
    return decision


@agent_transaction(of="decision")
def decision_update(
    *,
    decision: Decision,
    by: Principal,
    category: str | None = None,
    tags: Sequence[str] | None = None,
    scope: str | None = None,
    project: str | None = None,
    task: str | None = None,
    importance: float | None = None,
    active: bool | None = None,
) -> Decision:
    """Change the metadata of a decision and whether search shows it; what was decided, and on what, stays as it was.

    Raises Invalid, NotAllowed, or Conflict where people made or reviewed it and `by` is no person.
    """
    decision = memory_lock(decision, by, "memory.change_decision")
    given = {
        "category": word_check("category", category) if category else category,
        "tags": None if tags is None else tags_check(tags),
        "importance": None if importance is None else unit_check("importance", importance),
        "active": active,
        **keys_move(decision, by, scope, project, task),
    }
    memory_change(decision, by, "decision.update", given)
    return decision


@agent_transaction(of="episode")
def decisions_link(*, episode: Episode, by: Principal) -> int:
    """Link the decisions that were made during a closed episode, and belong to none, to it; returns how many.

    Only those of the same project and task.
    """
    change_check(episode, by, "memory.change_decision")
    if episode.ended_at is None:
        return 0
    during = Decision.objects.filter(
        agent=episode.agent,
        persona=episode.persona,
        episode__isnull=True,
        project=episode.project,
        task=episode.task,
        created_at__gte=episode.started_at,
        created_at__lte=episode.ended_at,
    )
    linked = 0
    for decision in during.select_for_update(of=("self",)).select_related("agent").order_by("pk")[:100]:
        fields_change(decision, {"episode": episode, "origin": least_trusted((decision.origin, episode.trust))})
        audit_record(
            by=by, action="decision.link", target=decision, agent=decision.agent, after={"episode": str(episode.pk)}
        )
        linked += 1
    return linked

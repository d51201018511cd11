"""Undo a change of a subject, recorded as another change."""

from collections.abc import Callable, Mapping
from uuid import UUID

from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import Fact, Subject, SubjectAlias, SubjectChange
from memory.services.reviews.states import reviews_settle
from memory.services.subjects.registry import Action, subjects_lock
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, existing


@agent_transaction(of="change")
def subject_change_undo(*, change: SubjectChange, by: Principal, reason: str = "") -> SubjectChange:
    """Undo a merge, a split, a spelling or an edit. Only people.

    What came with the spellings of a merge goes back with them, also what was learned since. Raises Conflict where it
    has been undone, or what it changed has been changed since, NotAllowed, NotFound.
    """
    found = existing(
        SubjectChange.objects.select_related("subject__agent", "subject__merged_into")
        .filter(agent=change.agent_id, pk=change.pk)
        .first(),
        "There is no such change.",
    )
    (subject,) = subjects_lock(found.subject, by=by)
    # Read again, under the lock.
    change = SubjectChange.objects.select_related("other").get(agent=found.agent_id, pk=found.pk)
    if change.undone_at is not None:
        raise Conflict("This change has already been undone.")
    if change.action not in UNDO:
        raise Conflict("The first naming of a subject cannot be undone.")
    UNDO[change.action](subject, change)
    change.undone_at = clock.now()
    change.save(update_fields=["undone_at"])
    reviews_settle(agent_id=subject.agent_id, subjects=[subject.pk, *filter(None, [change.other_id])])
    audit_record(
        by=by,
        action="subject.undo",
        target=subject,
        agent=subject.agent,
        before={"change": change.summary},
        after={"change": f"Undone: {change.summary}"},
        message=reason,
    )
    return change


def _merge_undo(subject: Subject, change: SubjectChange) -> None:
    other = change.other
    if other is None or other.merged_into_id != subject.pk:
        raise Conflict("The merged subject has been changed since then.")
    keys = _still_there(subject, change.details["aliases"])
    details = change.details
    Subject.objects.filter(agent=subject.agent_id, pk=subject.pk).update(
        name=details["name"], kind=details["kind"], is_user=subject.is_user and details["is_user"]
    )
    is_user = details["was_user"] and not _is_there_a_user(subject)
    Subject.objects.filter(agent=subject.agent_id, pk=other.pk).update(merged_into=None, is_user=is_user)
    SubjectAlias.objects.filter(agent=subject.agent_id, pk__in=keys).update(subject=other)


def _split_undo(subject: Subject, change: SubjectChange) -> None:
    other = change.other
    if other is None or other.merged_into_id is not None:
        raise Conflict("The split-off subject has been changed since then.")
    _still_there(other, change.details["aliases"])
    for fact_id, alias_id in change.details.get("facts", {}).items():
        Fact.objects.filter(agent=subject.agent_id, pk=fact_id).update(subject_alias=alias_id)
    # With what it was called since.
    SubjectAlias.objects.filter(agent=subject.agent_id, subject=other).update(subject=subject)
    Subject.objects.filter(agent=subject.agent_id, pk=other.pk).update(merged_into=subject, is_user=False)
    if made := change.details.get("made"):
        _unused_remove(subject, UUID(made))


def _alias_undo(subject: Subject, change: SubjectChange) -> None:
    (key,) = _still_there(subject, [change.details["alias"]])
    if Fact.objects.filter(agent=subject.agent_id, subject_alias=key).exists():
        raise Conflict("Facts use this spelling: split it off instead.")
    _unused_remove(subject, key)


def _edit_undo(subject: Subject, change: SubjectChange) -> None:
    before = dict(change.details["before"])
    if before.get("is_user") and _is_there_a_user(subject):
        raise Conflict("Another subject has been marked as the user since then.")
    Subject.objects.filter(agent=subject.agent_id, pk=subject.pk).update(**before)
    if (was := change.details.get("user")) and not _is_there_a_user(subject):
        Subject.objects.filter(agent=subject.agent_id, pk=was, merged_into=None).update(is_user=True)
    if made := change.details.get("made"):
        _unused_remove(subject, UUID(made))


UNDO: Mapping[str, Callable[[Subject, SubjectChange], None]] = {
    Action.MERGED: _merge_undo,
    Action.SPLIT: _split_undo,
    Action.ALIAS: _alias_undo,
    Action.EDITED: _edit_undo,
}
"""How each action is undone; how a subject was first named is not."""


def _still_there(subject: Subject, keys: list[str]) -> list[UUID]:
    """The spellings, if all of them are still this subject's. Raises Conflict."""
    wanted = [UUID(key) for key in keys]
    rows = SubjectAlias.objects.filter(agent=subject.agent_id, subject=subject, pk__in=wanted)
    if rows.count() < len(wanted):
        raise Conflict("A spelling of this change has been moved since then. Undo that change first.")
    return wanted


def _is_there_a_user(subject: Subject) -> bool:
    return Subject.objects.filter(agent=subject.agent_id, persona=subject.persona, is_user=True).exists()


def _unused_remove(subject: Subject, key: UUID) -> None:
    """Forget a spelling that no fact has, unless it is the only one."""
    alias = SubjectAlias.objects.filter(agent=subject.agent_id, pk=key).first()
    if alias is None or Fact.objects.filter(agent=subject.agent_id, subject_alias=alias).exists():
        return
    if SubjectAlias.objects.filter(agent=subject.agent_id, subject=alias.subject_id).count() > 1:
        alias.delete()

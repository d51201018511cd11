"""Merge subjects: every alias of the one becomes an alias of the other. Facts are not changed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db import transaction

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from memory.models import Subject, SubjectAlias, SubjectChange
from memory.policy import MAX_REMARK_CHARACTERS
from memory.services.subjects.registry import aliases_of, quoted, subject_change_record, subjects_lock
from memory.subjects.spelling import is_users
from nousweb.lib.errors import Invalid
from nousweb.lib.validation import text_check


def _rows_merge(subject: Subject, into: Subject) -> None:
    was_user = subject.is_user
    subject.is_user, subject.merged_into = False, into
    subject.save(update_fields=["is_user", "merged_into"])
    into.is_user = into.is_user or was_user
    if is_users(into.name) and not is_users(subject.name):
        # A name is more specific than "the user".
        into.name = subject.name
    if into.kind == Subject.Kind.OTHER:
        into.kind = subject.kind
    into.save(update_fields=["is_user", "name", "kind"])
    SubjectAlias.objects.filter(agent=into.agent_id, subject=subject).update(subject=into)


@contextmanager
def subjects_merged_in_dry_run(agent: Agent, pairs: Sequence[tuple[UUID, UUID]]) -> Iterator[None]:
    """Context manager: merge the first subject of each pair into the second, in a transaction that is rolled back (dry
    run). Only this connection sees the merges.

    Subjects that were merged or erased in the meantime are skipped.
    """
    if not pairs:
        yield
        return
    with transaction.atomic():
        wanted = {key for pair in pairs for key in pair}
        rows = Subject.objects.standing().filter(agent=agent, pk__in=wanted)
        found = {row.pk: row for row in rows}
        for first, second in pairs:
            subject, into = (found.get(key) for key in (first, second))
            while into is not None and into.merged_into is not None:
                into = into.merged_into
            if subject and into and subject.pk != into.pk and subject.merged_into is None:
                _rows_merge(subject, into)
        try:
            yield
        finally:
            transaction.set_rollback(True)


@agent_transaction(of="subject")
def subject_merge(*, subject: Subject, into: Subject, by: Principal, reason: str = "") -> SubjectChange:
    """Merge `subject` into `into`; returns the change, with which it can be undone. People only.

    Raises Conflict if either is merged already, Invalid for the same subject or one of another memory, NotAllowed,
    NotFound.
    """
    if subject.pk == into.pk:
        raise Invalid("A subject can be merged only into another one.", field="into")
    if (subject.agent_id, subject.persona) != (into.agent_id, into.persona):
        raise Invalid("Both subjects must belong to the same memory.", field="into")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    subject, into = subjects_lock(subject, into, by=by)
    moved = aliases_of(subject)
    details: dict[str, Any] = {
        "aliases": [str(alias.pk) for alias in moved],
        "name": into.name,
        "kind": into.kind,
        "is_user": into.is_user,
        "was_user": subject.is_user,
    }
    _rows_merge(subject, into)
    spellings = [alias.spelling for alias in moved]
    return subject_change_record(
        into,
        SubjectChange.Action.MERGED,
        by,
        other=subject,
        summary=f"“{subject.name}” was merged into “{details['name']}”, with {quoted(spellings)}.",
        reason=reason,
        details=details,
        before={"subject": str(subject.pk), "name": subject.name},
        after={"into": str(into.pk), "name": into.name},
    )

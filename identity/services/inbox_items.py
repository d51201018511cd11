"""Items of the inbox, of whatever type, and what people do with them besides deciding.

They assign, snooze, skip and comment on items, ask for second opinions, and are notified.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import models, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from identity.models import Agent, ItemAssignment, ItemComment, ItemSnooze, Notification, Persona, SecondOpinion
from identity.policy.inbox import DECIDE_RIGHTS, MAX_COMMENT_CHARACTERS, MAX_SNOOZE_DAYS, READ_KEPT_DAYS, VIEW_RIGHTS
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record, person_of
from nousweb.lib import (
    Conflict,
    Invalid,
    NotAllowed,
    NotFound,
    choice_check,
    clock,
    existing,
    text_check,
    visible_text_check,
)

BACKEND = "django.contrib.auth.backends.ModelBackend"
UNLIMITED = Q(agent_limit__isnull=True) | Q(is_superuser=True)
"""People whose role is not limited to some agents."""
OPEN = ("pending", "applied")
"""Statuses of proposals and reviews that wait for a person."""


@dataclass(frozen=True, slots=True)
class InboxItem:
    """A proposal or a review, as the inbox knows it."""

    row: models.Model
    agent: Agent
    persona: str
    status: str

    @classmethod
    def of(cls, row: Any) -> "InboxItem":
        return cls(row, row.agent, row.persona, row.status)

    @property
    def id(self) -> UUID:
        key: UUID = self.row.pk
        return key

    @property
    def type(self) -> str:
        return self.row._meta.model_name or ""

    @property
    def agent_id(self) -> int:
        return self.agent.pk

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    @property
    def key(self) -> dict[str, Any]:
        """The columns of each row about it."""
        return {"item_id": self.id, "item_type": self.type, "agent": self.agent, "persona": self.persona}

    def people(self, rights: dict[str, str] = VIEW_RIGHTS) -> QuerySet[User]:
        """Everybody active who holds its right among `rights`, and may know of its agent and persona."""
        people = people_with_right(rights[self.type], self.agent)
        if self.persona == Persona.SUBCONSCIOUS:
            people = people.filter(pk__in=User.objects.with_perm(VIEW_SUBCONSCIOUS, backend=BACKEND).values("pk"))
        return people


def people_with_right(right: str, agent: Agent) -> QuerySet[User]:
    """Everybody active who holds this permission for an agent."""
    people = User.objects.with_perm(right, backend=BACKEND).filter(is_active=True)
    return people.filter(UNLIMITED | Q(agent_limit__agents__contains=[agent.pk])).order_by("username")


def reviewers(by: Principal) -> QuerySet[User]:
    """Everybody else who may decide changes of the identity of an agent that `by` may know of."""
    people = User.objects.with_perm(DECIDE_RIGHTS["changeproposal"], backend=BACKEND).filter(is_active=True)
    if by.agents is not None:
        people = people.filter(UNLIMITED | Q(agent_limit__agents__overlap=sorted(by.agents)))
    return people.exclude(pk=by.id).order_by("username")


def item_require(
    item: InboxItem, by: Principal, rights: dict[str, str] = DECIDE_RIGHTS, *, is_open: bool = False
) -> None:
    """Raise NotAllowed unless `by` is a person with the permission, NotFound for items that they may not see or that
    are gone, and with `is_open` Conflict for those that are decided.

    In the transaction that locks its agent, so that nothing is written about an erased item.
    """
    by.require(rights[item.type], item.agent)
    if not by.is_person:
        raise NotAllowed("Only a signed-in person may do this.")
    row = type(item.row)._default_manager.filter(pk=item.id).values("persona").first()
    if row is None or (row["persona"] == Persona.SUBCONSCIOUS and not by.may(VIEW_SUBCONSCIOUS)):
        raise NotFound("There is no such item.")
    if is_open and not item.is_open:
        raise Conflict("This item is already decided.", status=item.status)


def item_rows_erase(keys: list[UUID]) -> int:
    """Delete assignments, snoozes, comments and the like of erased items; returns how many rows. Part of an erasure,
    which audits it."""
    models_of_items = (ItemAssignment, ItemSnooze, ItemComment, SecondOpinion, Notification)
    return sum(model._default_manager.filter(item_id__in=keys).delete()[0] for model in models_of_items)


def not_snoozed(person: int) -> Q:
    """Condition on pending proposals or reviews: this person has not snoozed the item."""
    # Uncorrelated: a cluster does not join its local tables with others.
    snoozes = ItemSnooze.objects.filter(person=person, ended_at=None)
    return ~Q(pk__in=snoozes.filter(Q(until=None) | Q(until__gt=Now())).order_by().values("item_id"))


def people_notify(
    *, people: Iterable[User], kind: str, item: InboxItem, source: object, by_name: str = "", at: datetime | None = None
) -> int:
    """Notify these people about an item, each once per `source`; returns how many were notified. `at`: when the cause
    came, if not now.

    Part of the transaction of the cause, whose audit record covers it.
    """
    cause = {"kind": kind, "source": str(source), "by_name": by_name, "at": at or clock.now()}
    drafts = [Notification(**item.key, person=person, **cause) for person in people]
    Notification.objects.bulk_create(drafts, ignore_conflicts=True)
    return Notification.objects.filter(pk__in=[draft.pk for draft in drafts]).count()


@transaction.atomic
def notifications_read(*, by: Principal, keys: Iterable[UUID] | None = None, item: UUID | None = None) -> int:
    """Mark one's own unread notifications as read: all, those with these keys, or those about one item.

    Returns how many. Raises NotAllowed for callers that are no person.
    """
    person = person_of(by)
    unread = Notification.objects.filter(person=person).unread()
    if keys is not None:
        unread = unread.filter(pk__in=list(keys))
    if item is not None:
        unread = unread.filter(item_id=item)
    number = unread.update(read_at=clock.now())
    if number:
        said = "1 notification was" if number == 1 else f"{number} notifications were"
        audit_record(by=by, action="notification.read", target=person, agent=None, message=f"{said} marked as read.")
    return number


def notifications_end(item: UUID, by: Principal) -> None:
    """Mark as read the notifications about an item that `by` decides: their own, and others' that ask for something.

    Part of the transaction of the decision, whose audit record covers it.
    """
    whose = Q(kind__in=Notification.ASKING)
    if by.is_person:
        whose |= Q(person_id=int(by.id))
    Notification.objects.filter(whose, item_id=item).unread().update(read_at=clock.now())


def notifications_purge() -> int:
    """Delete notifications that were read long ago; returns how many. Their items show their own outcome."""
    return Notification.objects.filter(read_at__lt=clock.now() - timedelta(days=READ_KEPT_DAYS)).delete()[0]


@agent_transaction(of="item")
def item_assign(*, item: InboxItem, person: User | None, by: Principal) -> ItemAssignment | None:
    """Assign an item to `person`, replacing the present assignee; None removes the assignment.

    A person to whom somebody else assigns it is notified. Raises NotAllowed, NotFound, Conflict for a decided item, and
    Invalid for a person who may not decide it.
    """
    item_require(item, by, is_open=True)
    before = ItemAssignment.objects.select_for_update(of=("self",)).filter(item_id=item.id)
    had = before.select_related("person").first()
    if (had.person if had else None) == person:
        return had
    if person is not None and not item.people(DECIDE_RIGHTS).filter(pk=person.pk).exists():
        raise Invalid(f"{person.get_username()} cannot decide this item.", field="person")
    before.delete()
    made = None
    if person is not None:
        made = ItemAssignment.objects.create(**item.key, person=person, by_name=by.name)
        if str(person.pk) != by.id:
            people_notify(
                people=[person],
                kind=Notification.Kind.ASSIGNMENT,
                item=item,
                source=f"{clock.now():%Y%m%d%H%M%S%f}",
                by_name=by.name,
            )
    audit_record(
        by=by,
        action="item.assign",
        target=item.row,
        agent=item.agent,
        before={"person": had.person.get_username() if had else None},
        after={"person": person.get_username() if person else None},
        persona=item.persona,
    )
    return made


MENTION = re.compile(r"(?<![\w@.+-])@([\w.@+-]+)")


@agent_transaction(of="item")
def item_comment_add(*, item: InboxItem, text: str, by: Principal) -> ItemComment:
    """Comment on an item for colleagues. People mentioned as @name are notified, if they may see the item.

    No agent reads it. Raises NotAllowed, NotFound, Invalid.
    """
    item_require(item, by)
    text = visible_text_check("text", text.strip(), MAX_COMMENT_CHARACTERS, required=True)
    made = ItemComment.objects.create(**item.key, person=person_of(by), author_name=by.name, text=text)
    names = {name.lower() for found in MENTION.findall(text) for name in (found, found.rstrip(".@+-"))}
    seeing = item.people().exclude(pk=by.id) if names else ()
    people = [person for person in seeing if person.get_username().lower() in names]
    people_notify(people=people, kind=Notification.Kind.MENTION, item=item, source=made.pk, by_name=by.name)
    # Without its text: that is kept with the item, and erased with it.
    audit_record(
        by=by,
        action="item.comment",
        target=item.row,
        agent=item.agent,
        after={"comment": str(made.pk), "mentions": [person.get_username() for person in people]},
        persona=item.persona,
    )
    return made


@agent_transaction(of="item")
def item_snooze(*, item: InboxItem, until: datetime | None, by: Principal) -> ItemSnooze:
    """Hide an item from one's own inbox until a moment; without one, until it changes or is in a prompt again.

    Others still see it. Raises NotAllowed, NotFound, Conflict for a decided item, Invalid for a moment that is past or
    too far.
    """
    item_require(item, by, is_open=True)
    now = clock.now()
    if until is not None and not now < until <= now + timedelta(days=MAX_SNOOZE_DAYS):
        raise Invalid(f"Snooze until a moment within the next {MAX_SNOOZE_DAYS} days.", field="until")
    held = ItemSnooze.objects.filter(item_id=item.id, person=person_of(by), ended_at=None)
    held.update(ended_at=now)
    made = ItemSnooze.objects.create(**item.key, person=person_of(by), until=until, at=now)
    audit_record(
        by=by,
        action="item.snooze",
        target=item.row,
        agent=item.agent,
        after={"until": until.isoformat() if until else None},
        persona=item.persona,
    )
    return made


@agent_transaction(of="item")
def item_unsnooze(*, item: InboxItem, by: Principal) -> None:
    """Let an item that one has put off be in one's inbox again. Raises NotAllowed, NotFound, Conflict."""
    item_require(item, by)
    if not ItemSnooze.objects.filter(item_id=item.id, person=person_of(by), ended_at=None).update(ended_at=clock.now()):
        raise Conflict("You have not snoozed this item.")
    audit_record(by=by, action="item.unsnooze", target=item.row, agent=item.agent, persona=item.persona)


@agent_transaction(of="item")
def item_skip(*, item: InboxItem, by: Principal) -> None:
    """Pass an item by without deciding: it waits as before, and the trail says that somebody looked and did not."""
    item_require(item, by, is_open=True)
    audit_record(by=by, action="item.skip", target=item.row, agent=item.agent, persona=item.persona)


@transaction.atomic
def snoozes_end(*, pairs: Iterable[tuple[ItemSnooze, InboxItem]], by: Principal) -> int:
    """End snoozes whose time has come, and tell who snoozed; `pairs` are snoozes and their items. Returns how many."""
    ended = 0
    for snooze, item in pairs:
        # Only who changes the row tells of it, so that two workers tell once.
        if not ItemSnooze.objects.filter(pk=snooze.pk, ended_at=None).update(ended_at=clock.now()):
            continue
        people_notify(people=[snooze.person], kind=Notification.Kind.RETURNED, item=item, source=snooze.pk)
        audit_record(
            by=by,
            action="item.return",
            target=item.row,
            agent=item.agent,
            persona=item.persona,
            message=f"It is in the inbox of {snooze.person.get_username()} again.",
        )
        ended += 1
    return ended


@agent_transaction(of="item")
def opinion_request(*, item: InboxItem, person: User, by: Principal) -> SecondOpinion:
    """Ask `person` for an opinion on an item; it appears in a part of their inbox, and they are notified.

    Raises NotAllowed, NotFound, Invalid for oneself and for people who may not see the item, Conflict if they are asked
    already or it is decided.
    """
    item_require(item, by, is_open=True)
    if str(person.pk) == by.id:
        raise Invalid("You cannot ask yourself for an opinion.", field="person")
    if not item.people().filter(pk=person.pk).exists():
        raise Invalid(f"{person.get_username()} cannot view this item.", field="person")
    fields = {**item.key, "asker": person_of(by), "asker_name": by.name}
    made, is_new = SecondOpinion.objects.get_or_create(item_id=item.id, person=person, defaults=fields)
    if not is_new:
        raise Conflict(f"{person.get_username()} has been asked already.")
    people_notify(people=[person], kind=Notification.Kind.OPINION, item=item, source=made.pk, by_name=by.name)
    audit_record(
        by=by,
        action="item.ask_opinion",
        target=item.row,
        agent=item.agent,
        after={"person": person.get_username()},
        persona=item.persona,
    )
    return made


@agent_transaction(of="item")
def opinion_give(*, item: InboxItem, answer: str, note: str = "", by: Principal) -> SecondOpinion:
    """Give the opinion that one was asked for; the asking person is notified. It decides nothing.

    A second answer replaces the first. Raises NotAllowed, NotFound if one was not asked, Invalid.
    """
    item_require(item, by, VIEW_RIGHTS)
    choice_check("answer", answer, SecondOpinion.Answer.values)
    note = text_check("note", note.strip(), MAX_COMMENT_CHARACTERS)
    rows = SecondOpinion.objects.select_for_update(of=("self",)).select_related("asker")
    asked = existing(
        rows.filter(item_id=item.id, person=person_of(by)).first(), "Nobody has asked for your opinion on this item."
    )
    before, asked.answer, asked.note, asked.answered_at = asked.answer, answer, note, clock.now()
    asked.save(update_fields=["answer", "note", "answered_at"])
    if asked.asker is not None:
        people_notify(
            people=[asked.asker],
            kind=Notification.Kind.ANSWER,
            item=item,
            source=f"{asked.pk.hex}{answer[:8]}",
            by_name=by.name,
        )
    audit_record(
        by=by,
        action="item.give_opinion",
        target=item.row,
        agent=item.agent,
        before={"answer": before},
        after={"answer": answer},
        persona=item.persona,
    )
    return asked

"""Items of the inbox, of whatever kind, for services that assign, snooze or comment on them."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import models
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from identity.models import Agent, ItemAssignment, ItemComment, ItemSnooze, Notification, Persona, SecondOpinion
from identity.policy.inbox import DECIDE_RIGHTS, VIEW_RIGHTS
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from nousweb.lib.errors import Conflict, NotAllowed, NotFound

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
        people = User.objects.with_perm(rights[self.type], backend=BACKEND).filter(is_active=True)
        if self.persona == Persona.SUBCONSCIOUS:
            people = people.filter(pk__in=User.objects.with_perm(VIEW_SUBCONSCIOUS, backend=BACKEND).values("pk"))
        return people.filter(UNLIMITED | Q(agent_limit__agents__contains=[self.agent.pk])).order_by("username")


def reviewers(by: Principal) -> QuerySet[User]:
    """Everybody else who may decide changes of the identity of an agent that `by` may know of."""
    people = User.objects.with_perm(DECIDE_RIGHTS["changeproposal"], backend=BACKEND).filter(is_active=True)
    if by.agents is not None:
        people = people.filter(UNLIMITED | Q(agent_limit__agents__overlap=sorted(by.agents)))
    return people.exclude(pk=by.id).order_by("username")


def item_require(item: InboxItem, by: Principal, rights: dict[str, str] = DECIDE_RIGHTS) -> None:
    """Raise NotAllowed unless `by` is a person with the permission, NotFound for items that they may not see or that
    are gone.

    In the transaction that locks its agent, so that nothing is written about an erased item.
    """
    by.require(rights[item.type], item.agent)
    if not by.is_person:
        raise NotAllowed("Only a signed-in person may do this.")
    row = type(item.row)._default_manager.filter(pk=item.id).values("persona").first()
    if row is None or (row["persona"] == Persona.SUBCONSCIOUS and not by.may(VIEW_SUBCONSCIOUS)):
        raise NotFound("There is no such item.")


def item_open_check(item: InboxItem) -> None:
    """Raise Conflict if the item is decided."""
    if not item.is_open:
        raise Conflict("This item is already decided.", status=item.status)


def person_of(by: Principal) -> User:
    """The account of a principal who is a person. Raises NotAllowed."""
    if not isinstance(by.user, User):
        raise NotAllowed("Only a signed-in person may do this.")
    return by.user


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

"""The guided demo: its participants, the pages they looked at, and leaving it."""

from datetime import datetime

from django.db import models, transaction

from identity.models import Agent, AuditEvent, DemoTour
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.inbox_items import person_of
from nousweb.lib import clock


@transaction.atomic
def demo_tour_begin(*, agent: Agent, by: Principal) -> DemoTour:
    """Guide this person through the data of the demo agent from now on. Raises NotAllowed for callers that are no
    person."""
    tour = DemoTour.objects.create(person=person_of(by), agent_slug=agent.slug)
    audit_record(by=by, action="demo_tour.begin", target=tour, agent=None)
    return tour


def demo_tour_leave(*, by: Principal) -> bool:
    """Show the guided demo no more until it is resumed; False where it is not shown."""
    return _leave(by, clock.now(), "demo_tour.leave")


def demo_tour_resume(*, by: Principal) -> bool:
    """Show the guided demo again, as far as it was; False where there is none, or it is shown."""
    return _leave(by, None, "demo_tour.resume")


@transaction.atomic
def demo_tour_look(*, agent: Agent, target: models.Model, label: str, by: Principal) -> bool:
    """Record, once, that a guided person was shown the page of a step; False if nothing is recorded.

    Reading leaves no record otherwise, so that this is the only sign of it.
    """
    tour = DemoTour.objects.filter(person_id=int(by.id), agent_slug=agent.slug, left_at=None).first()
    if tour is None or tour_actions(tour, ["demo_tour.look"]):
        return False
    audit_record(by=by, action="demo_tour.look", target=target, agent=agent, label=label)
    return True


def tour_actions(tour: DemoTour, actions: list[str]) -> set[str]:
    """The actions among these that the person has done on the agent since the guided demo began, by the audit trail."""
    done = AuditEvent.objects.filter(
        author_kind="person",
        author_id=str(tour.person_id),
        agent_slug=tour.agent_slug,
        at__gte=tour.began_at,
        action__in=actions,
    )
    return set(done.order_by().values_list("action", flat=True).distinct())


@transaction.atomic
def _leave(by: Principal, at: datetime | None, action: str) -> bool:
    tour = DemoTour.objects.filter(person=person_of(by), left_at__isnull=at is not None).first()
    if tour is None:
        return False
    tour.left_at = at
    tour.save(update_fields=["left_at"])
    audit_record(by=by, action=action, target=tour, agent=None)
    return True

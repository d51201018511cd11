"""A person's own settings: saved filters of the inbox, full name, e-mail, and the guided demo."""

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import models, transaction

from identity.models import Agent, AuditEvent, DemoTour, MailPreference, SavedFilter
from identity.policy.inbox import MAX_FILTERS
from identity.principal import Principal
from identity.services.audit import audit_record, person_of
from identity.services.people import MAX_NAME_CHARACTERS
from nousweb.lib import Conflict, Invalid, clock, existing, text_check, visible_text_check


@transaction.atomic
def saved_filter_save(*, name: str, query: str, by: Principal) -> SavedFilter:
    """Keep the query of an inbox's address under a name of one's own; one of this name is replaced.

    Raises NotAllowed, Invalid, Conflict for too many.
    """
    person = person_of(by)
    name = visible_text_check("name", name.strip(), 60, required=True)
    query = text_check("query", query, 500)
    mine = SavedFilter.objects.filter(person=person)
    if mine.exclude(name=name).count() >= MAX_FILTERS:
        raise Conflict(f"You have {MAX_FILTERS} filters, which is the limit. Remove one first.")
    saved = SavedFilter.objects.update_or_create(person=person, name=name, defaults={"query": query})[0]
    audit_record(by=by, action="saved_filter.save", target=saved, agent=None, after={"query": query})
    return saved


@transaction.atomic
def saved_filter_delete(*, key: int, by: Principal) -> None:
    """Remove a filter of one's own. Raises NotAllowed, NotFound."""
    saved = existing(SavedFilter.objects.filter(person=person_of(by), pk=key).first(), "You have no such filter.")
    audit_record(by=by, action="saved_filter.delete", target=saved, agent=None, before={"query": saved.query})
    saved.delete()


@transaction.atomic
def person_name_set(*, first_name: str, last_name: str, by: Principal) -> User:
    """Set one's own full name, which owners see beside the log-in name. The audit trail says only that it changed, so
    that a name can be taken back. Raises NotAllowed, Invalid."""
    person = person_of(by)
    person.first_name = visible_text_check("first_name", first_name.strip(), MAX_NAME_CHARACTERS)
    person.last_name = visible_text_check("last_name", last_name.strip(), MAX_NAME_CHARACTERS)
    person.save(update_fields=["first_name", "last_name"])
    audit_record(by=by, action="user.name", target=person, agent=None, after={"has_name": bool(person.get_full_name())})
    return person


@transaction.atomic
def mail_preference_set(*, email: str, at_once: bool, digest: bool, by: Principal) -> MailPreference:
    """Keep one's own address, and whether high risk is sent to it at once and a digest each day.

    Without an address nothing is sent. Raises NotAllowed, Invalid.
    """
    person = person_of(by)
    email = email.strip()
    if email:
        try:
            validate_email(email)
        except ValidationError as error:
            raise Invalid(" ".join(error.messages), field="email") from error
    if person.email != email:
        person.email = email
        person.save(update_fields=["email"])
    fields = {"at_once": at_once, "digest": digest}
    kept = MailPreference.objects.update_or_create(person=person, defaults=fields)[0]
    audit_record(
        by=by, action="mail_preference.set", target=person, agent=None, after={**fields, "has_address": bool(email)}
    )
    return kept


@transaction.atomic
def demo_tour_begin(*, agent: Agent, by: Principal) -> DemoTour:
    """Guide this person through the data of the demo agent from now on. Raises NotAllowed for callers that are no
    person."""
    tour = DemoTour.objects.create(person=person_of(by), agent_slug=agent.slug)
    audit_record(by=by, action="demo_tour.begin", target=tour, agent=None)
    return tour


@transaction.atomic
def demo_tour_leave(*, leaves: bool, by: Principal) -> bool:
    """Show the guided demo no more, or again as far as it was; False where there is none, or it is so already."""
    tour = DemoTour.objects.filter(person=person_of(by), left_at__isnull=leaves).first()
    if tour is None:
        return False
    tour.left_at = clock.now() if leaves else None
    tour.save(update_fields=["left_at"])
    audit_record(by=by, action="demo_tour.leave" if leaves else "demo_tour.resume", target=tour, agent=None)
    return True


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

"""Assignment of inbox items."""

from django.contrib.auth.models import User

from identity.models import ItemAssignment, Notification
from identity.policy.inbox import DECIDE_RIGHTS
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from identity.services.inbox_items import InboxItem, item_open_check, item_require
from identity.services.notifications import people_notify
from nousweb.lib import clock
from nousweb.lib.errors import Invalid


@agent_transaction(of="item")
def item_assign(*, item: InboxItem, person: User | None, by: Principal) -> ItemAssignment | None:
    """Assign an item to `person`, replacing the present assignee; None removes the assignment.

    A person to whom somebody else assigns it is notified. Raises NotAllowed, NotFound, Conflict for a decided item, and
    Invalid for a person who may not decide it.
    """
    item_require(item, by)
    item_open_check(item)
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
            source = f"{clock.now():%Y%m%d%H%M%S%f}"
            kind = Notification.Kind.ASSIGNMENT
            people_notify(people=[person], kind=kind, item=item, source=source, by_name=by.name)
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

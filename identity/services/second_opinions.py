"""Requests to colleagues for an opinion on an item of the inbox, and their answers, which decide nothing."""

from django.contrib.auth.models import User

from identity.models import Notification, SecondOpinion
from identity.policy.inbox import MAX_COMMENT_CHARACTERS, VIEW_RIGHTS
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from identity.services.inbox_items import InboxItem, item_open_check, item_require, person_of
from identity.services.notifications import people_notify
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, Invalid, NotFound
from nousweb.lib.validation import choice_check, text_check


@agent_transaction(of="item")
def opinion_request(*, item: InboxItem, person: User, by: Principal) -> SecondOpinion:
    """Ask `person` for an opinion on an item; it appears in a part of their inbox, and they are notified.

    Raises NotAllowed, NotFound, Invalid for oneself and for people who may not see the item, Conflict if they are asked
    already or it is decided.
    """
    item_require(item, by)
    item_open_check(item)
    if str(person.pk) == by.id:
        raise Invalid("You cannot ask yourself for an opinion.", field="person")
    if not item.people().filter(pk=person.pk).exists():
        raise Invalid(f"{person.get_username()} cannot view this item.", field="person")
    fields = {**item.key, "asker": person_of(by), "asker_name": by.name}
    made, is_new = SecondOpinion.objects.get_or_create(item_id=item.id, person=person, defaults=fields)
    if not is_new:
        raise Conflict(f"{person.get_username()} has been asked already.")
    kind = Notification.Kind.OPINION
    people_notify(people=[person], kind=kind, item=item, source=made.pk, by_name=by.name)
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
    asked = rows.filter(item_id=item.id, person=person_of(by)).first()
    if asked is None:
        raise NotFound("Nobody has asked for your opinion on this item.")
    before, asked.answer, asked.note, asked.answered_at = asked.answer, answer, note, clock.now()
    asked.save(update_fields=["answer", "note", "answered_at"])
    if asked.asker is not None:
        source = f"{asked.pk.hex}{answer[:8]}"
        kind = Notification.Kind.ANSWER
        people_notify(people=[asked.asker], kind=kind, item=item, source=source, by_name=by.name)
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

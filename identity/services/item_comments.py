"""Comments on inbox items."""

import re

from django.contrib.auth.models import User

from identity.models import ItemComment, Notification
from identity.policy.inbox import MAX_COMMENT_CHARACTERS
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from identity.services.inbox_items import InboxItem, item_require, person_of
from identity.services.notifications import people_notify
from nousweb.lib.validation import visible_text_check

MENTION = re.compile(r"(?<![\w@.+-])@([\w.@+-]+)")


@agent_transaction(of="item")
def item_comment_add(*, item: InboxItem, text: str, by: Principal) -> ItemComment:
    """Comment on an item for colleagues. People mentioned as @name are notified, if they may see the item.

    No agent reads it. Raises NotAllowed, NotFound, Invalid.
    """
    item_require(item, by)
    text = visible_text_check("text", text.strip(), MAX_COMMENT_CHARACTERS, required=True)
    made = ItemComment.objects.create(**item.key, person=person_of(by), author_name=by.name, text=text)
    people = [person for person in people_mentioned(item, text) if str(person.pk) != by.id]
    kind = Notification.Kind.MENTION
    people_notify(people=people, kind=kind, item=item, source=made.pk, by_name=by.name)
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


def people_mentioned(item: InboxItem, text: str) -> list[User]:
    """The people mentioned as @name, in any case of letters, among those who may see the item."""
    names = {name.lower() for found in MENTION.findall(text) for name in (found, found.rstrip(".@+-"))}
    return [person for person in item.people() if person.get_username().lower() in names] if names else []

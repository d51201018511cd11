"""Saved filters of the inbox, by name, one person's own."""

from django.db import transaction

from identity.models import SavedFilter
from identity.policy.inbox import MAX_FILTERS
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.inbox_items import person_of
from nousweb.lib.errors import Conflict, NotFound
from nousweb.lib.validation import text_check, visible_text_check


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
    saved = SavedFilter.objects.filter(person=person_of(by), pk=key).first()
    if saved is None:
        raise NotFound("You have no such filter.")
    audit_record(by=by, action="saved_filter.delete", target=saved, agent=None, before={"query": saved.query})
    saved.delete()

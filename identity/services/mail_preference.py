"""A person's e-mail settings and address."""

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from identity.models import MailPreference
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.inbox_items import person_of
from nousweb.lib.errors import Invalid


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

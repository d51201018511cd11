"""Accounts of people who log in at an OpenID Connect provider: created when one of their groups has a role here.

The groups decide at each log-in. They never take the last owner's role, so that a mistake in the mapping locks nobody
out, and do not admit people whose account is deactivated here.
"""

from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.db import transaction

from identity.models import Invitation
from identity.principal import Principal, acting
from identity.services.audit import audit_record
from identity.services.people import is_last_owner, role_give
from nousweb.lib.errors import Conflict, Invalid, NotAllowed

BY = Principal.of_system("OpenID Connect", channel="console")


@transaction.atomic
def provider_account_sign_in(*, issuer: str, subject: str, name: str, role: str, linked_to: User | None = None) -> User:
    """The account of this issuer's `subject`, with this role; created on the first log-in.

    A new account is called `name`. With `linked_to`, an existing account gets the provider's log-in, and keeps its own
    role until the next one. Raises NotAllowed for people without a role or with a deactivated account, Conflict if the
    name is taken or missing, or if the log-in belongs to another account.
    """
    with acting(BY):
        known = SocialAccount.objects.select_related("user").filter(provider=issuer, uid=subject).first()
        if linked_to is not None:
            return _link(known, linked_to, issuer, subject)
        if not role:
            raise NotAllowed("None of your groups has a role here. Ask the manager of your groups.")
        person = known.user if known else _account_make(issuer, subject, name)
        if not person.is_active:
            raise NotAllowed("Your account is deactivated.")
        keeps = person.is_superuser and role != Invitation.OWNER and is_last_owner(person)
        if not keeps:
            role_give(person, role)
        return person


def provider_linked(person: User) -> bool:
    """Whether this person can log in at a provider."""
    return SocialAccount.objects.filter(user=person).exists()


def _account_make(issuer: str, subject: str, name: str) -> User:
    """A new account. A name that is taken gets no other: two accounts would be two people to four eyes."""
    person = User(username=name)
    person.set_unusable_password()
    try:
        person.save()
    except Invalid as error:
        detail = f"{error.detail} If that account is yours, log in with your password and connect it on its page."
        raise Conflict(detail) from error
    _link(None, person, issuer, subject)
    return person


def _link(known: SocialAccount | None, person: User, issuer: str, subject: str) -> User:
    if known is not None and known.user_id != person.pk:
        raise Conflict("This log-in belongs to another account.")
    if known is None:
        SocialAccount.objects.create(user=person, provider=issuer, uid=subject)
        audit_record(by=BY, action="user.link", target=person, agent=None)
    return person

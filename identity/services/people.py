"""The people of an installation: their access, roles and sessions.

Only owners (Django's superusers) manage people. No role has a permission for accounts, since a person who could create
accounts could pose as two people under four eyes. Changes of an account are recorded by `identity.services.accounts`.
"""

import secrets
from collections.abc import Collection
from datetime import timedelta

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import OuterRef, QuerySet

from identity.models import Agent, AgentLimit, Invitation, SignIn
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.tokens import secret_digest
from nousweb.lib import Conflict, Invalid, NotAllowed, clock, existing, text_check, visible_text_check, whole_check
from nousweb.lib.lookalikes import name_skeletons
from nousweb.lib.transactions import transaction_lock
from nousweb.lib.validation import visible_text

MAX_NOTE_CHARACTERS = 200
MAX_NAME_CHARACTERS = 150
MAX_INVITATION_DAYS = 30
MAX_BROWSER_CHARACTERS = 200
SECRET_BYTES = 32


def owner_check(by: Principal) -> None:
    """Raise NotAllowed unless `by` is a signed-in owner."""
    if not (by.is_person and isinstance(by.user, User) and by.user.is_active and by.user.is_superuser):
        raise NotAllowed("Only owners can manage people. Another owner or `nous createsuperuser` can create an owner.")


@transaction.atomic
def invitation_create(*, role: str, note: str = "", days: int = 7, by: Principal) -> tuple[Invitation, str]:
    """Create an invitation for `days` (1 to 30); returns it with its secret, which is not stored.

    `note` is the invited person, visible to owners only: it stays out of the audit trail. Raises Invalid, NotAllowed.
    """
    owner_check(by)
    _role_check(role)
    if not settings.PASSWORD_LOGIN and role != Invitation.OWNER:
        raise Invalid(
            "Only owners can log in with a password here. Everyone else logs in with the provider, by their groups.",
            field="role",
        )
    note = visible_text_check("note", note, MAX_NOTE_CHARACTERS)
    whole_check("days", days, 1, MAX_INVITATION_DAYS)
    secret = secrets.token_urlsafe(SECRET_BYTES)
    invitation = Invitation.objects.create(
        digest=secret_digest(secret),
        role=role,
        note=note,
        created_by=by.name,
        expires_at=clock.now() + timedelta(days=days),
    )
    audit_record(
        by=by,
        action="invitation.create",
        target=invitation,
        agent=None,
        after={"role": role, "expires_at": invitation.expires_at.isoformat()},
    )
    return invitation, secret


@transaction.atomic
def invitation_revoke(*, invitation: Invitation, by: Principal) -> Invitation:
    """Revoke an open invitation. Raises Conflict if it is not open, NotAllowed."""
    owner_check(by)
    changed = Invitation.objects.open().filter(pk=invitation.pk).update(revoked_at=clock.now(), revoked_by=by.name)
    invitation.refresh_from_db()
    if not changed:
        raise Conflict(f"This invitation is {invitation.state} already.", state=invitation.state)
    audit_record(by=by, action="invitation.revoke", target=invitation, agent=None)
    return invitation


def invitation_find(secret: str) -> Invitation:
    """The open invitation that a link names. Raises NotFound, which says the same of every other secret."""
    return existing(
        Invitation.objects.open().filter(digest=secret_digest(secret)).first(),
        "This invitation was used, revoked or has expired. Ask for a new one.",
    )


@transaction.atomic
def invitation_accept(*, secret: str, username: str, password: str) -> User:
    """Make the account that an invitation is for, and use the invitation up.

    Raises NotFound for a secret that opens nothing, Invalid with the field for a name or password that does not do.
    """
    invitation = existing(
        Invitation.objects.select_for_update().filter(pk=invitation_find(secret).pk).open().first(),
        "Somebody else has just used this invitation.",
    )
    person = User(username=username)
    _password_set(person, password)
    person.is_superuser = invitation.role == Invitation.OWNER
    person.save()
    if not person.is_superuser:
        person.groups.add(Group.objects.get(name=invitation.role))
    invitation.accepted_at, invitation.person = clock.now(), person
    invitation.save(update_fields=["accepted_at", "person"])
    audit_record(
        by=Principal.of_user(person),
        action="invitation.accept",
        target=invitation,
        agent=None,
        after={"person": person.username, "role": invitation.role},
    )
    return person


@transaction.atomic
def person_password_set(*, person: User, password: str, by: Principal) -> User:
    """Change one's own password. Raises NotAllowed for another person, Invalid for an unusable password."""
    if by.user is None or by.user.pk != person.pk:
        raise NotAllowed("You can change only your own password.")
    _password_set(person, password)
    person.save(update_fields=["password"])
    return person


@transaction.atomic
def person_role_set(*, person: User, role: str, by: Principal) -> User:
    """Replace the role of a person. Raises Conflict for oneself and the last owner."""
    owner_check(by)
    _role_check(role)
    return role_give(_locked(person, by, keeps_owner=role == Invitation.OWNER), role)


def role_give(person: User, role: str) -> User:
    """Give a person this role. The caller has checked the permission."""
    owner = role == Invitation.OWNER
    if person.is_superuser != owner:
        person.is_superuser = owner
        person.save(update_fields=["is_superuser"])
    wanted = set() if owner else {Group.objects.get(name=role)}
    held = set(person.groups.all())
    if held != wanted:
        person.groups.remove(*(held - wanted))
        person.groups.add(*(wanted - held))
    return person


@transaction.atomic
def person_agents_set(*, person: User, agents: Collection[Agent] | None, by: Principal) -> User:
    """Limit a person's role to these agents; None for all there are and will be. Owners are limited to none.

    What they may not see does not exist for them. Raises Conflict for oneself and for owners, NotAllowed.
    """
    owner_check(by)
    person = _locked(person, by, keeps_owner=True)
    if person.is_superuser and agents is not None:
        raise Conflict("Owners see all agents.")
    held = AgentLimit.objects.filter(person=person).first()
    before = None
    if held is not None:
        before = sorted(Agent.objects.filter(pk__in=held.agents).values_list("slug", flat=True))
    if agents is None:
        AgentLimit.objects.filter(person=person).delete()
    else:
        AgentLimit.objects.update_or_create(person=person, defaults={"agents": sorted(agent.pk for agent in agents)})
    after = None if agents is None else sorted(agent.slug for agent in agents)
    if before != after:
        states = [{"agents": "all" if slugs is None else slugs} for slugs in (before, after)]
        audit_record(by=by, action="user.agents", target=person, agent=None, before=states[0], after=states[1])
    return person


@transaction.atomic
def person_staff_set(*, person: User, staff: bool, by: Principal) -> User:
    """Let a person look at the database in Django's admin, by the rights of their role, or no longer.

    Raises Conflict for oneself, NotAllowed.
    """
    owner_check(by)
    person = _locked(person, by, keeps_owner=True)
    person.is_staff = staff
    person.save(update_fields=["is_staff"])
    return person


@transaction.atomic
def person_active_set(*, person: User, active: bool, by: Principal) -> User:
    """Let a person in again, with the role that they had, or keep them out and end their sessions.

    Their tokens of agents stay: those are the agents' own. Raises Conflict for oneself, the last owner, and an account
    that is so already.
    """
    owner_check(by)
    person = _locked(person, by, keeps_owner=active)
    if person.is_active == active:
        raise Conflict(f"{person.username} is already {'active' if active else 'deactivated'}.")
    person.is_active = active
    person.save(update_fields=["is_active"])
    if not active:
        _sessions_delete(person)
    return person


def sign_in_record(*, person: User, session_key: str, browser: str, address: str) -> SignIn:
    """Note in which session a person has just signed in."""
    return SignIn.objects.update_or_create(
        session_key=session_key,
        defaults={
            "person": person,
            "browser": "".join(letter for letter in browser if letter.isprintable())[:MAX_BROWSER_CHARACTERS],
            "address": address,
            "created_at": clock.now(),
        },
    )[0]


def sign_in_follow(*, former_key: str, session_key: str) -> None:
    """Note that a session goes on under another key."""
    SignIn.objects.filter(session_key=former_key).update(session_key=session_key)


def sessions_of(person: User | OuterRef) -> QuerySet[SignIn]:
    """The sessions of a person that still hold, the latest first."""
    held = Session.objects.filter(expire_date__gt=clock.now()).values("session_key")
    return SignIn.objects.filter(person=person, session_key__in=held)


@transaction.atomic
def sessions_purge() -> int:
    """Delete expired sessions, and sign-in records of sessions that are gone; returns the number of rows."""
    ended = Session.objects.filter(expire_date__lte=clock.now()).delete()[0]
    return ended + SignIn.objects.exclude(session_key__in=Session.objects.values("session_key")).delete()[0]


@transaction.atomic
def sessions_end(*, person: User, by: Principal, except_key: str = "") -> int:
    """End a person's sessions, except the one with the key `except_key`; returns how many.

    Only the person and owners may do this. Raises NotAllowed.
    """
    if by.user is None or by.user.pk != person.pk:
        owner_check(by)
    ended = _sessions_delete(person, except_key=except_key)
    if ended:
        audit_record(
            by=by, action="user.sessions_end", target=person, agent=None, message=f"{ended} sessions were ended."
        )
    return ended


def _sessions_delete(person: User, *, except_key: str = "") -> int:
    """Delete the sessions of a person, including those without a sign-in record; returns how many."""
    noted = SignIn.objects.filter(person=person).exclude(session_key=except_key)
    keys = list(noted.values_list("session_key", flat=True))
    others = Session.objects.filter(expire_date__gt=clock.now()).exclude(session_key=except_key)
    for session in others.exclude(session_key__in=SignIn.objects.values("session_key")).iterator():
        if session.get_decoded().get(SESSION_KEY) == str(person.pk):
            keys.append(session.session_key)
    ended = Session.objects.filter(session_key__in=keys).delete()[0]
    noted.delete()
    return ended


def is_last_owner(person: User) -> bool:
    """Whether the person is the only active owner. Locks the owners until the transaction ends."""
    owners = User.objects.select_for_update().filter(is_superuser=True, is_active=True).order_by("pk")
    return [owner.pk for owner in owners] == [person.pk]


def _locked(person: User, by: Principal, *, keeps_owner: bool) -> User:
    """Lock the account and all owners. Raises Conflict if no owner would be left."""
    last = is_last_owner(person)
    person = User.objects.select_for_update().get(pk=person.pk)
    if by.user is not None and by.user.pk == person.pk:
        raise Conflict("Ask another owner to change your own account, so that nobody locks themselves out.")
    if not keeps_owner and last:
        raise Conflict(f"{person.username} is the last owner; make another one first.")
    return person


def username_check(username: str, *, person: User | None = None) -> str:
    """Validate the name of a new account, or another name of `person`. Records show it, so it must not look like
    another person's name. `identity.services.accounts` calls this for every account that is saved."""
    username = text_check("username", username, MAX_NAME_CHARACTERS, required=True)
    try:
        User.username_validator(username)
    except ValidationError as error:
        raise Invalid(" ".join(error.messages), field="username") from error
    if visible_text(username) != username:
        raise Invalid("A name must not contain invisible characters.", field="username")
    # One at a time: of two names that look alike, the second must see the first.
    transaction_lock("usernames")
    taken = name_skeletons(username)
    others = User.objects.exclude(pk=person.pk) if person else User.objects.all()
    if any(taken & name_skeletons(name) for name in others.values_list("username", flat=True)):
        raise Invalid("An account with this name or a similar-looking name exists already.", field="username")
    return username


def _password_set(person: User, password: str) -> None:
    """Set a password that the validators accept, without saving."""
    try:
        validate_password(password, person)
    except ValidationError as error:
        raise Invalid(" ".join(error.messages), field="password") from error
    person.set_password(password)


def _role_check(role: str) -> None:
    if role != Invitation.OWNER and not Group.objects.filter(name=role).exists():
        raise Invalid(f"There is no role {role[:60]!r}.", field="role")

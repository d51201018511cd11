"""Audit records of all changes of people's accounts and roles, and the check of every name.

Accounts belong to Django: they change by its commands, and when somebody sets a password. None of those is a service of
ours, so the records follow the models' signals. Only a bulk `update()` from a Python shell sends none.
"""

from collections.abc import Callable
from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group, Permission, User
from django.db import transaction
from django.db.models import Model
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_save

from identity.models import Invitation
from identity.principal import Principal, acting, acting_principal
from identity.services.audit import audit_record
from identity.services.people import is_last_owner, role_give, username_check
from nousweb.lib import Conflict, Invalid, NotAllowed

WATCHED = ("username", "is_active", "is_staff", "is_superuser")
"""Fields whose values the record shows; of the password it tells only that it was changed."""

PASSWORD = "password"  # noqa: S105
GIVEN: dict[str, tuple[type[Model], str, type[Model], Callable[[Any], str]]] = {
    "roles": (User.groups.through, "groups", Group, str),
    "rights": (
        User.user_permissions.through,
        "user_permissions",
        Permission,
        lambda right: f"{right.content_type.app_label}.{right.codename}",
    ),
}
"""What a person is given: the table in between, the person's field, the model, and the name in records."""


def accounts_watch() -> None:
    """Begin to record; called once when the apps are ready."""
    pre_save.connect(_remember, sender=User, dispatch_uid="identity.accounts.remember")
    post_save.connect(_saved, sender=User, dispatch_uid="identity.accounts.saved")
    post_delete.connect(_deleted, sender=User, dispatch_uid="identity.accounts.deleted")
    for noun, (sender, *_) in GIVEN.items():
        m2m_changed.connect(_given_changed, sender=sender, dispatch_uid=f"identity.accounts.{noun}")


def _remember(sender: type[User], instance: User, update_fields: Any = None, raw: bool = False, **signal: Any) -> None:
    """Remember the state of an account until it is saved; a login, which only sets its time, costs no query."""
    concerned = update_fields is None or {*WATCHED, PASSWORD} & set(update_fields)
    found = None
    if concerned and instance.pk and not raw:
        found = User.objects.filter(pk=instance.pk).values(*WATCHED, PASSWORD).first()
    if concerned and not raw and (found is None or found["username"] != instance.username):
        instance.username = username_check(instance.username, person=instance)
    instance._before = found if concerned else _values(instance)  # type: ignore[attr-defined]


def _saved(
    sender: type[User], instance: User, created: bool, update_fields: Any = None, raw: bool = False, **signal: Any
) -> None:
    before, after = instance.__dict__.pop("_before", None), _values(instance)
    if raw:
        return
    if created or before is None:
        _record("user.create", instance, after={name: after[name] for name in WATCHED})
        return
    if update_fields is not None:
        after = {name: after[name] if name in update_fields else before[name] for name in after}
    if changed := [name for name in WATCHED if before[name] != after[name]]:
        _record(
            "user.update",
            instance,
            before={name: before[name] for name in changed},
            after={name: after[name] for name in changed},
        )
    if before[PASSWORD] != after[PASSWORD]:
        _record("user.password", instance, message="A new password was stored.")


def _deleted(sender: type[User], instance: User, **signal: Any) -> None:
    _record("user.delete", instance, before={name: getattr(instance, name) for name in WATCHED})


def _given_changed(
    sender: type[Model], instance: Model, action: str, reverse: bool, pk_set: set[Any] | None, **signal: Any
) -> None:
    """Groups or single permissions given to a person, or people put into a group: a record about each person."""
    if action not in ("post_add", "post_remove", "pre_clear"):
        return
    noun, (_, path, model, name) = next(each for each in GIVEN.items() if each[1][0] is sender)
    for person in _rows(User, instance, pk_set, path) if reverse else [instance]:
        names = sorted(map(name, [instance] if reverse else _rows(model, person, pk_set, "user")))
        if names:
            state = {noun: names}
            _record(
                f"user.{noun}",
                person,
                before=None if action == "post_add" else state,
                after=state if action == "post_add" else None,
                message=f"{'Given' if action == 'post_add' else 'Taken'}: {', '.join(names)}.",
            )


def _rows(model: type[Model], of: Model, pk_set: set[Any] | None, path: str) -> list[Any]:
    """The rows that a change of a many-to-many field is about: those named, or when it is cleared all there were."""
    rows: Any = model._default_manager
    return list(rows.filter(pk__in=pk_set) if pk_set is not None else rows.filter(**{path: of.pk}))


def _values(person: User) -> dict[str, Any]:
    return {name: getattr(person, name) for name in (*WATCHED, PASSWORD)}


def _record(action: str, target: Model, **states: Any) -> None:
    audit_record(by=acting_principal(), action=action, target=target, agent=None, **states)


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
        return person if keeps else role_give(person, role)


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
        raise Conflict(
            f"{error.detail} If that account is yours, log in with your password and connect it on its page."
        ) from error
    return _link(None, person, issuer, subject)


def _link(known: SocialAccount | None, person: User, issuer: str, subject: str) -> User:
    if known is not None and known.user_id != person.pk:
        raise Conflict("This log-in belongs to another account.")
    if known is None:
        SocialAccount.objects.create(user=person, provider=issuer, uid=subject)
        audit_record(by=BY, action="user.link", target=person, agent=None)
    return person

"""Load the signed-in person in one statement, with everything that each request needs."""

from typing import Any

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Permission, User
from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest

from identity.models import AgentLimit, Invitation, SecondFactor, SecondFactorRequirement
from nousweb.lib.prepared_statements import CachedQuery, instance_of

BACKEND = "nousweb.access.person_backend.PersonBackend"


def people_with_access() -> QuerySet[User]:
    """Accounts, each with `has_second_factor`, `needs_second_factor` and `limited_to`, the keys of agents or None."""
    required = SecondFactorRequirement.objects.filter(role=OuterRef("groups__name"))
    of_role = User.objects.filter(Exists(required), pk=OuterRef("pk"), is_superuser=False)
    of_owner = SecondFactorRequirement.objects.filter(role=Invitation.OWNER)
    needs = Q(Exists(of_role)) | Q(Exists(of_owner), is_superuser=True)
    return User.objects.annotate(
        has_second_factor=Exists(SecondFactor.objects.filter(person=OuterRef("pk"))),
        limited_to=Subquery(AgentLimit.objects.filter(person=OuterRef("pk")).values("agents")),
        needs_second_factor=ExpressionWrapper(needs, output_field=BooleanField()),
    )


_WITH_ACCESS = CachedQuery(lambda shape, person: people_with_access().filter(pk=person), person=-1)
_WIDTH = len(User._meta.concrete_fields)
_RIGHTS = CachedQuery(
    lambda lookup, person: (
        Permission.objects.filter(**{lookup: person}).order_by().values_list("content_type__app_label", "codename")
    ),
    person=-1,
)


class PersonBackend(ModelBackend):
    """Passwords as Django checks them; of owners alone where NOUS_PASSWORD_LOGIN is off: they come in even when the
    provider of the other log-in is away, or its groups are wrong."""

    def authenticate(self, request: HttpRequest | None, *args: Any, **credentials: Any) -> Any:
        person = super().authenticate(request, *args, **credentials)
        return person if person is None or settings.PASSWORD_LOGIN or person.is_superuser else None

    def get_user(self, user_id: int) -> User | None:
        # Every request of a person begins with this statement, so it is a prepared one.
        for row in _WITH_ACCESS.rows(None, person=user_id):
            person: Any = instance_of(User, row[:_WIDTH])
            person.has_second_factor, person.limited_to, person.needs_second_factor = row[_WIDTH:]
            return person if self.user_can_authenticate(person) else None
        return None

    # Django's own, each read by a prepared statement.
    def get_user_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        _rights_read(user_obj, "_user_perm_cache", "user")
        return super().get_user_permissions(user_obj, obj)

    def get_group_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        _rights_read(user_obj, "_group_perm_cache", "group__user")
        return super().get_group_permissions(user_obj, obj)


def _rights_read(person: Any, kept_as: str, lookup: str) -> None:
    if person.is_active and not person.is_superuser and not hasattr(person, kept_as):
        setattr(person, kept_as, {f"{label}.{name}" for label, name in _RIGHTS.rows(lookup, person=person.pk)})

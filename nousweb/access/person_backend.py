"""Who is signed in, read in one statement with what every request has to know of them."""

from typing import Any

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest

from identity.models import AgentLimit, Invitation, SecondFactor, SecondFactorRequirement

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


class PersonBackend(ModelBackend):
    """Passwords as Django checks them; of owners alone where NOUS_PASSWORD_LOGIN is off: they come in even when the
    provider of the other log-in is away, or its groups are wrong."""

    def authenticate(self, request: HttpRequest | None, *args: Any, **credentials: Any) -> Any:
        person = super().authenticate(request, *args, **credentials)
        return person if person is None or settings.PASSWORD_LOGIN or person.is_superuser else None

    def get_user(self, user_id: int) -> User | None:
        person = people_with_access().filter(pk=user_id).first()
        return person if person is not None and self.user_can_authenticate(person) else None

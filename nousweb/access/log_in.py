"""Log-ins: the person of a request, throttling of password guessing, and records of sessions.

A name is locked at one address only, so that nobody can lock out somebody else everywhere. An address is locked as a
whole after many more failures, whatever the names. People see where they are signed in, and can end it."""

from typing import Any

import structlog
from axes.backends import AxesStandaloneBackend
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Group, Permission, User
from django.contrib.postgres.expressions import ArraySubquery
from django.db import transaction
from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q, QuerySet, Subquery, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from identity.models import AgentLimit, Invitation, SecondFactor, SecondFactorRequirement
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.people import sign_in_record
from nousweb.lib.caller_identity import client_address
from nousweb.lib.prepared_statements import CachedQuery, instance_of

BACKEND = "nousweb.access.log_in.PersonBackend"


def people_with_access() -> QuerySet[User]:
    """Accounts, each with `has_second_factor`, `needs_second_factor`, `limited_to` (the keys of agents or None) and
    `group_names`."""
    required = SecondFactorRequirement.objects.filter(role=OuterRef("groups__name"))
    of_role = User.objects.filter(Exists(required), pk=OuterRef("pk"), is_superuser=False)
    of_owner = SecondFactorRequirement.objects.filter(role=Invitation.OWNER)
    needs = Q(Exists(of_role)) | Q(Exists(of_owner), is_superuser=True)
    return User.objects.annotate(
        has_second_factor=Exists(SecondFactor.objects.filter(person=OuterRef("pk"))),
        limited_to=Subquery(AgentLimit.objects.filter(person=OuterRef("pk")).values("agents")),
        needs_second_factor=ExpressionWrapper(needs, output_field=BooleanField()),
        group_names=ArraySubquery(Group.objects.filter(user=OuterRef("pk")).values("name")),
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
            person.has_second_factor, person.limited_to, person.needs_second_factor, person.group_names = row[_WIDTH:]
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


log = structlog.get_logger(__name__)

LONGEST_NAME = 150


class LoginLock(AxesStandaloneBackend):
    """Refuses locked callers. Without a request, as in a shell, nothing is locked."""

    def authenticate(self, request: HttpRequest | None, *args: Any, **credentials: Any) -> None:
        if request is not None:
            super().authenticate(request, *args, **credentials)


class LoginGuard(AxesDatabaseHandler):
    """Counts failures of the last NOUS_LOGIN_LOCK_MINUTES by name and address, and by address."""

    def get_failures(self, request: Any, credentials: dict[str, Any] | None = None) -> int:
        """The failures of this name at this address; the limit, too, once the address alone has had too many."""
        by_both, by_address = (
            attempts.aggregate(count=Sum("failures_since_start"))["count"] or 0
            for attempts in self.get_user_attempts(request, credentials)
        )
        too_many = by_address >= settings.LOGIN_ADDRESS_FAILURES
        return max(by_both, settings.LOGIN_FAILURES) if too_many else by_both

    def reset_user_attempts(self, request: Any, credentials: dict[str, Any] | None = None) -> int:
        """Forget the failures of the person who has just signed in, at this address only: an account of one's own must
        not be a way to continue guessing."""
        by_both, _ = self.filter_user_attempts(request, credentials)
        return by_both.delete()[0]

    def user_login_failed(self, sender: Any, credentials: dict[str, Any], request: Any = None, **kwargs: Any) -> None:
        """Count a failure, and record it when it is the one that locks."""
        locked_before = getattr(request, "axes_locked_out", False)
        super().user_login_failed(sender, credentials, request, **kwargs)
        if request is not None and not locked_before and getattr(request, "axes_locked_out", False):
            _record(request, str(credentials.get("username") or ""))


def login_name(request: Any, credentials: dict[str, Any] | None = None) -> str | None:
    """The name by which failures are counted, as long as an account's may be: Django's log-in form takes any length."""
    name = credentials.get("username") if credentials else request.POST.get("username")
    return None if name is None else str(name)[:LONGEST_NAME]


def login_locked(request: HttpRequest, *args: Any) -> HttpResponse:
    """The page of somebody who must wait before they may try again."""
    minutes = settings.LOGIN_LOCK_MINUTES
    response = render(request, "registration/locked.html", {"minutes": minutes}, status=429)
    response["Retry-After"] = str(minutes * 60)
    return response


def _record(request: HttpRequest, name: str) -> None:
    address = client_address(request)
    log.warning("login_locked", address=address)
    attempt = AccessAttempt.objects.filter(ip_address=address).order_by("-attempt_time").first()
    if attempt is None:
        return
    # People mistype their password into the field of the name: only the name of an account is kept for good.
    account = User.objects.filter(username=name[:LONGEST_NAME]).first()
    with transaction.atomic():
        audit_record(
            by=Principal.of_system("log-in", channel="console"),
            action="login.lock",
            target=account or attempt,
            agent=None,
            label=account.username if account else "no such account",
            after={"address": address, "minutes": settings.LOGIN_LOCK_MINUTES},
            message=f"Too many failed log-ins from {address}.",
        )


BROWSERS = (
    ("Edg", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("FxiOS/", "Firefox"), ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"), ("Safari/", "Safari"), ("curl/", "curl"),
)  # fmt: skip
"""Marks in user agents of browsers; many contain those of others too, so the first match counts."""
SYSTEMS = (
    ("Windows", "Windows"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)  # fmt: skip


def sign_in_note(request: HttpRequest, user: User, **signal: Any) -> None:
    """Note that this person is signed in in the session of a request. Receiver of Django's `user_logged_in`."""
    if not request.session.session_key:
        request.session.save()
    sign_in_record(
        person=user,
        session_key=request.session.session_key or "",
        browser=browser_name(request.headers.get("User-Agent", "")),
        address=client_address(request),
    )


def browser_name(user_agent: str) -> str:
    """A user agent in a few words, "Firefox on Linux"; its beginning if it is unknown."""
    browser = next((name for mark, name in BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in SYSTEMS if mark in user_agent), "")
    return f"{browser} on {system}" if browser and system else browser or user_agent[:80]

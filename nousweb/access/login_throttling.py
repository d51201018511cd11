"""Throttling of password guessing, on the console's log-in and on that of Django's admin.

A name is locked at one address only, so that nobody can lock out somebody else everywhere. An address is locked as a
whole after many more failures, whatever the names.
"""

from typing import Any

import structlog
from axes.backends import AxesStandaloneBackend
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from identity.principal import Principal
from identity.services.audit import audit_record
from nousweb.lib.caller_identity import client_address

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
        if by_address >= settings.LOGIN_ADDRESS_FAILURES:
            return max(by_both, settings.LOGIN_FAILURES)
        return by_both

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
    wait = settings.AXES_COOLOFF_TIME
    said = {"minutes": settings.LOGIN_LOCK_MINUTES}
    response = render(request, "registration/locked.html", said, status=429)
    response["Retry-After"] = str(int(wait.total_seconds()))
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

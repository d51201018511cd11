"""Guessing passwords is stopped by name and address, and by address; it locks nobody else out, and is recorded once."""

from datetime import timedelta

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.db.models import F
from django.http import HttpResponse
from django.test import Client, override_settings

from identity.models import AuditEvent
from tests.factories import PASSWORD

pytestmark = pytest.mark.django_db
LOGINS = ("/login/", "/admin/login/")
HERE, THERE = "192.0.2.1", "192.0.2.2"


def attempt(name: str, password: str, address: str = HERE, path: str = "/login/", **extra: str) -> HttpResponse:
    return Client(REMOTE_ADDR=address).post(path, {"username": name, "password": password}, **extra)


def guess(name: str, times: int, address: str = HERE, path: str = "/login/") -> list[int]:
    return [attempt(name, f"wrong {number}", address, path).status_code for number in range(times)]


@pytest.mark.parametrize("path", LOGINS)
def test_login_guessing_ends_after_some_tries_and_is_recorded_once(charlie: User, path: str) -> None:
    assert guess("charlie", 8, path=path) == [200] * 4 + [429] * 4
    refused = attempt("charlie", PASSWORD, path=path)
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) == 15 * 60
    assert "locked for 15 minutes" in refused.content.decode()
    record = AuditEvent.objects.get(action="login.lock")
    assert (record.object_type, record.object_label, record.after["address"]) == ("user", "charlie", HERE)
    assert "wrong" not in str(AccessAttempt.objects.values())


def test_login_lock_holds_for_one_address_only(charlie: User) -> None:
    guess("charlie", 8)
    assert attempt("charlie", PASSWORD, THERE).status_code == 302
    # Nor is somebody else at the attacker's address, so far.
    assert guess("somebody", 1) == [200]


def test_login_address_that_tries_many_names_is_stopped(charlie: User) -> None:
    for number in range(50):
        assert guess(f"name-{number}", 1) == [200 if number < 49 else 429]
    assert attempt("charlie", PASSWORD).status_code == 429
    assert attempt("charlie", PASSWORD, THERE).status_code == 302


def test_login_of_ones_own_does_not_reset_the_count_of_others(alice: User, charlie: User) -> None:
    for _ in range(4):
        guess("charlie", 1)
        assert attempt("alice", PASSWORD).status_code == 302
    assert guess("charlie", 1) == [429]


def test_login_resets_ones_own_failures(charlie: User) -> None:
    assert guess("charlie", 4) == [200] * 4
    assert attempt("charlie", PASSWORD).status_code == 302
    assert guess("charlie", 4) == [200] * 4


def test_login_lock_expires(charlie: User) -> None:
    guess("charlie", 8)
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - timedelta(minutes=16))
    assert attempt("charlie", PASSWORD).status_code == 302


def test_login_client_cannot_choose_its_address(charlie: User) -> None:
    statuses = [
        attempt("charlie", "wrong", headers={"X-Forwarded-For": f"198.51.100.{number}"}).status_code  # type: ignore[arg-type]
        for number in range(6)
    ]
    assert statuses == [200] * 4 + [429] * 2
    with override_settings(TRUST_PROXY=True):
        # Only what the proxy has written last counts.
        statuses = [
            attempt("charlie", "wrong", headers={"X-Forwarded-For": f"198.51.100.{n}, {THERE}"}).status_code  # type: ignore[arg-type]
            for n in range(6)
        ]
        assert statuses == [200] * 4 + [429] * 2


def test_login_ipv6_network_is_one_address(charlie: User) -> None:
    statuses = [guess("charlie", 1, f"2001:db8::{number:x}")[0] for number in range(1, 7)]
    assert statuses == [200] * 4 + [429] * 2


def test_login_password_typed_as_the_name_is_not_kept(db: None) -> None:
    guess("my secret password", 8)
    record = AuditEvent.objects.get(action="login.lock")
    assert "secret" not in f"{record.object_label} {record.message} {record.after}"

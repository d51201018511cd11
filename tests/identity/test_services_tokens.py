"""Making, using and revoking tokens."""

from datetime import timedelta

import pytest
from django.utils import timezone

from identity.models import ApiToken, AuditEvent
from identity.policy.permissions import DEFAULT_SCOPES
from identity.principal import Principal
from identity.services.tokens import token_authenticate, token_create, token_revoke
from nousweb.lib.errors import Conflict, Invalid, NotAllowed


def test_token_secret_is_returned_once_and_never_stored(ada, charlie):
    token, secret = token_create(agent=ada, persona="actor", name=" my  laptop ", by=Principal.of_user(charlie))
    assert secret.startswith("nous_")
    assert len(secret) == 48
    assert (token.name, token.scopes, token.created_by) == ("my laptop", sorted(DEFAULT_SCOPES), "charlie")
    row = ApiToken.objects.values().get()
    assert secret not in str(row)
    assert secret not in str(list(AuditEvent.objects.values()))
    assert token_authenticate(secret) == token


def test_token_default_scopes_hold_no_permission_to_write_rules():
    assert "memory:rules" not in DEFAULT_SCOPES


def test_token_with_bad_values_is_refused(ada, system, subtests):
    for field, value in [
        ("persona", "both"), ("persona", ""), ("name", ""), ("name", " "), ("name", "x" * 101), ("name", "a\x00"),
        ("name", "\ud800"), ("scopes", []), ("scopes", ["identity:approve"]), ("scopes", ["identity:read", "*"]),
        ("expires_at", timezone.now() - timedelta(days=1)),
    ]:  # fmt: skip
        with subtests.test(field=field, value=value):
            good = {"persona": "actor", "name": "laptop", "scopes": DEFAULT_SCOPES}
            with pytest.raises(Invalid) as refused:
                token_create(agent=ada, by=system, **(good | {field: value}))
            assert refused.value.field == field
            assert not ApiToken.objects.exists()


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_token_changes_are_for_administrators(ada, system, request, name):
    by = Principal.of_user(request.getfixturevalue(name))
    token, secret = token_create(agent=ada, persona="actor", name="t", by=system)
    with pytest.raises(NotAllowed):
        token_create(agent=ada, persona="actor", name="mine", by=by)
    with pytest.raises(NotAllowed):
        token_revoke(token=token, by=by)
    assert token_authenticate(secret)


def test_token_is_not_created_by_a_token(ada, actor):
    with pytest.raises(NotAllowed, match="no token can"):
        token_create(agent=ada, persona="subconscious", name="child", by=actor)


def test_token_revocation_is_immediate_final_and_once(ada, charlie, system):
    token, secret = token_create(agent=ada, persona="actor", name="t", by=system)
    revoked = token_revoke(token=token, by=Principal.of_user(charlie))
    assert (revoked.state, revoked.revoked_by) == ("revoked", "charlie")
    assert token_authenticate(secret) is None
    with pytest.raises(Conflict):
        token_revoke(token=token, by=Principal.of_user(charlie))
    assert AuditEvent.objects.filter(action="token.revoke").count() == 1


def test_token_ends_at_its_expiry(ada, system):
    token, secret = token_create(
        agent=ada, persona="actor", name="t", expires_at=timezone.now() + timedelta(hours=1), by=system
    )
    assert token_authenticate(secret) == token
    ApiToken.objects.filter(pk=token.pk).update(expires_at=timezone.now())
    assert token_authenticate(secret) is None
    token.refresh_from_db()
    assert token.state == "expired"


def test_token_other_secrets_are_refused(ada, actor_token, subtests):
    for secret in ["", "nous_", "nous_" + "x" * 43, "x" * 10_000, "nous_é", "nous_\x00"]:
        with subtests.test(secret=secret):
            assert token_authenticate(secret) is None

"""What the page Connect says while it waits for the first call of a token that cannot make one."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from identity.models import ApiToken
from identity.services.tokens import token_revoke
from tests.factories import make_token
from tests.http import browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def token(ada):
    make_token(ada, name="laptop")
    return ApiToken.objects.get()


def said(person, token):
    answer = browser(person).get(reverse("agent_connect_state", args=["ada", token.pk]))
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_connect_waits_for_a_token_that_works(charlie, token):
    assert "Waiting for the first call." in said(charlie, token)
    assert "hx-get" in said(charlie, token)


@pytest.mark.parametrize("used", [False, True])
def test_connect_says_that_a_token_is_revoked_and_leads_to_another(charlie, token, system, used):
    if used:
        ApiToken.objects.update(last_used_at=timezone.now())
    token_revoke(token=token, by=system)
    text = said(charlie, token)
    assert "This token is revoked." in text
    assert "Waiting" not in text
    assert "hx-get" not in text
    assert f'href="{reverse("agent_connect", args=["ada"])}"' in text


def test_connect_says_that_a_token_has_expired(charlie, token):
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(hours=1))
    text = said(charlie, token)
    assert "This token has expired." in text
    assert "hx-get" not in text

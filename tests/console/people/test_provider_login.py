"""Log-in at a provider of OpenID Connect: whom the groups let in, whom not, and what an answer of it is worth."""

from urllib.parse import parse_qs, urlsplit

import pyotp
import pytest
import requests
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.test import Client

from identity.models import AuditEvent
from identity.principal import Principal
from identity.services.people import person_active_set
from identity.services.second_factors import second_factor_enrol, second_factor_secret
from nousweb.lib import clock
from tests.factories import PASSWORD
from tests.http import browser, markup
from tests.oidc_provider import provider

__all__ = ["provider"]

# The provider calls its own library by an older way.
pytestmark = pytest.mark.filterwarnings("ignore:get_jwt_config:DeprecationWarning")


@pytest.fixture
def owner(db):
    return User.objects.create_superuser("olga", password=PASSWORD)


def answer_of_provider(client, subject):
    """The address to which the provider sends the browser of this subject back."""
    away = client.get("/login/oidc/?next=/inbox/")["Location"]
    return requests.post(away, data={"sub": subject}, allow_redirects=False, timeout=10).headers["Location"]


def provider_login(client, subject):
    return client.get(answer_of_provider(client, subject))


def is_in(client):
    return client.get("/inbox/").status_code == 200


def test_groups_make_an_account_and_let_nobody_in_who_is_kept_out(provider, owner):
    client = Client()
    assert provider_login(client, "1")["Location"] == "/inbox/"
    assert is_in(client)
    rosa = User.objects.get(username="rosa")
    assert [group.name for group in rosa.groups.all()] == ["Reviewer"]
    assert not rosa.has_usable_password()
    made = AuditEvent.objects.filter(object_id=str(rosa.pk)).order_by("pk")
    assert [(one.action, one.author_name) for one in made] == [
        (action, "OpenID Connect") for action in ("user.create", "user.link", "user.roles")
    ]
    person_active_set(person=rosa, active=False, by=Principal.of_user(owner))
    assert not is_in(client)
    refusals = {
        "1": "Your account is deactivated.",
        "2": "None of your groups has a role here.",
        # A name that is somebody else's account is not taken over.
        "4": "An account with this name",
    }
    for subject, said in refusals.items():
        guest = Client()
        assert said in markup(provider_login(guest, subject))
        assert not is_in(guest)
    assert not User.objects.filter(username="sven").exists()
    assert User.objects.get(username="olga").check_password(PASSWORD)


def test_provider_is_connected_with_a_fresh_code_alone(provider, owner):
    """Also one that was begun with a fresh code and comes back when it is old."""
    secret = second_factor_secret()
    code = pyotp.TOTP(secret).at(clock.now())
    second_factor_enrol(person=owner, secret=secret, code=code, by=Principal.of_user(owner))
    client = browser(owner)
    session = client.session
    for seconds, connected in ((16 * 60, False), (0, True)):
        session["second_factor_proof"] = {"way": "code", "at": int(clock.now().timestamp())}
        session.save()
        assert client.post("/account/provider/").status_code == 200
        answer = answer_of_provider(client, "4")
        session = client.session
        session["second_factor_proof"] = {"way": "code", "at": int(clock.now().timestamp()) - seconds}
        session.save()
        assert client.get(answer).status_code == (302 if connected else 403)
        assert SocialAccount.objects.exists() is connected
        session = client.session


def test_answer_of_the_provider_holds_for_its_own_log_in_alone(provider, db):
    client = Client()
    asked = parse_qs(urlsplit(client.get("/login/oidc/")["Location"]).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["nonce"] == [client.session["provider_nonce"]]
    answer = answer_of_provider(client, "1")
    other = Client()
    assert other.get(answer).status_code == 401, "that log-in was begun in another browser"
    session = client.session
    session["provider_nonce"] = "another"
    session.save()
    assert client.get(answer).status_code == 401, "its id token is of another log-in"
    assert not User.objects.exists()
    answer = answer_of_provider(client, "1")
    assert client.get(answer).status_code == 302
    client.post("/logout/")
    assert client.get(answer).status_code == 401, "it was used"
    assert not is_in(client)

"""The second step of a log-in: nobody is in before it, a code holds once, and an owner helps who has lost the app."""

from datetime import timedelta
from uuid import uuid4

import pyotp
import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from identity.models import AuditEvent, RecoveryCode, SecondFactor
from identity.principal import Principal
from identity.services.second_factors import second_factor_enrol, second_factor_requirements_set, second_factor_secret
from nousweb.console.people.urls import urlpatterns
from nousweb.lib import clock
from tests.factories import PASSWORD
from tests.http import ApiClient, browser, markup

PAST = timedelta(minutes=5)
WITHOUT_A_CODE = {
    "login", "login_code", "logout", "openid_connect_login", "openid_connect_callback", "invitation",
    "account_confirm", "second_factor", "account_sessions_end",
}  # fmt: skip
"""Pages about people before a log-in or a code, and the end of one's own other sessions, which may be urgent."""
MATCHED = {
    pattern.name: list(pattern.pattern.converters)
    for pattern in urlpatterns
    if pattern.name and pattern.name not in WITHOUT_A_CODE
}
"""All other pages about people: their keywords by their names."""


@pytest.fixture
def owner(db):
    return User.objects.create_superuser("olga", password=PASSWORD)


def code_at(secret, moment=None):
    return pyotp.TOTP(secret).at(moment or clock.now())


def enrolled(person):
    """The secret and the recovery codes of a factor that this person set up some minutes ago."""
    secret = second_factor_secret()
    with clock.at(clock.now() - PAST):
        codes = second_factor_enrol(person=person, secret=secret, code=code_at(secret), by=Principal.of_user(person))
    return secret, codes


def password_given(person, **where):
    client = Client(**where)
    answer = client.post("/login/?next=/agents/", {"username": person.username, "password": PASSWORD})
    return client, answer


def actions():
    found = AuditEvent.objects.filter(action__startswith="second_factor.").order_by("pk")
    return [(one.action, one.object_label, one.author_name) for one in found]


def test_second_factor_is_asked_for_everywhere_and_a_code_holds_once(bob):
    client = browser(bob)
    shown = client.get("/account/second-factor/")
    secret = client.session["second_factor_secret"]
    assert "data:image/svg+xml" in markup(shown)
    assert client.post("/account/second-factor/", {"code": "000000"}).status_code == 422
    code = code_at(secret)
    made = markup(client.post("/account/second-factor/", {"code": code}))
    assert "Your recovery codes" in made
    assert client.get("/inbox/").status_code == 200, "the session that set it up goes on"
    kept = str(list(SecondFactor.objects.values()) + list(RecoveryCode.objects.values()))
    assert secret not in kept
    assert not [word for word in made.split() if word.count("-") == 3 and word.replace("-", "") in kept]
    # The password alone signs nobody in, at no interface.
    for path in ("/login/", "/admin/login/"):
        guest = Client()
        assert guest.post(path, {"username": "bob", "password": PASSWORD})["Location"] == "/login/code/"
        assert guest.get("/inbox/")["Location"].startswith("/login/")
        assert guest.get("/api/identity?agent=ada").status_code == 401
        # The code that set it up was used by that.
        assert guest.post("/login/code/", {"code": code}).status_code == 422
        assert guest.get("/inbox/")["Location"].startswith("/login/")
    # Nor does a session from before.
    assert browser(bob).get("/inbox/")["Location"].startswith("/login/")
    assert ApiClient().as_person(bob).get("/identity", {"agent": "ada"}).status_code == 401
    assert actions() == [("second_factor.enrol", "bob", "bob")]


def test_code_logs_in_once_and_a_recovery_code_once(bob):
    secret, recovery = enrolled(bob)
    code = code_at(secret)
    client, answer = password_given(bob)
    assert answer["Location"] == "/login/code/"
    assert client.post("/login/code/", {"code": f"{code[:3]} {code[3:]}"})["Location"] == "/agents/"
    assert client.get("/agents/").status_code == 200
    again, _ = password_given(bob)
    assert again.post("/login/code/", {"code": code}).status_code == 422
    assert again.post("/login/code/", {"code": recovery[0].upper()})["Location"] == "/agents/"
    once_more, _ = password_given(bob)
    assert once_more.post("/login/code/", {"code": recovery[0]}).status_code == 422
    assert Client().get("/login/code/")["Location"] == "/login/"
    assert actions()[1:] == [("second_factor.recover", "bob", "bob")]
    assert "9 recovery codes left" in markup(client.get("/account/"))


def test_guessing_codes_ends_from_wherever_it_comes(bob):
    secret, recovery = enrolled(bob)
    statuses = []
    for number in range(6):
        client, _ = password_given(bob, REMOTE_ADDR=f"192.0.2.{number}")
        statuses.append(client.post("/login/code/", {"code": "000000"}).status_code)
    assert statuses == [422] * 5 + [429]
    assert client.post("/login/code/", {"code": code_at(secret)}).status_code == 429
    assert client.post("/login/code/", {"code": recovery[0]}).status_code == 429
    assert AuditEvent.objects.get(action="login.lock").object_label == "bob"
    SecondFactor.objects.update(failed_at=clock.now() - timedelta(minutes=16))
    assert client.post("/login/code/", {"code": code_at(secret)}).status_code == 302


def test_password_given_long_ago_or_changed_since_is_worth_nothing(bob):
    secret, _ = enrolled(bob)
    client, _ = password_given(bob)
    bob.set_password("another horse, another staple")
    bob.save()
    assert client.post("/login/code/", {"code": code_at(secret)})["Location"] == "/login/"


def test_role_that_requires_one_shows_nothing_else_before(owner, bob, ada):
    client, by = browser(bob), Principal.of_user(owner)
    assert client.get("/inbox/").status_code == 200
    page = browser(owner).post("/people/second-factor/", {"roles": ["Reviewer"]})
    assert page.status_code == 302
    assert client.get("/inbox/")["Location"] == "/account/second-factor/"
    assert client.get("/account/")["Location"] == "/account/second-factor/"
    assert ApiClient({}, client).get("/identity", {"agent": "ada"}).status_code == 401
    assert client.get("/login/")["Location"] == "/account/second-factor/"
    client.get("/account/second-factor/")
    secret = client.session["second_factor_secret"]
    client.post("/account/second-factor/", {"code": code_at(secret)})
    assert client.get("/inbox/").status_code == 200
    # Who must have one does not remove it.
    client.post("/account/second-factor/remove/")
    assert SecondFactor.objects.filter(person=bob).exists()
    second_factor_requirements_set(roles={"Owner"}, by=by)
    assert browser(owner).get("/people/")["Location"] == "/account/second-factor/"
    client.post("/account/second-factor/remove/")
    assert not SecondFactor.objects.exists()
    assert actions() == [
        ("second_factor.require", "the role Reviewer", "olga"),
        ("second_factor.enrol", "bob", "bob"),
        ("second_factor.require", "the role Owner", "olga"),
        ("second_factor.waive", "the role Reviewer", "olga"),
        ("second_factor.remove", "bob", "bob"),
    ]


def test_owner_resets_and_the_command_line_does_for_the_last_owner(owner, bob, charlie):
    enrolled(bob)
    assert browser(charlie).post(f"/people/{bob.pk}/second-factor/reset/").status_code == 403
    assert browser(owner).post(f"/people/{bob.pk}/second-factor/reset/").status_code == 302
    assert password_given(bob)[1]["Location"] == "/agents/"
    enrolled(owner)
    call_command("resetsecondfactor", "olga", verbosity=0)
    assert password_given(owner)[1]["Location"] == "/agents/"
    assert [one for one in actions() if one[0] == "second_factor.reset"] == [
        ("second_factor.reset", "bob", "olga"),
        ("second_factor.reset", "olga", "command line"),
    ]


def test_fresh_code_is_asked_for_before_accounts_change(owner, bob):
    secret, recovery = enrolled(owner)
    client, _ = password_given(owner)
    client.post("/login/code/", {"code": code_at(secret)})
    session = client.session
    session["second_factor_proof"] = {"way": "code", "at": int((clock.now() - timedelta(minutes=16)).timestamp())}
    session.save()
    for name in MATCHED:
        keys = {key: bob.pk if key == "pk" else "x" for key in MATCHED[name]}
        if name == "invitation_revoke":
            keys = {"pk": uuid4()}
        assert client.post(reverse(name, kwargs=keys))["Location"].startswith("/account/confirm/"), name
    path = f"/people/{bob.pk}/deactivate/"
    asked = client.post(path, headers={"referer": f"http://testserver/people/{bob.pk}/"})
    assert asked["Location"] == f"/account/confirm/?next=%2Fpeople%2F{bob.pk}%2F"
    assert User.objects.get(pk=bob.pk).is_active
    assert client.get(f"/people/{bob.pk}/").status_code == 200, "looking asks for none"
    body = {"code": recovery[0], "next": f"/people/{bob.pk}/"}
    assert client.post("/account/confirm/", body)["Location"] == f"/people/{bob.pk}/"
    client.post(path)
    assert not User.objects.get(pk=bob.pk).is_active
    assert client.get("/account/confirm/?next=https://example.org/")["Location"] == "/account/"

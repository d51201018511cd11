"""People come in by invitation, have one role, see their sessions, and no owner can be the last to go."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from identity.models import AuditEvent, Invitation
from identity.principal import Principal
from identity.services.people import (
    invitation_accept,
    invitation_create,
    invitation_revoke,
    person_deactivate,
    person_role_set,
    sessions_of,
)
from nousweb.access.sign_ins import browser_name
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, Invalid, NotAllowed, NotFound
from tests.factories import PASSWORD, make_person
from tests.http import browser, markup

NEW = {"username": "dora", "password": "a long way to go 7", "again": "a long way to go 7"}


@pytest.fixture
def owner(db):
    return User.objects.create_superuser("olga", password=PASSWORD)


def link_of(page):
    return next(word for word in markup(page).replace("<", " ").replace(">", " ").split() if "/invitation/" in word)


def test_invited_person_makes_one_account_and_is_in(owner):
    page = browser(owner).post("/people/", {"role": "Reviewer", "note": "Dora", "days": "7"})
    assert page.status_code == 200
    assert page["Cache-Control"] == "no-store"
    path = "/" + link_of(page).split("/", 3)[3]
    guest = Client()
    assert "role Reviewer" in markup(guest.get(path))
    answer = guest.post(path, NEW)
    assert answer.status_code == 302
    dora = User.objects.get(username="dora")
    assert [group.name for group in dora.groups.all()] == ["Reviewer"]
    assert (dora.is_superuser, dora.is_staff) == (False, False)
    assert guest.get("/review/").status_code == 200
    assert guest.get("/people/").status_code == 403
    assert Client().get(path).status_code == 404
    assert Client().post(path, {**NEW, "username": "dora2"}).status_code == 404
    actions = set(AuditEvent.objects.filter(object_label__contains="Dora").values_list("action", flat=True))
    assert actions == {"invitation.create", "invitation.accept"}
    assert AuditEvent.objects.filter(action="user.roles", object_id=str(dora.pk)).exists()
    secret = path.rstrip("/").rsplit("/", 1)[1]
    assert secret not in str(list(Invitation.objects.values())) + str(list(AuditEvent.objects.values()))


def test_invitation_with_a_bad_account_changes_nothing(owner, alice):
    secret = invitation_create(role="Viewer", by=Principal.of_user(owner))[1]
    path = f"/invitation/{secret}/"
    wrong = (
        {**NEW, "again": "other"}, {**NEW, "password": "short", "again": "short"}, {**NEW, "username": "Alice"},
        {**NEW, "username": "do ra"}, {**NEW, "username": "d\u202eora"}, {**NEW, "username": "\u0430lice"},
        {**NEW, "password": "password1", "again": "password1"}, {},
    )  # fmt: skip
    for body in wrong:
        answer = Client().post(path, body)
        assert answer.status_code == 422, body
    assert User.objects.count() == 2
    assert Invitation.objects.open().count() == 1


def test_invitation_ends_by_time_and_by_being_taken_back(owner):
    by = Principal.of_user(owner)
    with clock.at(clock.now() - timedelta(days=8)):
        _, old = invitation_create(role="Viewer", by=by)
    taken, secret = invitation_create(role="Viewer", by=by)
    client = browser(owner)
    assert client.post(f"/people/invitations/{taken.pk}/revoke/").status_code == 302
    for one in (old, secret, "nothing"):
        with pytest.raises(NotFound):
            invitation_accept(secret=one, username="dora", password=NEW["password"])
    with pytest.raises(Conflict):
        invitation_revoke(invitation=taken, by=by)


@pytest.mark.django_db(transaction=True)
def test_invitation_used_by_two_at_once_makes_one_account(transactional_db):
    owner = User.objects.create_superuser("olga", password=PASSWORD)
    secret = invitation_create(role="Viewer", by=Principal.of_user(owner))[1]

    def accept(name):
        try:
            return invitation_accept(secret=secret, username=name, password=NEW["password"]).username
        except NotFound:
            return None
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(accept, ["a1", "a2", "a3", "a4"]))
    assert len([name for name in made if name]) == 1
    assert User.objects.count() == 2


def test_people_are_managed_by_owners_alone(owner, charlie, actor):
    by = Principal.of_user(charlie)
    for attempt in (
        lambda who: invitation_create(role="Viewer", by=who),
        lambda who: person_role_set(person=charlie, role="Owner", by=who),
        lambda who: person_deactivate(person=owner, by=who),
    ):
        for who in (by, actor, Principal.of_system("tests")):
            with pytest.raises(NotAllowed):
                attempt(who)
    assert User.objects.get(pk=charlie.pk).is_superuser is False
    with pytest.raises(Invalid):
        invitation_create(role="King", by=Principal.of_user(owner))


def test_last_owner_cannot_go(owner):
    second = User.objects.create_superuser("otto", password=PASSWORD)
    by = Principal.of_user(owner)
    with pytest.raises(Conflict, match="your own account"):
        person_deactivate(person=owner, by=by)
    person_deactivate(person=second, by=by)
    stale = Principal.of_user(User.objects.get(pk=second.pk))
    with pytest.raises(NotAllowed):
        person_deactivate(person=owner, by=stale)
    assert User.objects.filter(is_superuser=True, is_active=True).count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_owners_who_keep_each_other_out_leave_one(transactional_db):
    pair = [User.objects.create_superuser(name, password=PASSWORD) for name in ("olga", "otto")]

    def out(number):
        try:
            person_deactivate(person=pair[1 - number], by=Principal.of_user(pair[number]))
        except Conflict:
            pass
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(out, (0, 1)))
    assert User.objects.filter(is_active=True).count() == 1


def test_person_kept_out_is_signed_out_at_once(owner):
    dora = make_person("dora", "Reviewer")
    guest = Client()
    guest.post("/login/", {"username": "dora", "password": PASSWORD})
    assert guest.get("/review/").status_code == 200
    assert sessions_of(dora).count() == 1
    client = browser(owner)
    assert "Signed in" in markup(client.get(f"/people/{dora.pk}/"))
    client.post(f"/people/{dora.pk}/deactivate/")
    assert guest.get("/review/").status_code == 302
    assert sessions_of(dora).count() == 0
    assert Client().post("/login/", {"username": "dora", "password": PASSWORD}).status_code == 200
    client.post(f"/people/{dora.pk}/reactivate/")
    assert Client().post("/login/", {"username": "dora", "password": PASSWORD}).status_code == 302
    assert User.objects.get(pk=dora.pk).groups.get().name == "Reviewer"


def test_role_is_changed_with_a_record(owner):
    dora = make_person("dora", "Viewer")
    client = browser(owner)
    assert client.post(f"/people/{dora.pk}/", {"role": "Administrator"}).status_code == 302
    assert [group.name for group in dora.groups.all()] == ["Administrator"]
    assert client.post(f"/people/{dora.pk}/", {"role": "King"}).status_code == 422
    assert client.post(f"/people/{owner.pk}/", {"role": "Viewer"}).status_code == 422
    record = AuditEvent.objects.filter(action="user.roles", object_id=str(dora.pk)).latest("pk")
    assert record.author_name == "olga"


def test_own_password_is_changed_and_ends_the_other_sessions(db):
    dora = make_person("dora", "Viewer")
    here, there = Client(), Client()
    for client in (here, there):
        client.post("/login/", {"username": "dora", "password": PASSWORD})
    assert sessions_of(dora).count() == 2
    new = {"old_password": PASSWORD, "new_password1": NEW["password"], "new_password2": NEW["password"]}
    assert here.post("/account/", {**new, "old_password": "wrong"}).status_code == 422
    assert there.get("/").status_code == 200
    assert here.post("/account/", new).status_code == 302
    assert here.get("/account/").status_code == 200
    assert there.get("/").status_code == 302
    assert sessions_of(dora).count() == 1
    assert AuditEvent.objects.filter(action="user.password", object_id=str(dora.pk)).exists()


def test_other_sessions_are_ended_by_oneself(db):
    make_person("dora", "Viewer")
    here, there = Client(), Client()
    for client in (here, there):
        client.post("/login/", {"username": "dora", "password": PASSWORD}, headers={"user-agent": "A\u202eb"})
    assert "this browser" in markup(here.get("/account/"))
    here.post("/account/sign-out-elsewhere/")
    assert here.get("/account/").status_code == 200
    assert there.get("/account/").status_code == 302


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/150.0 Safari/537.36", "Chrome on Linux"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Safari/604.1", "Safari on iPhone"),
        ("Mozilla/5.0 (Windows NT 10.0; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Windows"),
        ("", ""),
        ("x" * 300, "x" * 80),
    ],
)  # fmt: skip
def test_browser_is_named_in_words(said, name):
    assert browser_name(said) == name

"""People come in by invitation, have one role, see their sessions, and no owner can be the last to go."""

import io
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client

from identity.models import AuditEvent, Invitation, SignIn
from identity.principal import Principal
from identity.services.people import (
    invitation_accept,
    invitation_create,
    invitation_revoke,
    person_active_set,
    person_agents_set,
    person_role_set,
    sessions_of,
    sessions_purge,
    sign_in_record,
)
from identity.services.tokens import token_create
from nousweb.access.log_in import BACKEND, browser_name
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
    assert "1 account and 1 invited" in " ".join(markup(page).split())
    guest = Client()
    assert "role Reviewer" in markup(guest.get(path))
    answer = guest.post(path, NEW)
    assert answer.status_code == 302
    dora = User.objects.get(username="dora")
    assert [group.name for group in dora.groups.all()] == ["Reviewer"]
    assert (dora.is_superuser, dora.is_staff) == (False, False)
    assert guest.get("/inbox/").status_code == 200
    assert guest.get("/people/").status_code == 403
    assert Client().get(path).status_code == 404
    assert Client().post(path, {**NEW, "username": "dora2"}).status_code == 404
    trail = AuditEvent.objects.filter(object_type="invitation", object_label="Invitation for the role Reviewer")
    assert set(trail.values_list("action", flat=True)) == {"invitation.create", "invitation.accept"}
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


def test_note_of_an_invitation_is_for_owners_alone(owner, alice):
    browser(owner).post("/people/", {"role": "Reviewer", "note": "zanzibar@example.org", "days": "7"})
    invitation = Invitation.objects.get()
    invitation_revoke(invitation=invitation, by=Principal.of_user(owner))
    trail = AuditEvent.objects.filter(object_type="invitation")
    assert trail.count() == 2
    assert "zanzibar" not in str(list(trail.values()))
    reader = browser(alice)
    assert "zanzibar" not in markup(reader.get("/audit/"))
    assert "zanzibar" in markup(browser(owner).get("/people/?view=invitations"))


@pytest.mark.parametrize(
    ("there", "new"),
    [
        ("max", "\u043c\u0430\u0445"), ("pepe", "\u0440\u0435\u0440\u0435"), ("paul", "pauI"), ("paul", "pau1"),
        ("Ian", "lan"), ("bob", "b0b"), ("anna", "\uff41nna"), ("anna", "\u0251nna"), ("amo", "arno"),
        ("coco", "\u03f2\u03bfco"), ("\u043c\u0430\u0445", "MAX"), ("Dora", "dORA"),
    ],
)  # fmt: skip
def test_account_that_looks_like_another_is_not_made(owner, there, new):
    by = Principal.of_user(owner)
    make_person(there, "Viewer")
    with pytest.raises(Invalid, match="similar-looking"):
        invitation_accept(secret=invitation_create(role="Viewer", by=by)[1], username=new, password=NEW["password"])


def test_account_of_another_script_is_made_where_nobody_looks_like_it(owner):
    by = Principal.of_user(owner)
    for name in ("\u0430\u043d\u043d\u0430", "max", "maja", "Ian", "ola", "\u540d\u524d"):
        secret = invitation_create(role="Viewer", by=by)[1]
        assert invitation_accept(secret=secret, username=name, password=NEW["password"]).username == name


@pytest.mark.django_db(transaction=True)
def test_names_that_look_alike_taken_at_once_make_one_account(transactional_db):
    by = Principal.of_user(User.objects.create_superuser("olga", password=PASSWORD))
    names = ("dora", "dora", "d0ra", "DORA")
    secrets = [invitation_create(role="Viewer", by=by)[1] for _ in names]

    def accept(place):
        try:
            return invitation_accept(secret=secrets[place], username=names[place], password=NEW["password"]).username
        except Invalid:
            return None
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(accept, range(4)))
    assert len([name for name in made if name]) == 1
    assert User.objects.count() == 2


def test_log_does_not_hold_the_link_of_an_invitation(owner):
    secret = invitation_create(role="Owner", by=Principal.of_user(owner))[1]
    (handler,) = (one for one in logging.root.handlers if one.get_name() == "stderr")
    written = io.StringIO()
    before = handler.setStream(written)
    try:
        answer = Client(enforce_csrf_checks=True).post(f"/invitation/{secret}/", NEW)
    finally:
        handler.setStream(before)
    assert answer.status_code == 403
    assert "/invitation/" in written.getvalue()
    assert secret not in written.getvalue()


def test_invitation_ends_by_time_and_by_being_taken_back(owner):
    by = Principal.of_user(owner)
    with clock.at(clock.now() - timedelta(days=8)):
        _, old = invitation_create(role="Viewer", by=by)
    taken, secret = invitation_create(role="Viewer", by=by)
    client = browser(owner)
    listed = markup(client.get("/people/"))
    assert (f"/people/invitations/{taken.pk}/revoke/" in listed, listed.count("Not accepted yet")) == (True, 1)
    assert client.post(f"/people/invitations/{taken.pk}/revoke/").status_code == 302
    assert "Not accepted yet" not in markup(client.get("/people/"))
    assert [kind for _, kind in client.get("/people/?view=invitations").context["invitations"]] == ["neutral"] * 2
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


def test_sessions_that_have_ended_are_forgotten(owner, bob):
    here, there = browser(bob), Client()
    there.post("/login/", {"username": "bob", "password": PASSWORD})
    sign_in_record(person=bob, session_key="gone", browser="", address="")
    assert sessions_purge() == 1
    assert SignIn.objects.get().session_key == there.session.session_key
    Session.objects.filter(pk=there.session.session_key).update(expire_date=clock.now() - timedelta(minutes=1))
    assert sessions_purge() == 2
    assert here.get("/").status_code == 200


def test_people_are_managed_by_owners_alone(owner, charlie, actor):
    by = Principal.of_user(charlie)
    for attempt in (
        lambda who: invitation_create(role="Viewer", by=who),
        lambda who: person_role_set(person=charlie, role="Owner", by=who),
        lambda who: person_active_set(person=owner, active=False, by=who),
    ):
        for who in (by, actor, Principal.of_system("tests")):
            with pytest.raises(NotAllowed):
                attempt(who)
    assert User.objects.get(pk=charlie.pk).is_superuser is False
    with pytest.raises(Invalid):
        invitation_create(role="King", by=Principal.of_user(owner))


def test_list_of_people_marks_oneself_and_warns_of_powerful_accounts_without_a_second_factor(owner, charlie):
    viewer = make_person("dora", "Viewer")
    page = markup(browser(owner).get("/people/"))
    rows = page.partition("<tbody")[2].split("<tr ")
    row = {name: next(one for one in rows if f">{name}</a>" in one) for name in ("olga", "charlie", "dora")}
    assert [name for name in row if ">You</span>" in row[name]] == ["olga"]
    rows = markup(browser(owner).get("/people/?view=without")).partition("<tbody")[2]
    assert [name for name in row if f">{name}</a>" in rows] == [name for name in row if ">Off</span>" in row[name]]
    assert [name for name in row if "badge-warn" in row[name]] == ["olga", "charlie"]
    assert 'href="/account/second-factor/"' in row["olga"]
    assert 'href="/people/second-factor/" title="Require them, by role">Second factors<' in page
    rules = markup(browser(owner).get("/people/second-factor/"))
    assert not re.findall(r'value="\w+"[^>]*checked', rules), "nothing is ticked that is not saved"
    assert "Administrator: 1 without one, 0 with one" in rules
    assert "sees nothing" not in page
    User.objects.filter(pk=viewer.pk).update(email="dora@nous.example")
    for shown in (markup(browser(owner).get("/people/")), markup(browser(owner).get(f"/people/{viewer.pk}/"))):
        (mail,) = re.findall(r'href="mailto:dora@nous.example\?([^"]+)">Remind by mail<', shown)
        assert "http%3A%2F%2Ftestserver%2Faccount%2Fsecond-factor%2F" in mail
    assert "#out" not in row["olga"]
    assert f'href="/people/{viewer.pk}/#out"' in row["dora"]


def test_list_of_people_says_by_what_the_access_of_each_goes_on(owner, charlie, ada):
    for name in ("one", "two"):
        token_create(agent=ada, persona="actor", name=name, by=Principal.of_user(charlie))
    Client().force_login(charlie, backend=BACKEND)
    rows = markup(browser(owner).get("/people/")).partition("<tbody")[2].split("<tr ")
    (row,) = (one for one in rows if ">charlie</a>" in one)
    assert "1 session, 2 tokens" in row
    assert "creates agents and tokens" in row


def test_person_enters_a_full_name_and_an_address_which_owners_see_in_the_list(owner, ada):
    dora = make_person("dora", "Viewer")
    person_agents_set(person=dora, agents=[ada], by=Principal.of_user(owner))
    client = browser(dora)
    assert client.post("/account/name/", {"first_name": "Dora", "last_name": "M\u200b\u00fcller "}).status_code == 302
    client.post("/account/mail/", {"email": "dora@example.org"})
    client.post("/account/name/", {"first_name": "x" * 151, "last_name": ""})
    account = markup(client.get("/account/"))
    assert 'value="M\u00fcller"' in account
    assert "at most 150 characters" in account, "one that is too long is refused, and the name stays"
    row = next(one for one in markup(browser(owner).get("/people/")).split("<tr ") if "dora" in one)
    for told in (">Dora M\u00fcller</a>", ">DM</span>", ">dora</span>", "dora@example.org", ada.name, "Viewer", "Off"):
        assert told in row, told
    trail = AuditEvent.objects.filter(object_id=str(dora.pk))
    assert trail.get(action="user.name").author_name == "dora"
    assert "ller" not in str(list(trail.values())) + str(list(trail.values("after"))), "a name can be taken back"


def test_last_owner_cannot_go(owner):
    second = User.objects.create_superuser("otto", password=PASSWORD)
    by = Principal.of_user(owner)
    with pytest.raises(Conflict, match="your own account"):
        person_active_set(person=owner, active=False, by=by)
    person_active_set(person=second, active=False, by=by)
    stale = Principal.of_user(User.objects.get(pk=second.pk))
    with pytest.raises(NotAllowed):
        person_active_set(person=owner, active=False, by=stale)
    assert User.objects.filter(is_superuser=True, is_active=True).count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_owners_who_keep_each_other_out_leave_one(transactional_db):
    pair = [User.objects.create_superuser(name, password=PASSWORD) for name in ("olga", "otto")]

    def out(number):
        try:
            person_active_set(person=pair[1 - number], active=False, by=Principal.of_user(pair[number]))
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
    assert guest.get("/inbox/").status_code == 200
    assert sessions_of(dora).count() == 1
    client = browser(owner)
    assert "Signed in" in markup(client.get(f"/people/{dora.pk}/"))
    client.post(f"/people/{dora.pk}/deactivate/")
    assert guest.get("/inbox/").status_code == 302
    assert sessions_of(dora).count() == 0
    assert Client().post("/login/", {"username": "dora", "password": PASSWORD}).status_code == 200
    client.post(f"/people/{dora.pk}/reactivate/")
    assert Client().post("/login/", {"username": "dora", "password": PASSWORD}).status_code == 302
    assert User.objects.get(pk=dora.pk).groups.get().name == "Reviewer"


def test_forms_about_people_carry_the_token_against_forgery(owner):
    client = browser(owner)
    dora = make_person("dora", "Viewer")
    for path in ("/people/", f"/people/{dora.pk}/", "/account/"):
        form = markup(client.get(path)).partition('<form method="post" class="form')[2].partition("</form>")[0]
        assert 'name="csrfmiddlewaretoken"' in form, path


def test_role_is_changed_with_a_record(owner):
    dora = make_person("dora", "Viewer")
    client = browser(owner)
    refused = client.post(f"/people/{dora.pk}/", {"role": "Administrator"})
    assert (refused.status_code, [group.name for group in dora.groups.all()]) == (422, ["Viewer"])
    assert "Confirm that this person may do more." in markup(refused), "what gives more rights is confirmed"
    assert client.post(f"/people/{dora.pk}/", {"role": "Administrator", "confirmed": "on"}).status_code == 302
    assert [group.name for group in dora.groups.all()] == ["Administrator"]
    assert client.post(f"/people/{dora.pk}/", {"role": "King"}).status_code == 422
    assert client.post(f"/people/{owner.pk}/", {"role": "Viewer"}).status_code == 422
    record = AuditEvent.objects.filter(action="user.roles", object_id=str(dora.pk)).latest("pk")
    assert record.author_name == "olga"


def test_people_are_found_by_name_and_their_role_is_changed_in_the_list(owner):
    dora = make_person("dora", "Reviewer")
    make_person("emil", "Viewer")
    client = browser(owner)
    page = client.get("/people/", {"q": "DOR", "view": "without", "page": "1"})
    assert [row.username for row in page.context["rows"]] == ["dora"]
    choice = markup(page).partition(f'action="/people/{dora.pk}/?')[2].partition("</form>")[0]
    assert re.findall(r'name="role" value="(\w+)"', choice) == ["Viewer", "Administrator", "Owner"]
    assert "csrfmiddlewaretoken" in choice
    address = f"/people/{dora.pk}/?" + unescape(choice.partition('"')[0])
    answer = client.post(address, {"role": "Viewer"})
    assert answer["Location"] == "/people/?q=DOR&view=without&page=1", "less rights need no confirmation"
    assert [group.name for group in dora.groups.all()] == ["Viewer"]
    refused = client.post(address, {"role": "Owner"})
    assert (refused.status_code, "Give more rights than now" in markup(refused)) == (422, True)
    again = client.post(address, {"role": "Owner", "confirmed": "on"})
    assert again["Location"] == answer["Location"], "nor is it lost while one confirms"
    everybody = markup(client.get("/people/"))
    assert f'action="/people/{owner.pk}/' not in everybody, "nobody changes their own"
    assert f'action="/people/{dora.pk}/?list="' in everybody
    assert client.post(f"/people/{dora.pk}/?list=", {"role": "Viewer"})["Location"] == "/people/"


def test_search_of_people_finds_roles_and_those_who_are_invited(owner):
    make_person("dora", "Reviewer")
    make_person("emil", "Viewer")
    client = browser(owner)
    client.post("/people/", {"role": "Reviewer", "note": "Fay of the data team", "days": 7})

    def found(words):
        return [str(getattr(row, "note", row)) for row in client.get("/people/", {"q": words}).context["rows"]]

    assert found("reviewer") == ["dora", "Fay of the data team"]
    assert found("fay") == ["Fay of the data team"]
    assert found("owner") == ["olga"]
    assert found("olga") == ["olga", "Fay of the data team"], "whom she invited"
    assert found("nobody") == []


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


def test_guessing_the_old_password_locks_as_the_log_in_does(db):
    dora = make_person("dora", "Viewer")
    here = browser(dora)
    new = {"new_password1": NEW["password"], "new_password2": NEW["password"]}
    tried = [here.post("/account/", {**new, "old_password": f"wrong {place}"}).status_code for place in range(6)]
    assert tried == [422] * 4 + [429] * 2
    assert here.post("/account/", {**new, "old_password": PASSWORD}).status_code == 429
    assert User.objects.get(pk=dora.pk).check_password(PASSWORD)
    assert AuditEvent.objects.filter(action="login.lock", object_id=str(dora.pk)).count() == 1
    assert here.get("/").status_code == 200


def test_admin_changes_no_password(owner):
    client = browser(owner)
    for answer in (client.get("/admin/password_change/"), client.post("/admin/password_change/", {})):
        assert (answer.status_code, answer["Location"]) == (302, "/account/")


def test_session_that_was_never_noted_ends_with_the_others(owner):
    dora = make_person("dora", "Viewer")
    old, other = browser(dora), browser(owner)
    # As of before log-ins were noted.
    SignIn.objects.all().delete()
    client = browser(owner)
    client.post(f"/people/{dora.pk}/deactivate/")
    client.post(f"/people/{dora.pk}/reactivate/")
    assert old.get("/account/").status_code == 302
    assert other.get("/account/").status_code == 200, "nobody else's session ends"
    client.post("/account/sign-out-elsewhere/")
    assert other.get("/account/").status_code == 302
    assert client.get("/account/").status_code == 200


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

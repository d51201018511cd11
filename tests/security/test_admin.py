"""A careless or hostile administrator in Django's admin: no way to a shell, to superuser, or past a service."""

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django_q.models import OrmQ, Schedule

from identity.models import Agent, ApiToken, AuditEvent
from identity.principal import Principal
from memory.services.facts import fact_learn
from nousweb.access.admin_site import SHOWN, ReadOnlyAdmin
from nousweb.access.roles import ROLE_PERMISSIONS
from nousweb.lib.errors import Invalid
from tests.api.problems import each_once
from tests.factories import PASSWORD
from tests.http import signed_in

CLOSED = ("auth_user", "auth_group", "django_q_schedule", "django_q_success", "django_q_failure", "django_q_ormq")


@pytest.fixture
def root(db: None) -> User:
    """Made on the command line, as the documentation says."""
    call_command("createsuperuser", username="root", email="root@example.org", interactive=False, verbosity=0)
    return User.objects.get(username="root")


@pytest.fixture
def mallory(charlie: User) -> User:
    """An administrator who also enters Django's admin, with every right that there is given by hand."""
    charlie.is_staff = True
    charlie.save()
    charlie.user_permissions.set(Permission.objects.all())
    return charlie


def _pages(*names: str) -> Iterator[str]:
    for name in names:
        yield reverse(f"admin:{name}_changelist")
        yield reverse(f"admin:{name}_add")


def test_roles_hold_no_permission_over_accounts() -> None:
    assert not [name for names in ROLE_PERMISSIONS.values() for name in names if not name.startswith(tuple(SHOWN))]


def test_administrator_cannot_become_superuser(mallory: User) -> None:
    client = signed_in(mallory)
    form = {"username": mallory.username, "is_superuser": "on", "is_staff": "on", "is_active": "on"}
    token = {"csrfmiddlewaretoken": client.cookies["csrftoken"].value}
    address = reverse("admin:auth_user_change", args=[mallory.pk])
    assert client.post(address, form | token).status_code == 403
    assert client.post(reverse("admin:auth_user_add"), form | token).status_code == 403
    assert client.post(f"/admin/auth/user/{mallory.pk}/password/", {"password1": "x"} | token).status_code == 403
    mallory.refresh_from_db()
    assert not mallory.is_superuser


def test_admin_accounts_schedules_and_tasks_are_for_superusers(mallory: User) -> None:
    client = signed_in(mallory)
    row = Schedule.objects.first()
    assert row is not None
    statuses = {address: client.get(address).status_code for address in _pages(*CLOSED)}
    statuses["change"] = client.get(reverse("admin:django_q_schedule_change", args=[row.pk])).status_code
    assert set(statuses.values()) == {403}, statuses
    index = client.get("/admin/").content.decode()
    assert "/admin/identity/agent/" in index
    assert not [name for name in CLOSED if reverse(f"admin:{name}_changelist") in index]


def test_admin_sends_even_superusers_to_services_for_what_agents_receive(root: User, ada: Agent) -> None:
    client = signed_in(root)
    own = [model for model in admin.site._registry if model._meta.app_label in SHOWN]
    assert own
    token = {"csrfmiddlewaretoken": client.cookies["csrftoken"].value}
    for model in [*own, Group, Schedule]:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        assert isinstance(admin.site._registry[model], ReadOnlyAdmin)
        assert client.get(reverse(f"{name}_changelist"), {"q": "a word"}).status_code == 200
        assert client.post(reverse(f"{name}_add"), token).status_code == 403
        if row := model._default_manager.first():
            assert client.get(reverse(f"{name}_change", args=[row.pk])).status_code == 200
            for action in ("change", "delete"):
                assert client.post(reverse(f"{name}_{action}", args=[row.pk]), token).status_code == 403


def _tables() -> dict[str, list[dict[str, object]]]:
    return {model._meta.label: list(model._default_manager.values()) for model in admin.site._registry}


def test_admin_is_open_to_an_owner_without_staff_status(root: User) -> None:
    User.objects.filter(pk=root.pk).update(is_staff=False)
    assert signed_in(root).get(reverse("admin:index")).status_code == 200


def test_admin_takes_no_request_that_changes_something(root: User, alice: User) -> None:
    """Whoever asks for whatever page: no account, password or role is made or changed there, by any field or action."""
    client = signed_in(root)
    before = _tables()
    # Only of a POST the form's own token would count.
    headers = {"X-CSRFToken": client.cookies["csrftoken"].value}
    form = {
        "username": "mallory", "password1": PASSWORD, "password2": PASSWORD, "usable_password": "true",
        "is_active": "on", "is_staff": "on", "is_superuser": "on",
        "date_joined_0": "2026-01-01", "date_joined_1": "12:00:00", "action": "delete_selected", "post": "yes",
        "_selected_action": [str(alice.pk)],
    }  # fmt: skip
    # First one that would answer any method.
    addresses = [reverse("admin:index"), f"/admin/auth/user/{alice.pk}/password/", reverse("admin:autocomplete")]
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        addresses += [reverse(f"{name}_{page}") for page in ("changelist", "add")]
        addresses += [reverse(f"{name}_{page}", args=[alice.pk]) for page in ("change", "delete", "history")]
    for address, method in each_once(addresses, ["POST", "PUT", "PATCH", "DELETE"]):
        sent = urlencode(form, doseq=True), "application/x-www-form-urlencoded"
        answer = client.generic(method, address, *sent, headers=headers)
        assert answer.status_code in (403, 405), (method, address, answer.status_code)
    assert _tables() == before
    shown = client.get(reverse("admin:auth_user_change", args=[alice.pk])).content.decode()
    assert "alice" in shown
    assert alice.password.split("$")[-1] not in shown


def test_names_that_look_like_others_are_refused_by_every_way_to_an_account(root: User, alice: User) -> None:
    forged = "\u0430lice"
    with pytest.raises(CommandError, match="similar-looking"):
        call_command("createsuperuser", username=forged, email="a@example.org", interactive=False, verbosity=0)
    with pytest.raises(CommandError, match="valid username"):
        call_command("createsuperuser", username="ro\u200bb", email="a@example.org", interactive=False, verbosity=0)
    for make in (User.objects.create_user, User.objects.create_superuser):
        with pytest.raises(Invalid):
            make(forged, password=PASSWORD)
    alice.username = "r\u043e\u043et"
    with pytest.raises(Invalid):
        alice.save()
    assert sorted(User.objects.values_list("username", flat=True)) == ["alice", "root"]
    alice.refresh_from_db()
    alice.username = "Alice"
    alice.save()


def test_superuser_role_changes_are_recorded_once(root: User, alice: User) -> None:
    client = signed_in(root)
    AuditEvent.objects.filter(action="user.create").get(object_id=str(root.pk), author_name="command line")
    before = set(AuditEvent.objects.values_list("pk", flat=True))
    form = {"csrfmiddlewaretoken": client.cookies["csrftoken"].value, "role": "Reviewer", "confirmed": "on"}
    client.post(reverse("person_staff_give", args=[alice.pk]), form)
    client.post(reverse("person", args=[alice.pk]), form)
    alice.refresh_from_db()
    assert alice.is_staff
    assert [group.name for group in alice.groups.all()] == ["Reviewer"]
    records = AuditEvent.objects.exclude(pk__in=before).order_by("pk")
    assert [(row.action, row.before, row.after, row.author_name, row.object_label) for row in records] == [
        ("user.update", {"is_staff": False}, {"is_staff": True}, "root", "alice"),
        ("user.roles", {"roles": ["Viewer"]}, None, "root", "alice"),
        ("user.roles", None, {"roles": ["Reviewer"]}, "root", "alice"),
    ]


def test_commands_and_passwords_are_recorded_without_the_password(root: User, alice: User) -> None:
    alice.set_password("another horse, another staple")
    alice.save()
    changed = AuditEvent.objects.get(action="user.password", object_id=str(alice.pk))
    assert (changed.before, changed.after, changed.author_name) == (None, None, "command line")
    alice.user_permissions.add(Permission.objects.get(codename="erase_memory"))
    given = AuditEvent.objects.get(action="user.rights", object_id=str(alice.pk))
    assert given.after == {"rights": ["memory.erase_memory"]}
    group = Group.objects.get(name="Administrator")
    group.user_set.add(alice)
    assert AuditEvent.objects.filter(action="user.roles", object_id=str(alice.pk)).first().after == {  # type: ignore[union-attr]
        "roles": ["Administrator"]
    }
    key = alice.pk
    alice.delete()
    assert AuditEvent.objects.get(action="user.delete", object_id=str(key)).object_label == "alice"


def test_login_is_no_change_of_an_account(alice: User) -> None:
    before = AuditEvent.objects.count()
    assert Client().login(username="alice", password="correct horse battery staple")
    assert AuditEvent.objects.count() == before


def test_admin_hides_the_subconscious_without_the_permission(
    alice: User, root: User, ada: Agent, subconscious_token: str
) -> None:
    alice.is_staff = True
    alice.save()
    dreamer = Principal.of_token(ApiToken.objects.select_related("agent").get(persona="subconscious"))
    fact_learn(agent=ada, content="MARKER lies below.", by=dreamer)
    pages = ["admin:memory_fact_changelist", "admin:memory_factchange_changelist"]
    for page in pages:
        assert "MARKER" not in signed_in(alice).get(reverse(page)).content.decode()
    assert "MARKER" in signed_in(root).get(reverse(pages[0])).content.decode()


def test_admin_does_not_resubmit_a_queued_task(root: User) -> None:
    client = signed_in(root)
    form = {
        "action": "resubmit_task",
        "_selected_action": ["x"],
        "csrfmiddlewaretoken": client.cookies["csrftoken"].value,
    }
    client.post(reverse("admin:django_q_failure_changelist"), form)
    assert not OrmQ.objects.exists()

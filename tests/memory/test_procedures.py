"""Procedures: written down, used, and judged by how often they helped."""

import threading
from uuid import uuid4

import pytest
from django.db import connection

from identity.models import AuditEvent
from memory.models import Procedure, SearchItem
from memory.services.procedures import procedure_activate, procedure_create, procedure_report
from tests.api.problems import assert_problem


@pytest.fixture
def caller(api, ada, actor_token):
    return api.as_token(actor_token)


def written(caller, **body):
    answer = caller.post("/procedures", {"name": "Deploy"} | body)
    assert answer.status_code == 201, answer.content
    return answer.json()


def test_procedure_is_created_and_changed(caller):
    body = {
        "name": "Deploy",
        "domain": "ops",
        "description": "To production.",
        "steps": ["Test.", "Push."],
        "tags": ["x"],
    }
    made = written(caller, **body)
    assert {name: made[name] for name in body} == body
    assert (made["activation_count"], made["effectiveness"]) == (0, None)
    path = f"/procedures/{made['id']}"
    changed = caller.request("PATCH", path, body={"steps": ["Push.", "Pray."], "domain": "", "active": False}).json()
    assert (changed["steps"], changed["domain"], changed["name"]) == (["Push.", "Pray."], "", "Deploy")
    item = SearchItem.objects.get(item_id=made["id"])
    assert (item.active, "Pray." in item.text) == (False, True)
    assert caller.get("/procedures").json()["items"] == []
    assert caller.get(path).json() == changed
    trail = AuditEvent.objects.filter(object_type="procedure").order_by("id")
    assert [row.action for row in trail] == ["procedure.create", "procedure.update"]
    assert trail[1].before["steps"] == ["Test.", "Push."]


def test_procedure_uses_and_outcomes_are_counted(caller):
    path = f"/procedures/{written(caller)['id']}"
    used = caller.post(f"{path}/activate").json()
    assert used["activation_count"] == 1
    assert used["last_activated_at"] is not None
    for success in (True, True, False):
        told = caller.post(f"{path}/report", {"success": success, "note": "as told"}).json()
    assert (told["success_count"], told["failure_count"], told["effectiveness"]) == (2, 1, pytest.approx(2 / 3))
    assert [row.message for row in AuditEvent.objects.filter(action="procedure.report")] == ["as told"] * 3
    for bad in ({}, {"success": 1}, {"success": "yes"}, {"success": None}, {"success": True, "note": "x" * 2_001}):
        assert_problem(caller.post(f"{path}/report", bad), 422, "invalid")
    caller.request("PATCH", path, body={"active": False})
    assert_problem(caller.post(f"{path}/activate"), 409, "conflict")
    assert_problem(caller.post(f"{path}/report", {"success": True}), 409, "conflict")
    assert caller.get(path).json()["activation_count"] == 1


def test_procedures_list_is_filtered_by_success(caller, ada):
    for name, (good, bad) in {"never": (0, 0), "third": (1, 2), "seven": (7, 3), "always": (2, 0)}.items():
        made = written(caller, name=name, domain="ops" if good else "home")
        Procedure.objects.filter(pk=made["id"]).update(success_count=good, failure_count=bad)

    def shown(**query):
        return [procedure["name"] for procedure in caller.get("/procedures", query).json()["items"]]

    assert shown() == ["always", "seven", "third", "never"]
    assert shown(min_effectiveness=0) == ["always", "seven", "third"]
    assert shown(min_effectiveness=0.7) == ["always", "seven"]
    assert shown(min_effectiveness=7 / 10 + 1e-9) == ["always"]
    assert shown(domain="home") == shown(q="EVER") == ["never"]
    first = caller.get("/procedures", {"limit": 3}).json()
    rest = caller.get("/procedures", {"limit": 3, "cursor": first["next"]}).json()
    assert [procedure["name"] for procedure in rest["items"]] == ["never"]
    for bad in ({"min_effectiveness": 1.1}, {"min_effectiveness": "nan"}, {"state": "x"}, {"limit": 0}):
        assert_problem(caller.get("/procedures", bad), 422, "invalid")


def test_procedure_field_out_of_bounds_is_refused_by_name(caller, subtests):
    path = f"/procedures/{written(caller)['id']}"
    for bad in [
        {"name": ""},
        {"name": "x" * 201},
        {"domain": "Two Words"},
        {"description": "x" * 8_001},
        {"steps": ["x"] * 41},
        {"steps": ["x" * 2_001]},
        {"importance": 1.5},
        {"scope": "world"},
        {"success_count": 5},
    ]:
        with subtests.test(bad=bad):
            assert_problem(caller.post("/procedures", {"name": "Deploy"} | bad), 422, "invalid", field=next(iter(bad)))
            assert Procedure.objects.count() == 1
            assert_problem(caller.request("PATCH", path, body=bad), 422, "invalid", field=next(iter(bad)))


def test_procedures_of_others_are_not_found(api, caller, other_token, subconscious_token, alice):
    mine = written(caller)["id"]
    hidden = written(api.as_token(subconscious_token))["id"]
    assert [procedure["id"] for procedure in caller.get("/procedures").json()["items"]] == [mine]
    for stranger, key in ((caller, hidden), (api.as_token(other_token), mine), (caller, str(uuid4()))):
        assert_problem(stranger.get(f"/procedures/{key}"), 404, "not_found")
        assert_problem(stranger.post(f"/procedures/{key}/activate"), 404, "not_found")
        assert_problem(stranger.post(f"/procedures/{key}/report", {"success": True}), 404, "not_found")
        assert_problem(stranger.request("PATCH", f"/procedures/{key}", body={}), 404, "not_found")
    assert_problem(api.as_token(subconscious_token).post(f"/procedures/{mine}/activate"), 403, "not_allowed")
    assert_problem(
        api.as_person(alice).post(f"/procedures/{mine}/activate", None, {"agent": "ada"}), 403, "not_allowed"
    )


@pytest.mark.django_db(transaction=True)
def test_procedure_counts_are_complete_concurrently(ada, actor):
    procedure = procedure_create(agent=ada, name="Deploy", by=actor)
    ready, failed = threading.Barrier(4), []

    def use():
        try:
            ready.wait(10)
            for _ in range(5):
                procedure_activate(procedure=procedure, by=actor)
                procedure_report(procedure=procedure, success=True, by=actor)
        except Exception as error:
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    procedure.refresh_from_db()
    assert (procedure.activation_count, procedure.success_count, procedure.failure_count) == (20, 20, 0)

"""POST /api/facts, GET /api/facts, GET /api/facts/{id}."""

import base64
import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from identity.models import AuditEvent
from identity.principal import Principal
from memory.models import Fact, FactChange
from memory.services.facts import fact_learn
from nousweb.lib.characters import without_hidden
from tests.api.problems import assert_problem, rows
from tests.factories import make_token

FACT_FIELDS = [
    "id", "persona", "content", "subject", "attribute", "value", "category", "kind", "confidence", "source",
    "confirmation_count", "last_confirmed_at", "superseded_by", "contradiction_of", "source_event", "source_episode",
    "valid_from", "valid_until", "expires_at", "source_ref", "source_changed_at", "validity", "recorded_at",
    "retired_at", "invalidated_at", "active", "tags", "scope", "project", "task", "user", "importance", "trust",
    "quarantined", "pending", "review",
]  # fmt: skip


def test_fact_is_learned_by_the_agent(api, ada, actor_token):
    answer = api.as_token(actor_token).post("/facts", {"content": "  Paris is in France.  "})
    assert answer.status_code == 201
    assert answer.json()["action"] == "stored"
    fact = answer.json()["fact"]
    assert list(fact) == FACT_FIELDS
    assert fact["content"] == "Paris is in France."
    assert (fact["persona"], fact["category"], fact["scope"], fact["active"]) == ("actor", "concept", "global", True)
    assert (fact["confidence"], fact["importance"], fact["confirmation_count"]) == (1.0, 0.5, 0)
    stored = Fact.objects.get()
    assert (str(stored.pk), stored.agent) == (fact["id"], ada)
    assert FactChange.objects.get().author_name == "ada · actor"


def test_fact_keeps_every_given_field(api, ada, actor_token):
    said = {
        "content": "Tim lives in Silver Spring.", "subject": "Tim", "category": "person", "kind": "home",
        "scope": "project", "tags": ["home", "tim", "home"], "confidence": 0.9, "importance": 0, "source": "chat 7",
        "valid_from": "2024-01-01T00:00:00+02:00", "valid_until": "2025-01-01T00:00:00Z",
    }  # fmt: skip
    fact = api.as_token(actor_token).post("/facts", said).json()["fact"]
    again = api.as_token(actor_token).get(f"/facts/{fact['id']}").json()
    assert again == fact
    assert {key: again[key] for key in ("subject", "category", "kind", "scope", "source")} == {
        key: said[key] for key in ("subject", "category", "kind", "scope", "source")
    }
    assert (again["tags"], again["confidence"], again["importance"]) == (["home", "tim"], 0.9, 0.0)
    assert datetime.fromisoformat(again["valid_from"]) == datetime(2023, 12, 31, 22, tzinfo=UTC)


def test_fact_is_learned_by_a_person_for_the_actor(api, ada, bob):
    answer = api.as_person(bob).post("/facts", {"content": "Never guess.", "category": "rule"}, {"agent": "ada"})
    assert answer.status_code == 201
    assert answer.json()["fact"]["persona"] == "actor"


def test_fact_of_category_rule_needs_its_own_scope(api, ada, actor_token, all_scopes_token):
    rule = {"content": "Always obey me.", "category": "rule"}
    before = rows()
    assert_problem(api.as_token(actor_token).post("/facts", rule), 403, "not_allowed", detail="memory:rules")
    assert rows() == before
    assert api.as_token(all_scopes_token).post("/facts", rule).status_code == 201


@pytest.mark.parametrize("path", ["/facts", "/facts/00000000-0000-0000-0000-000000000000"])
def test_fact_cannot_be_read_with_the_write_scope_alone(api, ada, system, path):
    secret = make_token(ada, name="writer", scopes=["memory:write"])
    assert_problem(api.as_token(secret).get(path), 403, "not_allowed", detail="memory:read")
    assert api.as_token(secret).post("/facts", {"content": "x"}).status_code == 201


def test_fact_is_read_only_for_viewers(api, ada, alice):
    before = rows()
    refused = api.as_person(alice).post("/facts", {"content": "x"}, {"agent": "ada"})
    assert_problem(refused, 403, "not_allowed", detail="the role Reviewer")
    assert rows() == before
    assert api.as_person(alice).get("/facts", {"agent": "ada"}).status_code == 200


def test_fact_value_out_of_range_is_refused_by_field(api, ada, actor_token, subtests):
    for field, value in [
        ("content", ""), ("content", " \n "), ("content", "x" * 8_001), ("content", None),
        ("subject", "x" * 201), ("subject", None), ("source", "x" * 201),
        ("category", ""), ("category", "Person"), ("category", "a b"), ("category", "x" * 51), ("category", "é"),
        ("category", "person\n"), ("kind", "A"), ("kind", "a\n"), ("kind", "x" * 51),
        ("scope", "world"), ("scope", ""), ("scope", "Global"),
        ("tags", ["x"] * 21), ("tags", [""]), ("tags", ["x" * 51]), ("tags", "x"), ("tags", None),
        ("confidence", -0.01), ("confidence", 1.01), ("confidence", 10**400), ("confidence", "much"),
        ("importance", -1), ("importance", 2), ("importance", None), ("importance", [0.5]),
        ("valid_from", "yesterday"), ("valid_from", "2024-01-01T00:00:00"), ("valid_from", "2024-13-01T00:00:00Z"),
        ("valid_from", "0001-01-01T00:00:00+14:00"), ("valid_from", 10**30), ("valid_from", -(10**30)),
        ("valid_until", "9999-12-31T23:59:59-14:00"), ("valid_until", 1e308),
    ]:  # fmt: skip
        with subtests.test(field=field, value=value):
            before = rows()
            refused = api.as_token(actor_token).post("/facts", {"content": "Good."} | {field: value})
            body = assert_problem(refused, 422, "invalid", field=field)
            assert len(json.dumps(body)) < 2_000
            assert rows() == before


def test_fact_number_that_is_none_is_refused_by_field(api, ada, actor_token, subtests):
    for field in ["confidence", "importance"]:
        for number in [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-0.1", b"1" + b"0" * 400]:
            with subtests.test(field=field, number=number):
                before = rows()
                body = b'{"content": "x", "' + field.encode() + b'": ' + number + b"}"
                assert_problem(api.as_token(actor_token).post("/facts", body), 422, "invalid", field=field)
                assert rows() == before


@pytest.mark.parametrize("until", ["2024-01-01T00:00:00Z", "2023-06-01T00:00:00Z", "2024-01-01T01:00:00+01:00"])
def test_fact_interval_that_ends_before_it_begins_is_refused(api, ada, actor_token, until):
    body = {"content": "x", "valid_from": "2024-01-01T00:00:00Z", "valid_until": until}
    assert_problem(api.as_token(actor_token).post("/facts", body), 422, "invalid", field="valid_until")


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2024-02-29T12:00:00.123+05:45"])
def test_fact_extreme_times_round_trip(api, ada, actor_token, moment):
    caller = api.as_token(actor_token)
    stored = caller.post("/facts", {"content": "x", "valid_from": moment})
    assert stored.status_code == 201
    listed = caller.get("/facts", {"state": "all"}).json()["items"][0]["valid_from"]
    assert datetime.fromisoformat(listed) == datetime.fromisoformat(moment)


@pytest.mark.parametrize("text", ["👩‍🚀 flies", "‮abc", "Z̷̡a̸l̵g̶o̴", "\u2028", "<script>alert(1)</script>", "a" * 8_000])
def test_fact_odd_text_is_data(api, ada, actor_token, text):
    answer = api.as_token(actor_token).post("/facts", {"content": f"x{text}"})
    if len(text) == 8_000:
        assert answer.status_code == 422
    else:
        assert answer.json()["fact"]["content"] == without_hidden(f"x{text}".strip())


def _fill(ada, system, count):
    for number in range(count):
        fact_learn(agent=ada, content=f"Fact {number}.", by=system)


def test_facts_pages_are_stable_while_facts_are_added(api, ada, system, actor_token):
    _fill(ada, system, 7)
    caller = api.as_token(actor_token)
    seen, cursor = [], ""
    for _ in range(3):
        page = caller.get("/facts", {"limit": 3} | ({"cursor": cursor} if cursor else {})).json()
        seen += [item["content"] for item in page["items"]]
        fact_learn(agent=ada, content="Newer.", by=system)
        cursor = page["next"]
    assert cursor is None
    assert seen == [f"Fact {number}." for number in range(6, -1, -1)]


def test_facts_pages_are_stable_among_equal_times(api, ada, actor_token):
    moment = timezone.now()
    Fact.objects.bulk_create([Fact(agent=ada, content=str(number), recorded_at=moment) for number in range(10)])
    caller = api.as_token(actor_token)
    seen, cursor = set(), None
    for _ in range(4):
        page = caller.get("/facts", {"limit": 3} | ({"cursor": cursor} if cursor else {})).json()
        seen |= {item["content"] for item in page["items"]}
        cursor = page["next"]
    assert cursor is None
    assert seen == {str(number) for number in range(10)}


def test_facts_page_that_is_exactly_full_has_no_next(api, ada, system, actor_token):
    _fill(ada, system, 3)
    assert api.as_token(actor_token).get("/facts", {"limit": 3}).json()["next"] is None


def test_facts_filters(api, ada, system, actor_token):
    fact_learn(agent=ada, content="Tim is a pilot.", subject="Tim", category="person", by=system)
    fact_learn(agent=ada, content="Ann sails.", subject="Ann", category="person", by=system)
    old = fact_learn(agent=ada, content="Tim sails.", subject="Tim", by=system).fact
    Fact.objects.filter(pk=old.pk).update(active=False, retired_at=timezone.now())

    def found(**query):
        return {item["content"] for item in api.as_token(actor_token).get("/facts", query).json()["items"]}

    assert found() == {"Tim is a pilot.", "Ann sails."}
    assert found(category="person", subject="tim") == {"Tim is a pilot."}
    assert found(category="nothing") == set()
    assert found(state="retired") == {"Tim sails."}
    assert found(state="all", subject="TIM") == {"Tim is a pilot.", "Tim sails."}


def test_facts_query_out_of_range_is_refused_by_name(api, ada, actor_token, subtests):
    for name, value in [
        ("limit", "0"), ("limit", "-1"), ("limit", "201"), ("limit", str(10**30)), ("limit", "NaN"), ("limit", ""),
        ("state", "deleted"), ("state", ""),
    ]:  # fmt: skip
        with subtests.test(name=name, value=value):
            assert_problem(api.as_token(actor_token).get("/facts", {name: value}), 422, "invalid", field=name)


def _cursor(payload):
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


SOME_ID = "5f0c2b1e-4a55-4a43-9d0e-6d2b8f1f7a10"
NOW = "2024-01-01T00:00:00+00:00"


def test_facts_foreign_cursor_is_refused(api, ada, actor_token, subtests):
    for cursor in [
        "x", "%%%", "é", "=", "====", "a" * 5_000,
        _cursor(b"\xff"), _cursor(b"[" * 6_000), _cursor([]), _cursor([NOW]), _cursor([NOW, "1", "2"]), _cursor(17),
        _cursor({"a": 1, "b": 2}), _cursor([NOW, 5]), _cursor([5, SOME_ID]), _cursor(["now", SOME_ID]),
        _cursor([NOW, "1"]), _cursor([NOW[:19], SOME_ID]), _cursor([None, None]),
        _cursor(["0001-01-01T00:00:00+23:00", SOME_ID]), _cursor(["9999-12-31T23:00:00-23:00", SOME_ID]),
    ]:  # fmt: skip
        with subtests.test(cursor=cursor):
            assert_problem(api.as_token(actor_token).get("/facts", {"cursor": cursor}), 422, "invalid", field="cursor")


def test_facts_cursor_with_an_odd_offset_is_accepted(api, ada, actor_token):
    cursor = _cursor(["2024-01-01T00:00:00+00:00:00.000001", str(uuid4())])
    assert api.as_token(actor_token).get("/facts", {"cursor": cursor}).json()["items"] == []


def test_facts_cursor_of_another_agent_shows_nothing(api, ada, bruno, system, actor_token, other_token):
    _fill(ada, system, 3)
    cursor = api.as_token(actor_token).get("/facts", {"limit": 1}).json()["next"]
    assert api.as_token(other_token).get("/facts", {"cursor": cursor}).json()["items"] == []


def test_facts_of_the_subconscious_are_hidden_from_the_actor(api, ada, actor_token, subconscious_token, alice):
    caller, dreamer = api.as_token(actor_token), api.as_token(subconscious_token)
    awake = caller.post("/facts", {"content": "Awake."}).json()["fact"]
    asleep = dreamer.post("/facts", {"content": "Asleep."}).json()["fact"]
    assert asleep["persona"] == "subconscious"
    assert [item["content"] for item in caller.get("/facts", {"state": "all"}).json()["items"]] == ["Awake."]
    assert [item["content"] for item in dreamer.get("/facts").json()["items"]] == ["Asleep.", "Awake."]
    assert_problem(caller.get(f"/facts/{asleep['id']}"), 404, "not_found")
    assert dreamer.get(f"/facts/{awake['id']}").status_code == 200
    assert_problem(api.as_person(alice).get(f"/facts/{asleep['id']}", {"agent": "ada"}), 404, "not_found")


def test_fact_of_another_agent_is_not_found(api, ada, bruno, actor_token, other_token):
    fact = api.as_token(other_token).post("/facts", {"content": "Bruno's."}).json()["fact"]
    assert_problem(api.as_token(actor_token).get(f"/facts/{fact['id']}"), 404, "not_found")


@pytest.mark.parametrize("given", ["1", "abc", "é", "00000000-0000-0000-0000-00000000000g"])
def test_fact_malformed_id_is_refused(api, ada, actor_token, given):
    assert_problem(api.as_token(actor_token).get(f"/facts/{given}"), 422, "invalid", field="fact_id")


def test_fact_successor_is_named_alike_everywhere(api, ada, system, actor_token):
    new = fact_learn(agent=ada, content="Now.", by=system).fact
    old = fact_learn(agent=ada, content="Then.", by=system).fact
    Fact.objects.filter(pk=old.pk).update(active=False, retired_at=timezone.now(), superseded_by=new)
    caller = api.as_token(actor_token)
    assert caller.get(f"/facts/{old.pk}").json()["superseded_by"] == str(new.pk)
    assert caller.get("/facts", {"state": "retired"}).json()["items"][0]["superseded_by"] == str(new.pk)


OLD = {
    "content": "Tim has a boat.", "subject": "Tim", "category": "person", "kind": "home", "scope": "project",
    "tags": ["sea"], "confidence": 0.4, "importance": 0.8, "source": "chat 7",
}  # fmt: skip
INHERITED = {name: OLD[name] for name in ("subject", "category", "kind", "scope", "tags", "confidence", "importance")}


def test_fact_replacement_keeps_unchanged_fields(api, ada, actor_token):
    caller = api.as_token(actor_token)
    old = caller.post("/facts", OLD).json()["fact"]["id"]
    new = caller.post(f"/facts/{old}/supersede", {"by": {"content": "Tim rows."}}).json()["new"]
    assert {name: new[name] for name in INHERITED} == INHERITED
    assert (new["content"], new["source"]) == ("Tim rows.", "")
    changes = {"content": "Tim swims.", "confidence": 1.0, "importance": 0.0, "tags": []}
    last = caller.post(f"/facts/{new['id']}/supersede", {"by": changes}).json()["new"]
    assert {name: last[name] for name in INHERITED} == INHERITED | {"confidence": 1.0, "importance": 0.0, "tags": []}


def test_fact_replacement_on_the_page_keeps_unchanged_fields(api, ada, actor_token, bob):
    old = api.as_token(actor_token).post("/facts", OLD).json()["fact"]["id"]
    page = reverse("agent_fact_change", args=["ada", old, "supersede"])
    browser = Client()
    browser.force_login(bob)
    assert browser.post(page, {"content": "Tim rows."}).status_code == 302
    new = Fact.objects.get(content="Tim rows.")
    assert {name: getattr(new, name) for name in INHERITED} == INHERITED
    assert new.source.startswith("console: ")


def test_fact_learning_leaves_one_audit_record(api, ada, actor_token):
    before = AuditEvent.objects.count()
    answer = api.as_token(actor_token).with_headers(X_Request_Id="learn-1").post("/facts", {"content": "Tea."})
    record = AuditEvent.objects.get(action="fact.store")
    assert AuditEvent.objects.count() == before + 1
    assert (record.object_id, record.request_id) == (answer.json()["fact"]["id"], "learn-1")
    assert (record.author_kind, record.author_name, record.agent_slug) == ("token", "ada · actor", "ada")
    assert record.after["content"] == "Tea."


def test_facts_as_of_are_those_recorded_and_valid_then(ada, system):
    now = timezone.now()
    fact = fact_learn(
        agent=ada, content="Lives in Rome.", valid_from=now - timedelta(days=9), valid_until=now - timedelta(days=5),
        by=Principal.of_system("tests"),
    ).fact  # fmt: skip
    Fact.objects.filter(pk=fact.pk).update(recorded_at=now - timedelta(days=8))
    assert not Fact.objects.as_of(now - timedelta(days=8, hours=1)).exists()
    assert Fact.objects.as_of(now - timedelta(days=6)).exists()
    assert not Fact.objects.as_of(now).exists()

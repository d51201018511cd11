"""Documents: kept under a key, each change a version that people see and take back; none is ever lost."""

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest
from django.db import connection

from identity.models import AuditEvent, Change
from identity.principal import Principal
from identity.services.tokens import token_create
from memory.models import Document, SearchItem
from memory.services.documents import document_put, document_retire
from memory.services.erasure import project_erase
from memory.services.facts import fact_invalidate, fact_learn
from memory.services.search_index.row_embedding import embed_pending_rows
from memory.transfer.agent_export import agent_export
from memory.transfer.agent_import import agent_import
from memory.types.stores import document_text
from nousweb.lib.errors import Conflict
from tests.api.problems import assert_problem

NOTES = ["memories", "tim"]


@pytest.fixture
def admin(charlie):
    return Principal.of_user(charlie)


@pytest.fixture
def caller(api, ada, actor_token):
    return api.as_token(actor_token)


def put(caller, key="tea", value=None, status=200, **more):
    body = {"namespace": NOTES, "key": key, "value": {"text": "Tim likes tea."} if value is None else value}
    answer = caller.request("PUT", "/documents", body=body | more)
    assert answer.status_code == status, answer.content
    return answer.json()


def item(caller, key="tea", method="GET", namespace=NOTES, **more):
    query = urlencode({"namespace": namespace, "key": key, **more}, doseq=True)
    return caller.request(method, f"/documents/item?{query}")


def found(caller, **body):
    answer = caller.post("/documents/search", body)
    assert answer.status_code == 200, answer.content
    return [each["document"]["key"] for each in answer.json()["items"]]


def test_documents_keep_every_version_under_one_key(caller, ada):
    first = put(caller)
    assert (first["action"], first["document"]["version"], first["document"]["author"]) == ("created", 1, "ada · actor")
    assert put(caller)["action"] == "unchanged"
    assert put(caller, value={"text": "Tim likes tea."}, importance=0.9)["action"] == "updated"
    third = put(caller, value={"text": "Tim likes coffee.", "sure": True})
    assert (third["action"], third["document"]["version"]) == ("updated", 3)
    assert third["document"]["first_created_at"] == first["document"]["created_at"]
    assert item(caller).json() == third["document"]
    versions = caller.get(f"/documents/{first['document']['id']}/versions").json()["items"]
    assert [row["version"] for row in versions] == [3, 2, 1]
    assert [row["active"] for row in versions] == [True, False, False]
    assert [row["superseded_by"] for row in versions] == [None, versions[0]["id"], versions[1]["id"]]
    assert caller.get(f"/documents/{first['document']['id']}").json()["value"] == {"text": "Tim likes tea."}
    # True is not 1.
    assert put(caller, value={"text": "Tim likes coffee.", "sure": 1})["action"] == "updated"

    gone = item(caller, method="DELETE")
    assert (gone.status_code, gone.json()["active"]) == (200, False)
    assert_problem(item(caller), 404, "not_found")
    assert_problem(item(caller, method="DELETE"), 404, "not_found")
    back = put(caller)["document"]
    assert back["version"] == 5
    assert back["first_created_at"] == back["created_at"]
    assert Document.objects.get(version=4).superseded_by_id is not None
    trail = list(
        AuditEvent.objects.filter(action__startswith="document.").order_by("id").values_list("action", flat=True)
    )
    assert trail == ["document.put", *["document.supersede", "document.put"] * 3, "document.retire",
                     "document.supersede", "document.put"]  # fmt: skip
    kinds = list(Change.objects.filter(kind__startswith="document.").values_list("kind", flat=True))
    assert sorted(set(kinds)) == ["document.retired", "document.stored", "document.superseded"]
    feed = caller.get("/changes", {"bodies": "true", "limit": 200}).json()["items"]
    assert feed[-1]["body"]["value"] == {"text": "Tim likes tea."}


def test_documents_are_changed_from_the_version_that_was_read(caller):
    assert_problem(caller.request("PUT", "/documents", body={
        "namespace": NOTES, "key": "tea", "value": {}, "base_version": 1}), 409, "conflict")  # fmt: skip
    put(caller, base_version=0)
    put(caller, value={"text": "More."}, base_version=1)
    for base in (0, 1, 3):
        answer = caller.request(
            "PUT", "/documents", body={"namespace": NOTES, "key": "tea", "value": {}, "base_version": base}
        )
        assert assert_problem(answer, 409, "conflict")["version"] == 2
    assert_problem(item(caller, method="DELETE", base_version=1), 409, "conflict")
    assert item(caller, method="DELETE", base_version=2).status_code == 200


def test_documents_refuse_what_is_no_key_or_value(caller):
    whole = {"namespace": NOTES, "key": "tea", "value": {"text": "Tea."}}
    for bad in (
        {"namespace": []},
        {"namespace": ["a"] * 11},
        {"namespace": ["a", ""]},
        {"namespace": ["a\n"]},
        {"namespace": ["a" * 101]},
        {"namespace": "a"},
        {"key": ""},
        {"key": " tea"},
        {"key": "t\u0000"},
        {"key": "k" * 301},
        {"value": []},
        {"value": "text"},
        {"value": None},
        {"value": {"a": "\u0000"}},
        {"value": {"a\u0000": 1}},
        {"value": {"text": "x" * 100_001}},
        {"value": {"n": float("nan")}},
        {"index": ["a"] * 21},
        {"index": [""]},
        {"base_version": -1},
        {"base_version": True},
        {"persona": "subconscious"},
        {"scope": "everything"},
    ):
        assert_problem(caller.request("PUT", "/documents", body=whole | bad), 422, "invalid")
    for bad in (
        {"limit": 0},
        {"limit": 101},
        {"query": "x", "limit": 100, "offset": 1},
        {"filter": {"a": {"$in": [1]}}},
        {"filter": {str(n): 1 for n in range(21)}},
        {"filter": {"a": "\u0000"}},
        {"filter": {"a": float("inf")}},
        {"filter": {"a": {"$gt": float("nan")}}},
        {"min_score": 2},
    ):
        assert_problem(caller.post("/documents/search", bad), 422, "invalid")
    assert not Document.objects.exists()


def test_documents_of_people_are_changed_by_people_only(api, caller, ada, bob, alice):
    put(caller)
    put(caller, value={"text": "Tim likes coffee."})
    old = Document.objects.get(version=1)
    person = api.as_person(bob)
    assert_problem(caller.post(f"/documents/{old.pk}/restore", {}), 403, "not_allowed")
    assert_problem(api.as_person(alice).post(f"/documents/{old.pk}/restore", {}, {"agent": "ada"}), 403, "not_allowed")
    restored = person.post(f"/documents/{old.pk}/restore", {"reason": "He does."}, {"agent": "ada"}).json()
    assert (restored["version"], restored["value"], restored["endorsed"]) == (3, {"text": "Tim likes tea."}, True)
    assert AuditEvent.objects.get(action="document.restore").message == "He does."
    body = {"namespace": NOTES, "key": "tea", "value": {"text": "Tim likes rum."}}
    assert_problem(caller.request("PUT", "/documents", body=body), 409, "conflict")
    assert_problem(item(caller, method="DELETE"), 409, "conflict")
    assert_problem(caller.post(f"/documents/{restored['id']}/release"), 403, "not_allowed")
    # What it keeps already it may keep again.
    assert put(caller)["action"] == "unchanged"
    assert person.post(f"/documents/{restored['id']}/release", None, {"agent": "ada"}).json()["endorsed"] is False
    assert put(caller, value={"text": "Tim likes rum."})["action"] == "updated"
    assert_problem(person.post(f"/documents/{restored['id']}/release", None, {"agent": "ada"}), 409, "conflict")
    # What people retired no token brings back.
    query = urlencode({"agent": "ada", "namespace": NOTES, "key": "tea"}, doseq=True)
    assert person.request("DELETE", f"/documents/item?{query}").status_code == 200
    assert_problem(caller.request("PUT", "/documents", body=body), 409, "conflict")


def test_documents_are_found_by_meaning_by_value_and_by_namespace(caller, ada):
    put(caller, "tea", {"text": "Tim drinks green tea in the morning.", "kind": "drink", "cups": 2})
    put(caller, "boat", {"text": "The sailing boat lies in the harbour.", "kind": "thing", "cups": 11})
    put(caller, "deep", {"about": {"kind": {"name": "tool"}}, "list": [1, 2], "none": None})
    put(caller, "secret", {"text": "Tim drinks green tea."}, index=[])
    put(caller, "other", {"text": "Tim drinks green tea."}, namespace=["memories", "tom"])
    embed_pending_rows()
    assert found(caller) == ["other", "secret", "deep", "boat", "tea"]
    assert found(caller, namespace=NOTES, limit=2, offset=1) == ["deep", "boat"]
    assert found(caller, namespace=NOTES, query="what does Tim drink?")[0] == "tea"
    assert found(caller, namespace=NOTES, query="what does Tim drink?", min_score=0.2) == ["tea"]
    assert found(caller, namespace=["memories", "tom"], query="a ship") == ["other"]
    assert found(caller, namespace=["memories", "tom"], query="a ship", min_score=0.3) == []
    for wanted, keys in (
        ({"kind": "drink"}, ["tea"]),
        ({"cups": 2}, ["tea"]),
        ({"cups": {"$gt": 2}}, ["boat"]),
        ({"cups": {"$gte": 2, "$lt": 11}}, ["tea"]),
        ({"cups": {"$lte": "2"}}, []),
        ({"kind": {"$gt": "e"}}, ["boat"]),
        ({"kind": {"$eq": "drink"}, "cups": {"$ne": 3}}, ["tea"]),
        ({"kind": {"$ne": "drink"}}, ["secret", "deep", "boat"]),
        ({"about": {"kind": {"name": "tool"}}}, ["deep"]),
        ({"list": [1, 2]}, ["deep"]),
        ({"list": [1]}, []),
        ({"none": None}, ["deep"]),
        ({"none": {"$ne": None}}, []),
        ({"nothing": {"$eq": None}, "kind": "drink"}, ["tea"]),
    ):
        assert found(caller, namespace=NOTES, filter=wanted) == keys, wanted
    assert found(caller, namespace=NOTES, query="boat", filter={"kind": "drink"}) == ["tea"]

    put(caller, "x", {"a": 1}, namespace=["docs", "v1", "tim"])

    def namespaces(**query):
        answer = caller.get(f"/documents/namespaces?{urlencode(query, doseq=True)}")
        return ["/".join(each) for each in answer.json()["items"]]

    assert namespaces() == ["docs/v1/tim", "memories/tim", "memories/tom"]
    assert namespaces(prefix=["memories"], limit=1, offset=1) == ["memories/tom"]
    assert namespaces(suffix=["tim"]) == ["docs/v1/tim", "memories/tim"]
    assert namespaces(prefix=["docs", "*", "tim"]) == ["docs/v1/tim"]
    assert namespaces(suffix=["v1", "*"]) == ["docs/v1/tim"]
    assert namespaces(max_depth=1) == ["docs", "memories"]
    # Retired and earlier ones are listed when asked for.
    put(caller, "tea", {"text": "No more tea."})
    item(caller, "boat", method="DELETE")

    def listed(**query):
        return [row["key"] for row in caller.get(f"/documents?{urlencode(query, doseq=True)}").json()["items"]]

    assert listed(namespace=NOTES, key_prefix="t") == ["tea"]
    assert listed(state="retired") == ["boat"]
    assert listed(state="superseded") == ["tea"]
    assert listed(q="no more") == ["tea"]


def test_documents_belong_to_a_project_and_a_persona(api, caller, ada, system, subconscious_token):
    put(caller, value={"text": "Global."})
    put(caller, value={"text": "Of the regatta."}, project="regatta")
    assert item(caller, project="regatta").json()["value"] == {"text": "Of the regatta."}
    assert item(caller).json()["value"] == {"text": "Global."}
    assert found(caller, project="regatta", query="regatta") == ["tea"]
    scopes = ["memory:read", "memory:write"]
    _, secret = token_create(
        agent=ada, name="elsewhere", persona="actor", scopes=scopes, projects=["ledger"], by=system
    )
    elsewhere = api.as_token(secret)
    assert_problem(item(elsewhere, project="regatta"), 403, "not_allowed")
    assert_problem(elsewhere.post("/documents/search", {"project": "regatta"}), 403, "not_allowed")
    keyed = Document.objects.get(project="regatta")
    assert_problem(elsewhere.get(f"/documents/{keyed.pk}"), 404, "not_found")
    below = api.as_token(subconscious_token)
    assert_problem(item(below), 404, "not_found")
    put(below, value={"text": "A dream."})
    assert item(caller).json()["value"] == {"text": "Global."}
    assert found(caller) == ["tea"]
    assert len(below.get("/documents").json()["items"]) == 3
    dream = Document.objects.get(persona="subconscious")
    for path in (f"/documents/{dream.pk}", f"/documents/{dream.pk}/versions"):
        assert_problem(caller.get(path), 404, "not_found")


def test_documents_come_up_in_prompts_until_they_are_retired(caller, ada):
    put(
        caller,
        "/memories/tea.md",
        {"content": "Tim drinks green tea from Kyoto every morning."},
        namespace=["memories"],
    )
    put(caller, "hidden", {"content": "Tim drinks green tea from Osaka every morning."}, index=[])
    embed_pending_rows()
    ask = {"session_id": "s", "input": "What tea does Tim drink every morning?"}
    prompt = caller.post("/context", ask).json()["system_prompt"]
    assert "## Documents" in prompt
    assert "/memories/tea.md" in prompt
    assert "Kyoto" in prompt
    assert "Osaka" not in prompt
    hit = caller.get("/recall", {"q": ask["input"], "type": "document"}).json()["items"][0]
    assert (hit["type"], hit["metadata"]["key"], hit["metadata"]["version"]) == ("document", "/memories/tea.md", 1)
    put(
        caller,
        "/memories/tea.md",
        {"content": "Tim drinks black tea from Assam every morning."},
        namespace=["memories"],
    )
    embed_pending_rows()
    prompt = caller.post("/context", ask).json()["system_prompt"]
    assert "Assam" in prompt
    assert "Kyoto" not in prompt
    old = Document.objects.get(version=1, namespace=["memories"])
    as_of = caller.get("/recall", {"q": ask["input"], "type": "document", "as_of": old.created_at.isoformat()})
    assert [hit["content"] for hit in as_of.json()["items"]] == ["Tim drinks green tea from Kyoto every morning."]
    item(caller, "/memories/tea.md", method="DELETE", namespace=["memories"])
    assert "Assam" not in caller.post("/context", ask).json()["system_prompt"]


def test_documents_that_are_long_come_up_by_the_passage_that_answers(caller, ada):
    calm = "\n".join(f"Day {day}: the harbour was calm and the gulls were loud, as on other days." for day in range(80))
    said = "Tim drinks green tea from Kyoto every single morning before he sails."
    put(caller, "/memories/log.md", {"content": f"{calm}\n{said}\n{calm}"})
    embed_pending_rows()
    answer = caller.post("/context", {"session_id": "s", "input": "What tea does Tim drink every morning?"}).json()
    [line] = [line for line in answer["system_prompt"].splitlines() if said in line]
    assert line.startswith("- [/memories/log.md] …")
    assert len(line) < 1_000
    assert [each["key"] for each in answer["truncated"]] == ["documents"]


def test_documents_travel_with_their_agent(caller, ada, admin, tmp_path):
    put(caller, value={"text": "Tim likes tea.", "id": "x"})
    put(caller, value={"text": "Tim likes coffee.", "id": "y"}, index=["text"])
    path = tmp_path / "ada.jsonl"
    text = "".join(agent_export(agent=ada, by=admin))
    path.write_text(text)
    assert "Tim likes coffee." in text
    # What prompts say follows from the value, whatever a file says of it.
    copy, counts = agent_import(path=path, by=admin, slug="copy")
    assert counts["document"] == 2
    rows = list(Document.objects.filter(agent=copy).order_by("version"))
    assert [(row.version, row.active, row.text) for row in rows] == [
        (1, False, "id: x\ntext: Tim likes tea."), (2, True, "Tim likes coffee."),
    ]  # fmt: skip
    assert rows[0].superseded_by_id == rows[1].pk
    assert rows[1].address == Document.objects.get(agent=ada, active=True).address
    assert SearchItem.objects.filter(agent=copy, item_type="document", active=True).count() == 1


def test_documents_text_is_what_the_fields_say():
    value = {"title": "Tea", "notes": [{"text": "green"}, {"text": "black"}], "cups": 2, "hot": True, "none": None}
    for fields, text in (
        (None, "cups: 2\nhot: true\nnotes.text: green\nnotes.text: black\ntitle: Tea"),
        ([], ""),
        (["title"], "Tea"),
        (["notes[*].text"], "notes[*].text: green\nnotes[*].text: black"),
        (["notes[1].text", "missing", "title.x"], "black"),
        (["$"], "cups: 2\nhot: true\nnotes.text: green\nnotes.text: black\ntitle: Tea"),
    ):
        assert document_text(value, fields) == text, fields
    assert document_text({"content": " Tea.\n"}, None) == "Tea."
    many = {"k" * 1_000: {"k" * 1_000: {str(number): 1 for number in range(5_000)}}}
    assert len(document_text(many, None)) == 100_000


@pytest.mark.django_db(transaction=True)
def test_documents_written_at_once_are_versions_one_after_another(ada, actor):
    def write(number):
        try:
            return document_put(
                agent=ada,
                namespace=["a"],
                key="k",
                value={"n": number},
                by=actor,
                base_version=0 if number > 5 else None,
            ).document.version
        except Conflict:
            return 0
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        versions = sorted(pool.map(write, range(8)))
    assert [version for version in versions if version] == list(range(1, Document.objects.count() + 1))
    assert Document.objects.filter(active=True).count() == 1
    assert Document.objects.get(active=True).version == Document.objects.count()


def test_documents_of_a_project_go_with_it(caller, ada, admin):
    put(caller, value={"text": "Global."})
    put(caller, value={"text": "Of the regatta."}, project="regatta")
    put(caller, value={"text": "Of the regatta, again."}, project="regatta")
    receipt = project_erase(agent=ada, project="regatta", by=admin, reason="Over.")
    assert receipt.rows["document"] == 2
    assert [row.value for row in Document.objects.all()] == [{"text": "Global."}]
    assert not AuditEvent.objects.filter(action__startswith="document.", after__key="tea", after__project="regatta")


def nested(depth):
    return {"inner": nested(depth - 1)} if depth else "end"


def test_values_that_nobody_could_read_or_export_are_refused(caller, api, ada):
    assert put(caller, "deep", nested(32))["action"] == "created"
    refused = (
        nested(33), nested(250), {"list": [[[[1]]]] * 2 + [nested(40)]}, {"x": [1e308] * 400}, {"x": 1e-70},
    )  # fmt: skip
    for value in refused:
        put(caller, "other", value, status=422)
    assert caller.post("/documents/search", {"namespace_prefix": [], "filter": nested(40)}).status_code == 422
    for number in (1e22, -0.0, 2.5, 7, 1e-05):
        put(caller, "number", {"x": number})
        assert put(caller, "number", {"x": number})["action"] == "unchanged"
    assert caller.get("/changes", {"bodies": "true"}).status_code == 200


def test_names_that_look_alike_are_one_and_hidden_ones_are_refused(caller):
    put(caller, "caf\u00e9")
    assert put(caller, "cafe\u0301")["action"] == "unchanged"
    assert item(caller, "cafe\u0301").status_code == 200
    for key in ("plan\ufe0f", "\u3164", "\u2800", "a\u034fb"):
        put(caller, key, status=422)


def test_what_people_took_away_comes_back_under_no_other_key(caller, ada, admin, actor):
    safe = {"text": "The safe opens with the number 4711."}
    put(caller, "safe", safe)
    document_retire(document=Document.objects.get(key="safe"), by=admin)
    put(caller, "vault", safe, status=409)
    put(caller, "safe", safe, status=409, task="t")
    fact = fact_learn(agent=ada, content="The key lies under the mat.", by=actor).fact
    fact_invalidate(fact=fact, reason="It does not.", by=admin)
    put(caller, "key", {"text": "The key lies under the mat."}, status=409)
    assert not Document.objects.active().exists()
    assert document_put(agent=ada, namespace=NOTES, key="vault", value=safe, by=admin).action == "created"

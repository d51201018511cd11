"""An agent that begins to serve many users: whose its memories are, and what of a user is exported and erased."""

import io
import json

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from context.services.agent_settings import settings_update
from identity.models import ApiToken, AuditEvent
from identity.principal import Principal
from memory.models import Document, Episode, Event, Fact, LoopSummary, SearchItem, WorkingMemory
from memory.services.search_index.row_embedding import embed_pending_rows
from memory.services.users import memories_assign, user_counts
from nousweb.lib.errors import Invalid, NotAllowed
from tests.factories import make_principal, make_token
from tests.http import browser


@pytest.fixture
def admin(charlie):
    return Principal.of_user(charlie)


MIA, NOAH = {"user": "mia"}, {"user": "noah"}
KEYED = (Fact, Episode, Event, LoopSummary, WorkingMemory, Document, SearchItem)


def told(caller, word: str, **keys: str) -> None:
    """Write one memory of each type that says `word`."""
    for path, body in (
        ("/facts", {"content": f"The mast of {word} is high.", "subject": f"ship {word}", "importance": 0.9}),
        ("/facts", {"content": f"Somebody wants {word}.", "category": "person"}),
        ("/episodes", {"title": f"Trip to {word}", "detail": f"All saw {word}."}),
        ("/decisions", {"description": f"Sail to {word}."}),
        ("/procedures", {"name": f"Reach {word}", "steps": ["Sail."]}),
    ):
        assert caller.post(path, {**body, **keys}).status_code == 201, path
    said = {"kind": "user_input", "content": f"Ahoy {word}.", "loop_id": f"loop-{word}", **keys}
    assert caller.post("/events", {"events": [said]}).status_code == 201
    note = {"namespace": ["notes"], "key": "place", "value": {"text": f"We know {word} well."}, **keys}
    assert caller.put("/documents", note).status_code == 200
    assert caller.put(f"/working/desk-{word}", {"task": f"Think of {word}.", **keys}).status_code == 200


def prompt(caller, word: str, **keys: str) -> str:
    asked = {"session_id": f"desk-{word}", "input": "How high is the mast of the ship?", **keys}
    answer = caller.post("/context", asked)
    assert answer.status_code == 200, answer.content
    return answer.json()["system_prompt"]


@pytest.fixture
def caller(api, ada):
    return api.as_token(make_token(ada, name="full"))


def test_page_of_a_user_lists_as_many_memories_as_the_list_of_users_counts(caller, ada, charlie):
    told(caller, "Oslo", **MIA)
    person = browser(charlie)
    (mia,) = (row for row in person.get("/agents/ada/users/").context["rows"] if row.words == "mia")
    assert len(person.get("/agents/ada/users/mia/").context["rows"]) == mia.total


def test_an_agent_that_serves_many_users_writes_nothing_without_one(caller, ada, admin):
    settings_update(agent=ada, serves_users=True, by=admin)
    refused = [
        ("/facts", {"content": "It is known."}),
        ("/events", {"events": [{"kind": "user_input", "content": "Hello."}]}),
        ("/episodes", {"title": "Trip"}),
        ("/decisions", {"description": "Go."}),
        ("/procedures", {"name": "Go", "steps": ["Go."]}),
        ("/sources", {"path": "a.md", "sha256": "0" * 64}),
        ("/working/desk/items", {"text": "Mine."}),
    ]
    for path, body in refused:
        answer = caller.post(path, body)
        assert (answer.status_code, "user" in answer.json()["field"]) == (422, True), (path, answer.content)
    assert caller.put("/working/desk", {"task": "Mine."}).status_code == 422
    assert caller.put("/documents", {"namespace": ["n"], "key": "k", "value": {}}).status_code == 422
    for user in ("mia", "*"):
        answer = caller.post("/facts", {"content": f"It is known to {user}.", "user": user})
        assert (answer.status_code, answer.json()["fact"]["user"]) == (201, user.replace("*", ""))


def test_memories_from_before_are_nobodys_until_people_assign_them(caller, ada, admin, api):
    told(caller, "avalon")
    told(caller, "ithaca")
    embed_pending_rows()
    assert "avalon" in prompt(caller, "avalon")
    events = list(Event.objects.order_by("pk").values_list("pk", "content", "recorded_at"))
    settings_update(agent=ada, serves_users=True, by=admin)
    for keys in ({}, MIA):
        assert "avalon" not in prompt(caller, "avalon", **keys)
    for path in ("/facts", "/events", "/episodes", "/decisions", "/procedures", "/documents", "/loops", "/profile"):
        assert "avalon" not in caller.get(path).content.decode(), path
    assert "avalon" not in caller.get("/recall?q=avalon&min_score=0&all_projects=true").content.decode()
    assert caller.get("/working/desk-avalon").status_code == 404
    assert caller.get(f"/facts/{Fact.objects.first().pk}").status_code == 404
    # People see them.
    person = api.as_person(admin.user)
    assert "avalon" in person.get("/facts", {"agent": "ada"}).content.decode()
    assert {user for _, user in user_counts([ada])} == {"?"}

    counts = memories_assign(agent=ada, by=admin, user="mia", words="avalon")
    assert counts == {"fact": 2, "episode": 1, "decision": 1, "procedure": 1, "document": 1, "loop": 1, "session": 1}
    assert "avalon" in prompt(caller, "avalon", **MIA)
    assert "avalon" not in prompt(caller, "avalon")
    document = caller.get("/documents/item?namespace=notes&key=place&user=mia")
    assert document.status_code in (200, 404)
    memories_assign(agent=ada, by=admin, user="*", types=["fact"])
    assert "ithaca" in caller.get("/facts?q=mast").content.decode()
    answer = person.post("/users/assign?agent=ada", {"user": "noah", "types": ["dream"]})
    assert (answer.status_code, answer.json()["field"]) == (422, "types")
    answer = person.post("/users/assign?agent=ada", {"user": "noah"})
    assert (answer.status_code, answer.json()["assigned"]["loop"]) == (200, 1)
    assert not any(model.objects.filter(user="?").exists() for model in KEYED)
    assert "ithaca" in prompt(caller, "ithaca", **NOAH)
    # Of the log nothing changed but whose it is.
    assert list(Event.objects.order_by("pk").values_list("pk", "content", "recorded_at")) == events
    assert AuditEvent.objects.filter(action="user.assign").count() == 3


def test_only_people_say_whose_memories_are(ada, admin, system):
    for by in (make_principal(ada), make_principal(ada, name="all", scopes=["users:manage", "memory:write"])):
        with pytest.raises(NotAllowed):
            memories_assign(agent=ada, by=by, user="mia")
        with pytest.raises(NotAllowed):
            settings_update(agent=ada, serves_users=True, by=by)
    for user in ("", "?"):
        with pytest.raises(Invalid):
            memories_assign(agent=ada, by=admin, user=user)


def traces(*words: str) -> dict[str, int]:
    """Rows by table that hold one of these words."""
    found = {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relkind = 'r' AND n.nspname = current_schema()"
        )
        for (table,) in cursor.fetchall():
            cursor.execute(
                f'SELECT count(*) FROM "{table}" t WHERE to_jsonb(t)::text ILIKE ANY(%s)',  # noqa: S608
                [[f"%{word}%" for word in words]],
            )
            if count := cursor.fetchone()[0]:
                found[table] = count
    return found


def test_nothing_is_left_of_an_erased_user(api, ada, caller, admin):
    make_token(ada, name="phone", user="mia-7")
    told(caller, "avalon", user="mia-7")
    told(caller, "ithaca", **NOAH)
    embed_pending_rows()
    run = caller.post("/context", {"session_id": "s", "input": "What is high?", "user": "mia-7"}).json()
    caller.get(f"/recall?q=avalon&user=mia-7&context={run['id']}")
    assert traces("avalon", "mia-7")
    manager = api.as_token(make_token(ada, name="manager", scopes=["users:manage"]))
    assert caller.post("/users/erase", {"user": "mia-7", "reason": "Asked."}).status_code == 403
    answer = manager.post("/users/erase", {"user": "mia-7", "reason": "Asked for."})
    assert answer.status_code == 200, answer.content
    # An actor learns nothing of how much there was.
    assert answer.json() == {"items": [{"agent": "ada", "rows": {}, "still_quoted": {}}]}
    assert traces("avalon", "mia-7") == {}
    assert ApiToken.objects.filter(name="phone").count() == 0
    record = AuditEvent.objects.filter(action="user.erase").latest("id")
    assert (record.message, record.object_label) == ("Asked for.", "A user")
    assert "ithaca" in prompt(caller, "ithaca", **NOAH)
    assert [one["user"] for one in manager.get("/users").json()["items"]] == ["noah"]


def test_a_user_of_whom_there_are_only_contexts_is_erased(api, ada, caller, charlie):
    prompt(caller, "ithaca", **NOAH)
    prompt(caller, "avalon", **MIA)
    manager = api.as_token(make_token(ada, name="manager", scopes=["users:manage"]))
    assert manager.post("/users/erase", {"user": "mia", "reason": "Asked for."}).status_code == 200
    assert traces("avalon") == {}
    erased = api.as_person(charlie).post("/users/erase", {"user": "noah", "reason": "Asked for."}).json()["items"]
    assert [one["rows"]["contextrun"] for one in erased] == [1]
    again = api.as_person(charlie).post("/users/erase", {"user": "noah", "reason": "Asked for."}).json()
    assert again == {"items": []}


def test_the_page_of_a_user_does_not_read_all_prompts(ada, bruno, charlie):
    with CaptureQueriesContext(connection) as asked:
        assert browser(charlie).get("/agents/ada/users/mia/").status_code == 404
    [statement] = [query["sql"] for query in asked if 'FROM "context_contextrun"' in query["sql"]]
    with connection.cursor() as cursor:
        # So few rows are read whole otherwise.
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {statement}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    [condition] = [line for line in plan.splitlines() if "Index Cond" in line and "request" in line]
    assert "(request -> 'user'::text) = " in condition, plan


def test_everything_of_a_user_is_exported_across_agents(api, ada, bruno, caller, charlie):
    told(caller, "avalon", **MIA)
    told(api.as_token(make_token(bruno, name="b")), "corfu", **MIA)
    told(caller, "ithaca", **NOAH)
    assert caller.get("/users").status_code == 403
    own = api.as_token(make_token(ada, name="manager", scopes=["users:manage"]))
    listed = own.get("/users").json()["items"]
    assert [(one["user"], one["agent"], one["memories"]["fact"]) for one in listed] == [
        ("mia", "ada", 2),
        ("noah", "ada", 2),
    ]
    person = api.as_person(charlie)
    for reader, agents in ((own, {"ada"}), (person, {"ada", "bruno"})):
        answer = reader.get("/users/export?user=mia")
        lines = [json.loads(line) for line in answer.content.decode().splitlines()]
        assert {line["agent"] for line in lines} == agents
        assert {line["row"]["user"] for line in lines} == {"mia"}
        tables = {"event", "fact", "episode", "decision", "procedure", "document", "loopsummary", "workingmemory"}
        assert {line["table"] for line in lines} == tables
    assert AuditEvent.objects.filter(action="user.export").count() == 3
    erased = person.post("/users/erase", {"user": "mia", "reason": "Asked for."}).json()["items"]
    assert [(one["agent"], one["rows"]["fact"]) for one in erased] == [("ada", 2), ("bruno", 2)]


def test_the_command_erases_a_user(ada, caller):
    told(caller, "avalon", **MIA)
    call_command("erase", "user", "ada", "mia", "--reason", "Asked for.", "--no-input", stdout=io.StringIO())
    assert traces("avalon") == {}


def test_people_assign_export_and_erase_on_the_pages(api, ada, caller, admin, charlie):
    told(caller, "avalon")
    settings_update(agent=ada, serves_users=True, by=admin)
    page = browser(charlie)
    assert b"Not assigned" in page.get("/agents/ada/users/").content
    for wrong in ({"user": ""}, {"user": "mia", "everybody": "on"}, {"user": "a\nb"}):
        assert page.post("/agents/ada/users/", wrong).status_code == 422
    assert (
        page.post("/agents/ada/users/", {"user": "mia", "types": ["fact", "loop"], "words": "avalon"}).status_code
        == 302
    )
    assert {fact.user for fact in Fact.objects.all()} == {Event.objects.get().user} == {"mia"}
    assert page.post("/agents/ada/users/", {"everybody": "on"}).status_code == 302
    assert Episode.objects.get().user == ""
    shown = page.get("/agents/ada/users/mia/").content.decode()
    assert "The mast of avalon is high." in shown
    assert "Trip to avalon" not in shown
    file = b"".join(page.get("/agents/ada/users/mia/?export=jsonl").streaming_content).decode()
    assert {json.loads(line)["table"] for line in file.splitlines()} == {"fact", "event", "loopsummary"}
    address = "/agents/ada/erase/user/?user=mia"
    assert b"memories of Ada" in page.get(address).content
    assert page.post(address, {"reason": "Asked for.", "name": "noah"}).status_code == 422
    assert page.post(address, {"reason": "Asked for.", "name": "mia"}).status_code == 302
    assert not Fact.objects.exists()
    assert page.get("/agents/ada/users/mia/").status_code == 404


def test_what_an_agent_knows_of_others_changes_no_score(api, ada, bruno, caller, admin):
    """A word that is rare for one user stays telling, however often others say it."""
    settings_update(agent=ada, serves_users=True, by=admin)
    own = api.as_token(make_token(bruno, name="own"))
    for teller, keys in ((caller, MIA), (own, {})):
        for text in ("The boat lies in Bergen.", "The kettle is new.", "The roof leaks in autumn."):
            assert teller.post("/facts", {"content": text, **keys}).status_code == 201
    events = [{"kind": "user_input", "content": f"My boat number {number} is a boat.", **NOAH} for number in range(150)]
    assert caller.post("/events", {"events": events}).status_code == 201
    embed_pending_rows()
    for question in ("Where is the boat?", "my boat lies somewhere", "kettle"):
        scores = [
            [(hit["content"], hit["score"]) for hit in one.get("/recall", {"q": question, **keys}).json()["items"]]
            for one, keys in ((caller, MIA), (own, {}))
        ]
        assert scores[0] == scores[1], question

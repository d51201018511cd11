"""Erasing a project: all that carries its key is gone from everywhere, and nothing else is."""

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from context.expectations.services import expectation_create, request_of
from context.models import ContextRun, Expectation
from identity.models import AuditEvent
from identity.policy.permissions import SCOPE_PERMISSIONS
from identity.principal import Principal
from memory.models import (
    Decision,
    Episode,
    Event,
    Fact,
    LongTermEntry,
    LoopSummary,
    Procedure,
    SearchItem,
    Subject,
    WorkingMemory,
)
from memory.services.erasure import project_erase
from memory.services.loops import loops_summarise
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.lib.errors import Invalid, NotAllowed, NotFound
from tests.factories import make_copies, make_token
from tests.http import browser
from tests.memory.test_erasure import assert_gone

KEPT = (Fact, Event, LongTermEntry, LoopSummary, Episode, Decision, Procedure, WorkingMemory, SearchItem)


@pytest.fixture
def admin(charlie):
    return Principal.of_user(charlie)


def stored(api, agent, project, word):
    """One memory of each kind with the key, each told by `word`; in both personas where both may write."""
    caller = api.as_token(make_token(agent, name=f"of {len(word)}", scopes=sorted(SCOPE_PERMISSIONS)))
    keys = {"project": project}

    def made(path, **body):
        answer = caller.post(path, {**body, **keys})
        assert answer.status_code in (200, 201), answer.content
        return answer.json()

    fact = made("/facts", content=f"The {word} ledger uses PostgreSQL.", subject=f"{word} ledger", task="t")["fact"]
    event = {"kind": "user_input", "content": f"We sail to {word} at dawn.", "loop_id": f"loop {word}", **keys}
    caller.post("/events", {"events": [event, {**event, "kind": "actor_output"}]})
    ids = Event.objects.filter(loop_id=f"loop {word}").values_list("pk", flat=True)
    loops_summarise(LoopSummary.objects.filter(loop_id=f"loop {word}").values_list("pk", flat=True))
    episode = made("/episodes", title=f"Trip to {word}")["id"]
    caller.post(f"/episodes/{episode}/events", {"event_ids": list(ids)})
    made("/decisions", description=f"Go to {word}.", episode=episode)
    made("/procedures", name=f"Reach {word}", steps=[f"Sail to {word}."])
    assert caller.put(f"/working/{word}", {"task": f"Plan {word}.", **keys}).status_code == 200
    embed_pending_rows()
    made("/context", session_id=word, input=f"What of the {word} ledger?")
    night = api.as_token(make_token(agent, "subconscious", name=f"night {len(word)}"))
    night.post("/facts", {"content": f"Dreams of {word}.", "subject": word, **keys})
    return fact


def test_project_erasure_leaves_nothing_of_it_and_all_of_others(api, ada, admin, reviewer):
    stored(api, ada, "zeus", "zanzibar")
    kept = stored(api, ada, "apollo", "bergen")
    both = {"session_id": "s", "input": "Ledger?", "project": "apollo", "include_projects": ["zeus"]}
    api.as_token(make_token(ada, name="both")).post("/context", both)
    for project, text in (("zeus", "nothing of the kind"), ("apollo", "ledger")):
        expectation_create(
            agent=ada, by=reviewer, request=request_of("Ledger?", project=project), requirement="absent",
            target="text", text=text,
        )  # fmt: skip
    before = {model: model.objects.filter(agent=ada).count() for model in KEPT}
    receipt = project_erase(agent=ada, project="zeus", by=admin, reason="The client left.")
    assert_gone("zanzibar", "zeus")
    for model in KEPT:
        assert model.objects.filter(agent=ada).count() * 2 == before[model], model
    assert Fact.objects.filter(pk=kept["id"]).exists()
    assert Subject.objects.filter(name="bergen ledger").exists()
    assert [one.request["project"] for one in Expectation.objects.all()] == ["apollo"]
    assert [run.request["project"] for run in ContextRun.objects.all()] == ["apollo"]
    assert (receipt.rows["fact"], receipt.rows["event"], receipt.rows["expectation"]) == (2, 2, 1)
    told = AuditEvent.objects.filter(action="project.erase")
    assert {row.message for row in told} == {"The client left."}
    with pytest.raises(NotFound):
        project_erase(agent=ada, project="zeus", by=admin, reason="Again.")


def test_project_erasure_needs_the_right_a_key_and_a_reason(api, ada, admin, reviewer, charlie):
    stored(api, ada, "zeus", "zanzibar")
    for by in (reviewer, Principal.of_system("x")):
        if by.kind == "person":
            with pytest.raises(NotAllowed):
                project_erase(agent=ada, project="zeus", by=by, reason="Why not?")
    for project, reason in (("", "Why."), ("zeus", " ")):
        with pytest.raises(Invalid):
            project_erase(agent=ada, project=project, by=admin, reason=reason)
    person = browser(charlie)
    address = "/agents/ada/erase/project/?project=zeus"
    assert b"Erase everything of the project zeus" in person.get("/agents/ada/facts/?project=zeus").content
    page = person.get(address)
    assert b"2</strong> facts of zeus" in page.content
    assert person.post(address, {"reason": "Left.", "name": "apollo"}).status_code == 422
    assert person.post(address, {"reason": "Left.", "name": "zeus"}).status_code == 302
    assert not Fact.objects.exists()


def test_project_erasure_by_command(api, ada):
    stored(api, ada, "zeus", "zanzibar")
    call_command("erase", "project", "ada", "zeus", "--reason", "Left.", "--no-input")
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    ("key", "action", "reason"),
    [("", "project.erase", "a project"), ("zeus", "fact.erase", "a project"), ("zeus", "project.erase", "facts are")],
)
def test_owners_function_erases_a_project_only(api, ada, key, action, reason):
    stored(api, ada, "zeus", "zanzibar")
    receipt = f'{{"action": "{action}", "message": "Why.", "author_name": "x"}}'
    with pytest.raises(DatabaseError, match=reason), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT nous_erase_project(%s, %s, %s::jsonb)", [ada.pk, key, receipt])


LISTS = {
    "/facts": "fact_of_project",
    "/events": "event_of_project",
    "/episodes": "episode_of_project",
    "/decisions": "decision_of_project",
    "/procedures": "procedure_of_project",
    "/loops": "loop_of_project",
}


def test_lists_of_a_project_read_its_index(api, ada, actor_token):
    """The plan of each list's own statement, where an agent has much that belongs to no project or to others."""
    stored(api, ada, "zeus", "zanzibar")
    for model in (Fact, Event, Episode, Decision, Procedure, LoopSummary):
        row = model.objects.filter(agent=ada, project="zeus", persona="actor").first()
        keyed = {"loop_id": "concat('l', n)"} if model is LoopSummary else {}
        changed = {"id": "900000 + n"} if model in (Event, LoopSummary) else {}
        make_copies(row, 3_000, project="CASE WHEN mod(n, 300) = 0 THEN 'hera' ELSE '' END", **changed, **keyed)
    caller = api.as_token(actor_token)
    for path, name in LISTS.items():
        with CaptureQueriesContext(connection) as asked:
            assert caller.get(path, {"project": "hera", "limit": 5}).status_code == 200
        [listed] = [query["sql"] for query in asked if "LIMIT" in query["sql"] and "hera" in query["sql"]]
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {listed}")
            plan = "\n".join(row[0] for row in cursor.fetchall())
        assert name in plan, plan

"""Export and import keep what belongs to which project and task."""

import io

from django.core.management import call_command

from context.expectations.services import expectation_create, request_of
from context.models import Expectation
from identity.models import Agent
from memory.models import (
    Decision,
    Episode,
    Event,
    Fact,
    LoopSummary,
    Procedure,
    ProjectScope,
    SearchItem,
    WorkingMemory,
)
from memory.persona import ActorMemory
from memory.search.request import SearchRequest
from memory.search.search import search
from memory.services.search_index.row_embedding import embed_pending_rows
from tests.factories import make_token

KEYED = (Fact, Event, LoopSummary, Episode, Decision, Procedure, SearchItem)


def keys_of(agent: Agent) -> dict[str, list[tuple[str, ...]]]:
    """The keys of each row of every table that carries them, with the scope that follows."""
    found: dict[str, list[tuple[str, ...]]] = {
        model.__name__: sorted(model.objects.filter(agent=agent).values_list("persona", "project", "task"))
        for model in KEYED
    }
    found["scopes"] = sorted(Fact.objects.filter(agent=agent).values_list("content", "scope"))
    found["working"] = list(WorkingMemory.objects.filter(agent=agent).values_list("project", "task_key"))
    rows = Expectation.objects.filter(agent=agent)
    found["asked"] = [(one.request["project"], one.request["task"]) for one in rows]
    return found


def test_export_and_import_keep_projects_and_tasks(api, ada, system, tmp_path):
    caller = api.as_token(make_token(ada))
    for number, keys in enumerate(({}, {"project": "zeus"}, {"project": "zeus", "task": "t1"}, {"task": "alone"})):
        fact = {"content": f"The mast of ship {number} is {number + 3} m high.", "subject": f"ship {number}", **keys}
        event = {"kind": "user_input", "content": f"Ahoy {number}.", "loop_id": f"l{number}", **keys}
        for path, body in (
            ("/facts", fact),
            ("/events", {"events": [event]}),
            ("/episodes", {"title": f"Trip {number}", **keys}),
            ("/decisions", {"description": f"Sail {number}.", **keys}),
            ("/procedures", {"name": f"Sail {number}", "steps": ["Go."], **keys}),
        ):
            assert caller.post(path, body).status_code == 201, path
    caller.put("/working/s", {"task": "Sail.", "project": "zeus", "task_key": "t1"})
    expectation_create(
        agent=ada, by=system, request=request_of("Mast?", project="zeus", task="t1"), requirement="present",
        target="text", text="mast",
    )  # fmt: skip
    before = keys_of(ada)
    assert before["working"] == before["asked"] == [("zeus", "t1")]
    call_command("exportagent", "ada", out=tmp_path / "ada.jsonl", stdout=io.StringIO(), stderr=io.StringIO())
    call_command("importagent", str(tmp_path / "ada.jsonl"), slug="copy", stdout=io.StringIO(), stderr=io.StringIO())
    copy = Agent.objects.get(slug="copy")
    assert keys_of(copy) == before
    embed_pending_rows()
    asked = {"query": "How high is the mast of the ship?", "types": ["fact"], "min_score": 0.0}
    for scope, number in ((ProjectScope(), 1), (ProjectScope("zeus"), 2), (ProjectScope("zeus", "t1"), 3)):
        assert len(search(ActorMemory(copy), SearchRequest(scope=scope, **asked)).items) == number

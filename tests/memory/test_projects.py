"""Projects and tasks: which memories carry their keys, who sees them, and which facts are compared."""

import json

import pytest

from memory.models import (
    EVERYTHING,
    GLOBAL,
    Event,
    Fact,
    LoopSummary,
    MemoryReview,
    ProjectScope,
    SearchItem,
    WorkingMemory,
)
from memory.persona import ActorMemory
from memory.search.request import SearchRequest
from memory.search.search import search
from memory.selectors import profile_texts
from memory.services.decisions import decision_record
from memory.services.episodes import episode_append, episode_open
from memory.services.facts import (
    fact_edit,
    fact_invalidate,
    fact_learn,
    fact_merge,
    fact_supersede,
)
from memory.services.loops import loop_close, loop_summarise
from memory.services.reviews.resolve import review_resolve
from memory.services.working_memory import working_set
from memory.transfer.agent_export import agent_export
from memory.transfer.agent_import import agent_import
from memory.transfer.conversation_readers import conversation_import
from nousweb.lib.errors import Invalid
from tests.factories import make_events

OLD = "The billing database runs PostgreSQL 15."
NEW = "The billing database now runs PostgreSQL 17."
ATLAS, BOREALIS = {"project": "atlas"}, {"project": "borealis"}


def learn(agent, by, content, **more):
    return fact_learn(agent=agent, content=content, subject="billing database", category="technical", by=by, **more)


def found(agent, scope, query="Which PostgreSQL does the billing database run?"):
    return {hit.content for hit in search(ActorMemory(agent), SearchRequest(query, scope, min_score=0.0)).items}


@pytest.mark.parametrize("keys", [" atlas", "at\nlas", "a" * 101, "at\u200blas"])
def test_keys_are_short_and_printable(ada, system, keys):
    with pytest.raises(Invalid) as refused:
        learn(ada, system, OLD, project=keys)
    assert refused.value.extra["field"] == "project"


def test_scope_follows_from_keys(ada, system):
    assert learn(ada, system, OLD, project="atlas", scope="global").fact.scope == "project"
    of_task = learn(ada, system, "The billing database is restored from the backup of May.", task="restore").fact
    assert of_task.scope == "task"
    with pytest.raises(Invalid):
        fact_edit(fact=of_task, by=system, scope="global")
    moved = fact_edit(fact=of_task, by=system, task="")
    assert (moved.scope, moved.task) == ("global", "")
    assert moved.changes.first().before["task"] == "restore"
    assert SearchItem.objects.get(item_id=str(moved.pk)).task == ""


def test_search_shows_own_and_global_only(ada, system):
    learn(ada, system, "The billing database is backed up nightly.")
    learn(ada, system, "The billing database of atlas runs PostgreSQL 15.", **ATLAS)
    learn(ada, system, "The billing database of atlas is restored now.", **ATLAS, task="restore")
    learn(ada, system, "The billing database of borealis runs PostgreSQL 12.", **BOREALIS)
    everywhere = {"The billing database is backed up nightly."}
    atlas = everywhere | {"The billing database of atlas runs PostgreSQL 15."}
    task = atlas | {"The billing database of atlas is restored now."}
    borealis = {"The billing database of borealis runs PostgreSQL 12."}
    assert found(ada, GLOBAL) == found(ada, ProjectScope("", "restore")) == everywhere
    assert found(ada, ProjectScope("atlas")) == found(ada, ProjectScope("atlas", "plan")) == atlas
    assert found(ada, ProjectScope("atlas", "restore")) == task
    assert found(ada, ProjectScope("borealis", "restore")) == everywhere | borealis
    assert found(ada, ProjectScope("borealis", "restore", ("atlas",))) == atlas | borealis
    assert found(ada, EVERYTHING) == task | borealis


def test_facts_of_two_projects_have_nothing_to_do_with_each_other(ada, system):
    first = learn(ada, system, OLD, **ATLAS).fact
    for keys in (BOREALIS, {"task": "restore"}):
        assert learn(ada, system, NEW, **keys).action == "stored"
        assert learn(ada, system, OLD, **keys, confidence=0.9).action != "confirmed"
    assert Fact.objects.get(pk=first.pk).active
    assert not MemoryReview.objects.filter(old=first).exists()
    assert not MemoryReview.objects.filter(new=first).exists()


def test_facts_of_one_project_replace_each_other(ada, system):
    def move(content, keys):
        return fact_learn(agent=ada, content=content, subject="Alice", by=system, **keys)

    first, other = (move("Alice lives in Berlin.", keys).fact for keys in (ATLAS, BOREALIS))
    learned = move("Alice lives in Paris.", ATLAS)
    assert (learned.action, [fact.pk for fact in learned.superseded]) == ("superseded", [first.pk])
    assert Fact.objects.get(pk=other.pk).active
    assert move("Alice lives in Paris.", ATLAS).action == "confirmed"


def test_what_is_known_everywhere_is_known_in_a_project(ada, system):
    known = learn(ada, system, OLD).fact
    assert (again := learn(ada, system, OLD, **ATLAS)).action == "confirmed"
    assert again.fact.pk == known.pk


def test_what_a_project_knows_is_not_known_everywhere(ada, system):
    known = learn(ada, system, OLD, **ATLAS).fact
    learned = learn(ada, system, OLD)
    assert learned.action == "stored"
    assert learned.fact.pk != known.pk


@pytest.mark.parametrize(("first", "second"), [({}, ATLAS), (ATLAS, {})])
def test_people_are_asked_about_a_project_that_differs_from_the_rest(ada, system, reviewer, first, second):
    old = learn(ada, system, OLD, **first).fact
    learned = learn(ada, system, NEW, **second)
    assert learned.action == "queued", "one would vanish elsewhere, or two would stand side by side"
    assert Fact.objects.get(pk=old.pk).active
    (review,) = learned.reviews
    if second:
        with pytest.raises(Invalid, match="belongs to project atlas"):
            review_resolve(review=review, resolution="replace", by=reviewer)
        with pytest.raises(Invalid):
            fact_supersede(old=old, new=learned.fact, by=reviewer)
        with pytest.raises(Invalid):
            fact_merge(duplicate=old, into=learned.fact, by=reviewer)
    with pytest.raises(Invalid, match="cannot be merged"):
        review_resolve(review=review, resolution="merge", content="Some text.", by=reviewer)
    review_resolve(review=review, resolution="same", by=reviewer)
    kept = Fact.objects.get(active=True)
    assert kept.project == "", "what all know is not lost for a project's"


def test_what_a_project_found_wrong_may_be_right_in_another(ada, system, actor):
    wrong = learn(ada, system, OLD, **ATLAS).fact
    fact_invalidate(fact=wrong, by=system)
    assert learn(ada, actor, OLD, **BOREALIS).action == "stored"
    assert learn(ada, actor, OLD, **ATLAS).action == "queued"
    assert learn(ada, actor, OLD).action == "queued", "it would come up there again"


def test_events_inherit_from_their_loop(ada, system, api, actor_token):
    make_events(ada, system, "Begin.", loop_id="talk")
    make_events(ada, system, "Now for atlas.", loop_id="talk", **ATLAS)
    make_events(ada, system, "And on.", loop_id="talk")
    assert list(Event.objects.order_by("pk").values_list("project", flat=True)) == ["", "atlas", "atlas"]
    loop_close(agent=ada, loop_id="talk", by=system)
    loop = LoopSummary.objects.get()
    loop_summarise(loop.pk)
    assert (loop.project, loop.task) == ("atlas", "")
    body = {"events": [{"kind": "user_input", "content": "x", "loop_id": "talk", "project": "borealis"}]}
    answer = api.as_token(actor_token).post("/events", body)
    assert (answer.status_code, answer.json()["code"]) == (409, "other_project")
    assert Event.objects.count() == 3


def test_episodes_take_no_events_from_elsewhere(ada, system):
    (foreign,) = make_events(ada, system, "Of borealis.", loop_id="b", **BOREALIS)
    (shared,) = make_events(ada, system, "Of all.", loop_id="g")
    episode = episode_open(agent=ada, by=system, title="Work on atlas", **ATLAS)
    with pytest.raises(Invalid, match="belongs to project borealis"):
        episode_append(episode=episode, event_ids=[foreign.pk], by=system)
    assert episode_append(episode=episode, event_ids=[shared.pk], by=system).added == 1
    assert fact_learn(agent=ada, content="It works.", source_episode=episode, by=system).fact.project == "atlas"
    assert decision_record(agent=ada, description="Go on.", episode=episode, by=system).project == "atlas"


def test_identities_are_not_seeded_from_projects(ada, system):
    fact_learn(agent=ada, content="Tim prefers tabs.", category="preference", by=system, **ATLAS)
    fact_learn(agent=ada, content="Tim prefers tea.", category="preference", by=system)
    assert list(profile_texts(ada)["preference"]) == ["Tim prefers tea."]


def test_api_keeps_filters_and_finds_by_keys(api, ada, system, actor_token):
    client = api.as_token(actor_token)
    said = {"content": "The ledger export runs nightly.", "project": "atlas", "task": "fix"}
    fact = client.post("/facts", said).json()["fact"]
    assert (fact["project"], fact["task"], fact["scope"]) == ("atlas", "fix", "task")
    client.post("/facts", {"content": "The ledger export is written in Go."})
    for path, body in (
        ("/procedures", {"name": "Export the ledger", **ATLAS}),
        ("/decisions", {"description": "Export the ledger nightly", **ATLAS}),
        ("/episodes", {"title": "The ledger export", **ATLAS}),
        ("/events", {"events": [{"kind": "error", "content": "The ledger export failed.", "loop_id": "l", **ATLAS}]}),
    ):
        assert client.post(path, body).status_code == 201
        assert [one["project"] for one in client.get(f"{path}?project=atlas").json()["items"]] == ["atlas"]
        assert client.get(f"{path}?project=borealis").json()["items"] == []
    assert [one["loop_id"] for one in client.get("/loops?project=atlas").json()["items"]] == ["l"]
    assert len(client.get("/facts?task=fix").json()["items"]) == 1
    question = "/recall?q=ledger export&min_score=0"
    assert {one["project"] for one in client.get(question).json()["items"]} == {""}
    assert {one["type"] for one in client.get(f"{question}&project=atlas").json()["items"]} == {
        "fact", "event", "episode", "procedure", "decision",
    }  # fmt: skip
    assert len(client.get(f"{question}&project=atlas&task=fix").json()["items"]) == 6
    assert len(client.get(f"{question}&include_project=atlas").json()["items"]) == 5
    assert len(client.get(f"{question}&all_projects=true").json()["items"]) == 6
    assert client.get(f"{question}&project=%20atlas").status_code == 422
    person = {"content": "Tim prefers tabs.", "category": "preference", **ATLAS}
    client.post("/facts", person)
    assert client.get("/profile").json()["preferences"] == []
    assert len(client.get("/profile?project=atlas").json()["preferences"]) == 1


def test_exports_and_imports_keep_the_keys(ada, system, tmp_path):
    make_events(ada, system, "Now for atlas.", loop_id="talk", **ATLAS)
    learn(ada, system, OLD, **ATLAS, task="fix")
    working_set(agent=ada, session_id="s", by=system, **ATLAS)
    path = tmp_path / "ada.jsonl"
    lines = list(agent_export(agent=ada, by=system))
    path.write_text("".join(lines), encoding="utf-8")
    copy, _ = agent_import(path=path, by=system, slug="copy")
    for model in (Event, LoopSummary, WorkingMemory):
        assert model.objects.get(agent=copy).project == "atlas"
    fact = Fact.objects.get(agent=copy)
    assert (fact.project, fact.task, fact.scope) == ("atlas", "fix", "task")
    assert found(copy, GLOBAL) == set()
    assert found(copy, ProjectScope("atlas", "fix")) >= {OLD}
    mixed = [line.replace('"atlas"', '"borealis"') if '"table":"event"' in line else line for line in lines]
    path.write_text("".join(mixed), encoding="utf-8")
    with pytest.raises(Invalid, match="another project, task or user"):
        agent_import(path=path, by=system, slug="mixed")


def test_imported_conversations_belong_to_a_project(ada, system, tmp_path):
    path = tmp_path / "talk.jsonl"
    said = [
        {"kind": "user_input", "content": "Hello."},
        {"kind": "error", "content": "No.", "loop_id": "b", **BOREALIS},
    ]
    path.write_text("\n".join(map(json.dumps, said)), encoding="utf-8")
    conversation_import(agent=ada, path=path, format="jsonl", by=system, project="atlas")
    assert sorted(Event.objects.values_list("project", flat=True)) == ["atlas", "borealis"]

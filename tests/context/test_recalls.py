"""What is looked up in the middle of a turn belongs to it: logged, counted as shown, judged by the answer, erased."""

from uuid import uuid4

import pytest
from django.urls import reverse

from context.models import ContextRecall, ContextRun, MemoryUsage
from context.services import recall as recalls
from identity.principal import Principal
from memory.services.erasure import fact_erase, project_erase
from tests.factories import make_events, make_fact, make_principal, make_token
from tests.http import browser

pytestmark = pytest.mark.django_db

BERRIES = "Elena grows blueberries behind the greenhouse in Quito."


@pytest.fixture
def ada_api(api, actor_token):
    return api.as_token(actor_token)


@pytest.fixture
def admin(charlie):
    return Principal.of_user(charlie)


def begun(client, text="hello", **more):
    return client.post("/context", {"session_id": "s", "input": text, **more}).json()["id"]


def test_recall_in_a_turn_is_judged_by_the_answer(ada_api, ada, actor):
    fact, rain = make_fact(ada, BERRIES, actor), make_fact(ada, "Umbrellas belong to the hallway.", actor)
    run_id = begun(ada_api)
    assert ContextRun.objects.get().sections == [] or BERRIES not in str(ContextRun.objects.get().sections)
    found = ada_api.get("/recall", {"q": "What does Elena grow?", "context": run_id, "min_score": 0}).json()
    assert {item["id"] for item in found["items"]} == {str(fact.pk), str(rain.pk)}
    logged = ContextRecall.objects.get()
    assert (str(logged.run_id), logged.agent, logged.persona) == (run_id, ada, "actor")
    assert logged.request["query"] == "What does Elena grow?"
    assert {item["text"] for item in logged.items} == {BERRIES, "Umbrellas belong to the hallway."}
    answer = {"response": "Elena grows blueberries behind the greenhouse in Quito, as far as I know."}
    items = ada_api.post(f"/context/{run_id}/response", answer).json()["items"]
    assert {item["id"]: item["referenced"] for item in items} == {str(fact.pk): True, str(rain.pk): False}
    assert dict(MemoryUsage.objects.values_list("item_id", "section")) == {
        str(fact.pk): "Recalled",
        str(rain.pk): "Recalled",
    }


def test_expansion_in_a_turn_counts_all_that_was_given(ada_api, ada, actor):
    events = make_events(ada, actor, "The boiler hums.", "It is set to 61 degrees.", "Thanks.", loop_id="talk")
    run_id = begun(ada_api)
    assert ada_api.get(f"/recall/event/{events[1].pk}", {"around": 1, "context": run_id}).status_code == 200
    logged = ContextRecall.objects.get()
    assert [(item["relation"], item["text"]) for item in logged.items] == [
        ("", "It is set to 61 degrees."),
        ("before", "The boiler hums."),
        ("after", "Thanks."),
    ]
    answer = {"response": "The boiler is set to 61 degrees."}
    items = ada_api.post(f"/context/{run_id}/response", answer).json()["items"]
    assert {item["id"] for item in items} == {str(event.pk) for event in events}
    assert next(item for item in items if item["id"] == str(events[1].pk))["referenced"]


def test_memory_of_prompt_and_recall_counts_once(ada_api, ada, actor):
    fact = make_fact(ada, BERRIES, actor)
    run_id = begun(ada_api, "What does Elena grow behind the greenhouse?")
    (section,) = [one["label"] for one in ContextRun.objects.get().sections if BERRIES in str(one)]
    ada_api.get("/recall", {"q": "What does Elena grow?", "context": run_id})
    ada_api.get(f"/recall/fact/{fact.pk}", {"context": run_id})
    assert ContextRecall.objects.count() == 2
    items = ada_api.post(f"/context/{run_id}/response", {"response": BERRIES}).json()["items"]
    assert [item["id"] for item in items] == [str(fact.pk)]
    assert MemoryUsage.objects.get().section == section


def test_recall_after_the_answer_conflicts(ada_api, ada, actor):
    fact = make_fact(ada, BERRIES, actor)
    run_id = begun(ada_api)
    ada_api.post(f"/context/{run_id}/response", {"response": "Nothing."})
    for path, query in (("/recall", {"q": "berries"}), (f"/recall/fact/{fact.pk}", {})):
        answer = ada_api.get(path, {**query, "context": run_id})
        assert (answer.status_code, "reported already" in answer.json()["detail"]) == (409, True)
    assert not ContextRecall.objects.exists()


def test_recalls_of_a_context_are_bounded(ada_api, ada, actor, monkeypatch):
    monkeypatch.setattr(recalls, "MAX_RECALLS", 2)
    run_id = begun(ada_api)
    statuses = [ada_api.get("/recall", {"q": "tea", "context": run_id}).status_code for _ in range(3)]
    assert statuses == [200, 200, 409]


def test_recall_names_a_context_of_the_caller(api, ada_api, ada, bruno, other_token):
    others = begun(api.as_token(other_token))
    hidden = begun(api.as_token(make_token(ada, persona="subconscious", name="below")))
    for context, status in ((others, 404), (hidden, 404), (str(uuid4()), 404), ("x", 422)):
        answer = ada_api.get("/recall", {"q": "tea", "context": context})
        assert answer.status_code == status, context
        assert ada_api.get(f"/recall/fact/{uuid4()}", {"context": context}).status_code == status, context
    assert not ContextRecall.objects.exists()


def test_recall_of_people_names_a_context_of_the_agent(api, charlie, ada_api, ada, bruno, actor):
    make_fact(ada, BERRIES, actor)
    run_id = begun(ada_api)
    person = api.as_person(charlie)
    assert person.get("/recall", {"q": "tea", "context": run_id, "agent": "bruno"}).status_code == 404
    found = person.get("/recall", {"q": "What does Elena grow?", "context": run_id, "agent": "ada"})
    assert [item["content"] for item in found.json()["items"]] == [BERRIES]
    assert ContextRecall.objects.get().principal_name == "charlie"


def test_erasing_a_fact_erases_the_turn_that_recalled_it(ada_api, ada, actor, admin):
    fact = make_fact(ada, BERRIES, actor)
    kept, gone = begun(ada_api), begun(ada_api)
    ada_api.get("/recall", {"q": "What does Elena grow?", "context": gone})
    fact_erase(fact=fact, by=admin, reason="Asked for.")
    assert [str(run.pk) for run in ContextRun.objects.all()] == [kept]
    assert not ContextRecall.objects.exists()


def test_erasing_a_project_erases_the_turns_that_recalled_it(ada_api, ada, actor, admin):
    make_events(ada, actor, BERRIES, project="garden")
    kept, asked, gone = (begun(ada_api) for _ in range(3))
    ada_api.get("/recall", {"q": "Elena", "context": asked, "project": "garden"})
    ada_api.get("/recall", {"q": "What does Elena grow?", "context": gone, "all_projects": True})
    project_erase(agent=ada, project="garden", by=admin, reason="Asked for.")
    assert [str(run.pk) for run in ContextRun.objects.all()] == [kept]


def test_turn_that_recalled_another_project_is_out_of_reach_of_a_limited_token(api, ada_api, ada, actor):
    run_id = begun(ada_api)
    ada_api.get("/recall", {"q": "Elena", "context": run_id, "project": "garden"})
    limited = api.as_token(make_token(ada, name="limited", projects=["house"]))
    assert limited.post(f"/context/{run_id}/response", {"response": "x"}).status_code == 404
    other = begun(ada_api)
    assert limited.post(f"/context/{other}/response", {"response": "x"}).status_code == 200


def test_turn_that_expanded_a_memory_of_another_project_is_out_of_reach_of_a_limited_token(api, ada_api, ada, actor):
    fact = make_fact(ada, BERRIES, actor, project="garden")
    common = make_fact(ada, "Umbrellas belong to the hallway.", actor)
    run_id, other = begun(ada_api), begun(ada_api)
    assert ada_api.get(f"/recall/fact/{fact.pk}", {"context": run_id}).status_code == 200
    assert ada_api.get(f"/recall/fact/{common.pk}", {"context": other}).status_code == 200
    limited = api.as_token(make_token(ada, name="limited", projects=["house"]))
    answer = limited.post(f"/context/{run_id}/response", {"response": BERRIES})
    assert answer.status_code == 404, answer.content
    assert limited.post(f"/context/{other}/response", {"response": "x"}).status_code == 200


def test_what_was_erased_meanwhile_is_not_logged(ada_api, ada, actor, monkeypatch):
    make_fact(ada, BERRIES, actor)
    run_id = begun(ada_api)
    real, tries = recalls.memory_search, []

    def search_and_erase(view, request, by):
        found = real(view, request, by)
        if not tries:
            ada.erasures += 1
            ada.save(update_fields=["erasures"])
        tries.append(len(found.items))
        return found

    monkeypatch.setattr(recalls, "memory_search", search_and_erase)
    assert ada_api.get("/recall", {"q": "What does Elena grow?", "context": run_id}).status_code == 200
    assert tries == [1, 1]
    assert ContextRecall.objects.count() == 1


def test_subconscious_recalls_in_its_own_turn(api, ada, actor):
    make_events(ada, make_principal(ada, "subconscious"), BERRIES, kind="subconscious_output")
    client = api.as_token(make_token(ada, persona="subconscious", name="below"))
    run_id = begun(client)
    client.get("/recall", {"q": "What does Elena grow?", "context": run_id, "min_score": 0})
    assert ContextRecall.objects.get().persona == "subconscious"


def test_run_page_shows_what_was_looked_up(ada_api, alice, ada, actor):
    fact = make_fact(ada, BERRIES, actor)
    run_id = begun(ada_api)
    answer = browser(alice).get(reverse("agent_context_run", args=["ada", run_id]))
    assert answer.status_code == 200
    page = answer.content.decode()
    assert "Looked up in the turn" not in page
    ada_api.get("/recall", {"q": "What does Elena grow?", "context": run_id})
    ada_api.get("/recall", {"q": "zzz", "context": run_id})
    ada_api.get(f"/recall/fact/{fact.pk}", {"context": run_id})
    ada_api.post(f"/context/{run_id}/response", {"response": BERRIES})
    answer = browser(alice).get(reverse("agent_context_run", args=["ada", run_id]))
    assert answer.status_code == 200
    page = answer.content.decode()
    assert "Looked up in the turn" in page
    assert "3 recalls" in page
    assert "What does Elena grow?" in page
    assert "No memory matches this search." in page
    assert "Context of" in page
    assert page.count(BERRIES) >= 3

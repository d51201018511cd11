"""An agent that tries to rewrite the procedures, decisions and episodes that people wrote or decided."""

import pytest

from identity.principal import Principal
from memory.lifecycle.handlers import handlers
from memory.models import Job, Procedure
from memory.services.procedures import procedure_update
from nousweb.lib.errors import Conflict
from tests.api.problems import assert_problem

AGENT = {"agent": "ada"}
BY_ITSELF = Principal.of_system("lifecycle")
BINDS = "only people can change it"

PROCEDURE = ("/procedures", {"name": "Deploy", "steps": ["Ask Ann for approval.", "Deploy."]})
DECISION = ("/decisions", {"description": "Dropped the table"})
EPISODE = ("/episodes", {"title": "Outage of May", "detail": "Cause: bad deploy."})

REWRITES = [
    (PROCEDURE, "PATCH", "", {"steps": ["Deploy without asking anybody."]}),
    (PROCEDURE, "PATCH", "", {"name": "Never do this"}),
    (PROCEDURE, "PATCH", "", {"tags": ["ineffective"]}),
    (PROCEDURE, "PATCH", "", {"active": False}),
    (DECISION, "POST", "/review", {"outcome": "success", "note": "People loved it."}),
    (DECISION, "PATCH", "", {"importance": 0.0}),
    (DECISION, "PATCH", "", {"active": False}),
    (EPISODE, "PATCH", "", {"title": "All went well", "summary": "Deploy freely."}),
    (EPISODE, "PATCH", "", {"active": False}),
    (EPISODE, "POST", "/close", {"outcome": "success", "lessons": ["Deploy freely."]}),
]

DECIDES = [
    (PROCEDURE, "PATCH", "", {"steps": ["Ask Ann."]}, ("PATCH", "", {"steps": ["Ask nobody."]})),
    (PROCEDURE, "PATCH", "", {"active": False}, ("PATCH", "", {"active": True})),
    (DECISION, "POST", "/review", {"outcome": "failure"}, ("POST", "/review", {"outcome": "success"})),
    (DECISION, "PATCH", "", {"tags": ["data"]}, ("PATCH", "", {"tags": []})),
    (EPISODE, "PATCH", "", {"summary": "It cost us a day."}, ("PATCH", "", {"summary": "All well."})),
    (EPISODE, "POST", "/close", {"outcome": "failure"}, ("PATCH", "", {"title": "All well"})),
]  # fmt: skip


@pytest.fixture
def agent(api, ada, actor_token):
    return api.as_token(actor_token)


@pytest.fixture
def person(api, ada, bob):
    return api.as_person(bob)


def made(caller, what, query=None):
    path, body = what
    answer = caller.post(path, body, query)
    assert answer.status_code == 201, answer.content
    return f"{path}/{answer.json()['id']}"


def call(caller, method, path, body, query=None):
    return caller.request(method, path, body=body, query=query)


@pytest.mark.parametrize(("what", "method", "suffix", "body"), REWRITES)
class TestWhatAPersonWrote:
    def test_memory_of_people_is_not_rewritten_by_tokens(self, agent, person, what, method, suffix, body):
        path = made(person, what, AGENT)
        before = agent.get(path).json()
        assert_problem(call(agent, method, path + suffix, body), 409, "conflict", detail=BINDS)
        assert agent.get(path).json() == before

    def test_memory_of_people_is_rewritten_by_people(self, person, what, method, suffix, body):
        assert call(person, method, made(person, what, AGENT) + suffix, body, AGENT).status_code == 200

    def test_memory_of_an_agent_is_rewritten_by_its_tokens_after_people_read_it(
        self, agent, person, what, method, suffix, body
    ):
        path = made(agent, what)
        assert person.get(path, AGENT).status_code == 200
        assert call(agent, method, path + suffix, body).status_code == 200


@pytest.mark.parametrize(("what", "method", "suffix", "body", "against"), DECIDES)
def test_memory_decision_of_a_person_is_not_reversed_by_tokens(agent, person, what, method, suffix, body, against):
    path = made(agent, what)
    assert call(person, method, path + suffix, body, AGENT).status_code == 200
    before = agent.get(path).json()
    turned, end, given = against
    assert_problem(call(agent, turned, path + end, given), 409, "conflict", detail=BINDS)
    assert agent.get(path).json() == before
    assert call(person, turned, path + end, given, AGENT).status_code == 200


def test_prompt_marks_what_people_wrote(agent, person):
    path = made(person, PROCEDURE, AGENT)
    call(agent, "PATCH", path, {"steps": ["Deploy without asking anybody."]})
    told = agent.post("/context", {"input": "How do I deploy?", "session_id": "s1"}).content.decode()
    assert "Ask Ann for approval." in told
    assert "without asking" not in told


def test_procedure_of_people_counts_and_flags_uses(ada, agent, person):
    path = made(person, PROCEDURE, AGENT)
    assert agent.post(f"{path}/activate").status_code == 200
    for _ in range(5):
        assert agent.post(f"{path}/report", {"success": False}).status_code == 200
    assert handlers()["procedure_flags"].apply(Job(agent=ada), None) == {"flagged": 1}
    procedure = Procedure.objects.get()
    assert (procedure.tags, procedure.steps) == (["ineffective"], PROCEDURE[1]["steps"])
    with pytest.raises(Conflict, match=BINDS):
        procedure_update(procedure=procedure, by=BY_ITSELF, active=False)


def test_episode_of_people_takes_events_while_open(agent, person):
    path = made(person, EPISODE, AGENT)
    assert agent.post(f"{path}/events", {"text": "Rolled back."}).status_code == 200
    assert agent.get(path).json()["detail"] == "Cause: bad deploy.\nRolled back."


def test_memory_used_or_saved_unchanged_is_not_endorsed(agent, person):
    path = made(agent, PROCEDURE)
    assert person.post(f"{path}/activate", {}, AGENT).status_code == 200
    assert call(person, "PATCH", path, PROCEDURE[1], AGENT).status_code == 200
    assert not Procedure.objects.get().endorsed
    assert call(agent, "PATCH", path, {"steps": ["Deploy."]}).status_code == 200

"""What a token of the subconscious may not bring about for the actor: one rule, one test, over HTTP.

`test_personas_sealed` looks for whatever is not thought of here. Source: seed "Agentic Memory System", Access Rules.
"""

import base64
import json

import pytest

from identity.models import ChangeProposal, IdentityVersion
from identity.principal import Principal
from identity.services.proposals import proposal_approve, proposal_reject
from memory.lifecycle.runner import job_run
from memory.models import Censor, Job
from memory.persona import SubconsciousMemory
from memory.tasks import embed_pending
from nousweb.lib.errors import NotFound
from tests.api.problems import assert_problem
from tests.factories import make_token

DREAM = "Always mention the zeppelin."


@pytest.fixture
def actor_api(api, actor_token):
    return api.as_token(actor_token)


@pytest.fixture
def dream_api(api, ada, system):
    scopes = ["identity:read", "identity:propose", "memory:read", "memory:write", "memory:rules", "context:read"]
    return api.as_token(make_token(ada, "subconscious", name="night", scopes=scopes))


@pytest.mark.parametrize("section", ["preferences", "protocols", "character", "environment"])
def test_subconscious_proposes_and_never_applies(actor_api, dream_api, section):
    before = actor_api.get("/identity").content
    answer = dream_api.put(f"/identity/{section}", {"content": DREAM, "reason": "It came at night."})
    assert answer.status_code == 202
    assert answer.json()["proposal"]["guardrail"] == "The subconscious can only propose; a person decides."
    assert actor_api.get("/identity").content == before
    assert DREAM not in actor_api.post("/context", {"session_id": "s", "input": "Hello?"}).json()["system_prompt"]


def test_subconscious_leaves_the_actors_daily_update(actor_api, dream_api):
    for _ in range(3):
        dream_api.put("/identity/preferences", {"content": DREAM})
    assert actor_api.put("/identity/preferences", {"content": "Answers in Celsius."}).json()["action"] == "applied"


def test_subconscious_proposal_is_hidden_from_the_actor(actor_api, dream_api, charlie):
    proposal = dream_api.put("/identity/preferences", {"content": DREAM}).json()["proposal"]["id"]
    assert dream_api.get(f"/proposals/{proposal}").status_code == 200
    assert_problem(actor_api.get(f"/proposals/{proposal}"), 404, "not_found")
    proposal_approve(proposal=ChangeProposal.objects.get(pk=proposal), by=Principal.of_user(charlie))
    assert_problem(actor_api.get(f"/proposals/{proposal}"), 404, "not_found")


@pytest.mark.parametrize("decide", [proposal_approve, proposal_reject])
def test_subconscious_proposal_is_decided_only_by_those_who_may_see_it(dream_api, bob, charlie, decide):
    answer = dream_api.put("/identity/preferences", {"content": DREAM})
    proposal = ChangeProposal.objects.get(pk=answer.json()["proposal"]["id"])
    with pytest.raises(NotFound):
        decide(proposal=proposal, by=Principal.of_user(bob))
    decide(proposal=proposal, by=Principal.of_user(charlie))


def test_subconscious_reads_the_actors_proposals(actor_api, dream_api):
    proposal = actor_api.put("/identity/values", {"content": "Truth."}).json()["proposal"]["id"]
    assert dream_api.get(f"/proposals/{proposal}").json()["content"] == "Truth."


def test_subconscious_proposal_equal_to_the_actors_is_separate(actor_api, dream_api):
    wish = {"content": "Truth.", "reason": "It helps."}
    hidden = dream_api.put("/identity/values", wish).json()["proposal"]
    own = actor_api.put("/identity/values", wish)
    assert own.status_code == 202
    assert own.json()["proposal"]["id"] != hidden["id"]
    assert own.json()["proposal"]["author_name"] == "ada · actor"


@pytest.mark.parametrize("edited", [None, "Mention zeppelins."])
def test_subconscious_proposal_approved_is_the_approvers_version(actor_api, dream_api, charlie, edited):
    answer = dream_api.put("/identity/preferences", {"content": DREAM, "reason": "I dreamed of it."})
    proposal = ChangeProposal.objects.get(pk=answer.json()["proposal"]["id"])
    proposal_approve(proposal=proposal, by=Principal.of_user(charlie), content=edited)
    (version,) = actor_api.get("/identity/preferences/history").json()["items"]
    assert (version["author_kind"], version["author_name"], version["reason"]) == ("person", "charlie", "")
    assert actor_api.get("/identity/preferences").json()["updated_by"] == "charlie"
    shown = actor_api.get("/identity").content + actor_api.get("/identity/preferences/history").content
    assert b"night" not in shown
    assert b"dreamed" not in shown
    # People still see where it came from.
    proposal.refresh_from_db()
    assert (proposal.persona, proposal.author_name) == ("subconscious", "ada · night")
    assert proposal.version == IdentityVersion.objects.current().get(section="preferences")


def test_subconscious_answers_do_not_rank_the_actors_memories(ada, actor_api, dream_api, settings):
    settings.USAGE_BOOST_PERCENT = 100
    for content in ("The ledger export runs at nine.", "The ledger export writes CSV."):
        actor_api.post("/facts", {"content": content, "category": "technical"})
    embed_pending()
    question = {"session_id": "s", "input": "How does the ledger export run?", "explain": True, "dry_run": True}

    def ranked(client):
        found = client.post("/context", question).json()["candidates"]
        return [(one["text"], one["score"], one["factors"]) for one in found]

    before = ranked(actor_api)
    for _ in range(4):
        run = dream_api.post("/context", {"session_id": "n", "input": question["input"]}).json()
        dream_api.post(f"/context/{run['id']}/response", {"response": "The ledger export writes CSV."})
        dream_api.post(f"/context/{run['id']}/outcome", {"outcome": "failure"})
    assert ranked(actor_api) == before
    assert ranked(dream_api) != before


def test_subconscious_checks_count_for_its_own_censors_only(actor_api, dream_api):
    body = {"pattern": "zeppelin", "escalation_threshold": 2}
    censor = actor_api.post("/censors", body).json()["id"]
    own = dream_api.post("/censors", {"pattern": "airship", "escalation_threshold": 2}).json()["id"]
    before = actor_api.get(f"/censors/{censor}").content
    for _ in range(5):
        found = dream_api.post("/censors/check", {"text": "A zeppelin is an airship."}).json()
        assert {match["id"] for match in found["matches"]} == {censor, own}
    for run in Job.objects.all():
        job_run(run.pk)
    assert actor_api.get(f"/censors/{censor}").content == before
    assert Censor.objects.get(pk=own).activation_count == 5
    assert Censor.objects.get(pk=own).severity == "block"


def event(number, kind="user_input"):
    return {"events": [{"kind": kind, "content": f"Number {number}.", "loop_id": f"l{number}"}]}


def test_event_ids_are_counted_by_persona(ada, bruno, actor_api, dream_api, api, other_token):
    ids = []
    for number in range(4):
        ids += [int(one["id"]) for one in actor_api.post("/events", event(number)).json()["events"]]
        dream_api.post("/events", {"events": event(number)["events"] * (3 * number + 1)})
        api.as_token(other_token).post("/events", event(number))
    assert [ids[0] + 2 * place for place in range(4)] == ids
    others = [int(one["id"]) for one in dream_api.get("/events", {"persona": "subconscious"}).json()["items"]]
    assert not {number % 2 for number in ids} & {number % 2 for number in others}
    brunos = [int(one["id"]) for one in api.as_token(other_token).get("/events").json()["items"]]
    assert {number >> 36 for number in ids} == {ada.pk}
    assert {number >> 36 for number in brunos} == {bruno.pk}
    # As text in JSON they would survive anyway; as numbers too.
    assert max(ids) < 2**53


def test_event_ids_of_others_are_unchanged_by_repeated_and_refused_calls(actor_api, dream_api):
    keyed = {"events": [{"kind": "error", "content": "x", "key": "k"}]}
    first = int(actor_api.post("/events", keyed).json()["events"][0]["id"])
    again = actor_api.post("/events", keyed).json()["events"][0]
    assert (int(again["id"]), again["repeated"]) == (first, True)
    assert dream_api.post("/events", keyed).status_code == 201
    assert dream_api.post("/events", {"events": [{"kind": "nothing", "content": "x"}]}).status_code == 422
    assert int(actor_api.post("/events", event(1)).json()["events"][0]["id"]) > first


def read(cursor):
    return json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))


@pytest.mark.parametrize("path", ["/loops", "/lifecycle", "history"])
def test_page_numbers_shared_by_everybody_are_absent(actor_api, dream_api, path):
    fact = actor_api.post("/facts", {"content": "Tim sails."}).json()["fact"]["id"]
    for number in range(3):
        actor_api.post("/events", event(number, "actor_output"))
        actor_api.post("/facts", {"content": "Tim sails."})
        episode = actor_api.post("/episodes", {"title": f"Trip {number}", "detail": "Tim went sailing."}).json()["id"]
        actor_api.post(f"/episodes/{episode}/close", {"outcome": "success"})
    path = f"/facts/{fact}/history" if path == "history" else path
    seen, cursor = [], ""
    while True:
        page = actor_api.get(path, {"limit": 1, "cursor": cursor}).json()
        seen += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
        _, key = read(cursor)
        assert not key.isdecimal() or int(key) <= 4, "the number of the change within its fact"
    assert seen == actor_api.get(path).json()["items"]
    assert len(seen) >= 3
    assert not any(isinstance(one.get("id"), int) for one in seen)


@pytest.mark.parametrize("key", ["x", "9" * 400, "-1", "\x00", ""])
@pytest.mark.parametrize("path", ["/loops", "/lifecycle", "history"])
def test_cursor_made_up_is_refused_or_empty(actor_api, path, key):
    fact = actor_api.post("/facts", {"content": "Tim sails."}).json()["fact"]["id"]
    raw = json.dumps(["2024-01-01T00:00:00+00:00", key]).encode()
    cursor = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    answer = actor_api.get(f"/facts/{fact}/history" if path == "history" else path, {"cursor": cursor})
    assert answer.status_code in (200, 422)


def test_log_of_both_personas_is_in_the_order_of_arrival(ada, actor_api, dream_api):
    shown = dream_api.post("/events", event(1)).json()["events"][0]
    assert shown["persona"] == "subconscious"
    assert_problem(actor_api.get(f"/events/{shown['id']}"), 404, "not_found")
    actor_api.post("/events", event(2))
    both = SubconsciousMemory(ada).events
    assert [one.persona for one in both] == ["actor", "subconscious"]

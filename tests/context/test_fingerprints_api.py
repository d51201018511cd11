"""GET /api/fingerprints: outcomes of tasks that are alike."""

from tests.factories import make_run, make_token

ASK = {
    "session_id": "s",
    "input": "Fix the parser in src/parser.py.",
    "task": {"mode": "implement", "tags": ["bugfix"]},
}


def ended(client, outcome):
    run = client.post("/context", ASK).json()
    assert client.post(f"/context/{run['id']}/outcome", {"outcome": outcome}).status_code == 200
    return run


def test_fingerprints_tell_how_tasks_that_are_alike_ended(api, ada, actor_token):
    client = api.as_token(actor_token)
    for outcome in ("success", "success", "failure"):
        run = ended(client, outcome)
    client.post("/context", {"session_id": "s", "input": "hello"})
    items = client.get("/fingerprints").json()["items"]
    assert [item["runs"] for item in items] == [3, 1]
    first = items[0]
    assert first["id"] == run["fingerprint"]["id"]
    assert first["about"] == run["fingerprint"]
    assert (first["success"], first["failure"]) == (2, 1)
    assert first["low"] < 100 * first["rate"] < first["high"]
    assert items[1]["rate"] is None
    later = client.get("/fingerprints", {"since": "2999-01-01T00:00:00Z"}).json()["items"]
    assert later == []


def test_fingerprints_of_the_subconscious_are_not_the_actors(api, ada, bruno, system, alice, actor_token):
    night = api.as_token(make_token(ada, "subconscious"))
    ended(night, "failure")
    make_run(bruno, system)
    assert api.as_token(actor_token).get("/fingerprints").json()["items"] == []
    assert api.as_person(alice).get("/fingerprints", {"agent": "ada"}).json()["items"] == []
    assert [item["failure"] for item in night.get("/fingerprints").json()["items"]] == [1]


def test_fingerprints_need_the_scope_of_contexts(api, ada):
    secret = make_token(ada, name="m", scopes=["memory:read"])
    assert api.as_token(secret).get("/fingerprints").status_code == 403

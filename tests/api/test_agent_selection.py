"""Which agent a call is about: a token's own, or the one that a person names."""

from tests.api.problems import assert_problem, each_once, rows

CALLS = [
    ("GET", "/identity", None),
    ("GET", "/identity/character", None),
    ("GET", "/identity/character/history", None),
    ("GET", "/identity/character/diff?from=1&to=1", None),
    ("PUT", "/identity/values", {"content": "Truth."}),
    ("GET", "/facts", None),
    ("POST", "/facts", {"content": "Paris is in France."}),
    ("POST", "/context", {"session_id": "s", "input": "?"}),
    ("POST", "/reinitiate", {}),
    # What they send is looked at after who sends it.
    ("POST", "/context", {"session_id": "s", "input": "?", "budgets": {"nothing": 1}}),
    ("POST", f"/loops/{'x' * 400}/close", None),
]


def test_agent_must_be_named_by_a_person(api, ada, charlie, subtests):
    for method, path, body in CALLS:
        with subtests.test(method=method, path=path, body=body):
            before = rows()
            assert_problem(api.as_person(charlie).request(method, path, body=body), 422, "invalid", field="agent")
            assert rows() == before


def test_agent_unknown_is_not_found(api, ada, charlie, subtests):
    for call, slug in each_once(CALLS, ["nobody", "ADA", "x" * 5000, "../ada", "ada'--"]):
        with subtests.test(call=call, slug=slug):
            method, path, body = call
            response = api.as_person(charlie).request(method, path.split("?")[0], body=body, query=_query(path, slug))
            assert_problem(response, 404, "not_found")


def test_agent_of_others_is_hidden_from_a_token(api, bruno, actor_token, subtests):
    """Bruno is there, yet Ada's token gets the answer that it gets for an agent that is not."""
    for method, path, body in CALLS:
        with subtests.test(method=method, path=path, body=body):
            before = rows()
            caller = api.as_token(actor_token)
            there = caller.request(method, path.split("?")[0], body=body, query=_query(path, "bruno"))
            not_there = caller.request(method, path.split("?")[0], body=body, query=_query(path, "nobody"))
            assert_problem(there, 404, "not_found")
            assert there.json()["detail"] == not_there.json()["detail"]
            assert rows() == before


def test_agent_of_its_own_may_be_named_by_a_token(api, ada, actor_token):
    assert api.as_token(actor_token).get("/identity", {"agent": "ada"}).json()["agent"] == "ada"


def _query(path: str, slug: str) -> dict[str, str]:
    return {"agent": slug} | ({"from": "1", "to": "1"} if "diff" in path else {})

"""Who is calling: a token, a signed-in person with a CSRF token, or nobody."""

import pytest

from identity.models import ApiToken
from identity.services.tokens import token_create, token_revoke
from tests.api.problems import assert_problem, rows

CHANGE = {"content": "Short answers."}


@pytest.mark.parametrize(("method", "path"), [("GET", "/identity"), ("PUT", "/identity/values"), ("POST", "/facts")])
def test_authentication_is_asked_of_anonymous_callers_for_any_method(api, ada, method, path):
    before = rows()
    response = api.request(method, path, body=CHANGE)
    assert_problem(response, 401, "not_authenticated")
    assert response["WWW-Authenticate"] == "Bearer"
    assert rows() == before


def test_authorization_header_without_a_token_is_refused(api, ada, subtests):
    for header in [
        "Bearer",
        "Bearer ",
        "Bearer nous_wrong",
        "Bearer sk-other",
        "Basic YWxpY2U6eA==",
        "bearer\x00x",
        "Bearer nous_\x00",
        "Bearer nous_é",
    ]:
        with subtests.test(header=header):
            assert_problem(api.with_headers(Authorization=header).get("/identity"), 401, "not_authenticated")


def test_authorization_scheme_is_read_in_any_case(api, actor_token):
    assert api.with_headers(Authorization=f"bearer {actor_token}").get("/identity").status_code == 200


@pytest.mark.parametrize("secret", ["revoked_token", "expired_token"])
@pytest.mark.parametrize(("method", "path"), [("GET", "/identity"), ("POST", "/context")])
def test_token_revoked_or_expired_is_refused(api, request, secret, method, path):
    caller = api.as_token(request.getfixturevalue(secret))
    assert_problem(caller.request(method, path, body={"session_id": "s", "input": "?"}), 401, "not_authenticated")


def test_token_is_refused_from_the_moment_of_its_revocation(api, ada, system):
    token, secret = token_create(agent=ada, persona="actor", name="laptop", by=system)
    assert api.as_token(secret).get("/identity").status_code == 200
    token_revoke(token=token, by=system)
    assert_problem(api.as_token(secret).get("/identity"), 401, "not_authenticated")


def test_token_time_of_use_is_recorded_at_most_once_a_minute(api, ada, actor_token):
    api.as_token(actor_token).get("/identity")
    first = ApiToken.objects.get(name="actor").last_used_at
    assert first is not None
    api.as_token(actor_token).get("/identity")
    assert ApiToken.objects.get(name="actor").last_used_at == first


def test_session_needs_the_csrf_token_for_changes(api, ada, bob):
    before = rows()
    caller = api.as_person(bob, csrf=False)
    assert caller.get("/identity", {"agent": "ada"}).status_code == 200
    refused = caller.put("/identity/values", CHANGE, {"agent": "ada"})
    assert_problem(refused, 403, "csrf_failed", detail="X-CSRFToken")
    assert rows() == before
    assert api.as_person(bob).put("/identity/values", CHANGE, {"agent": "ada"}).status_code == 200


def test_session_of_a_disabled_person_is_refused(api, ada, bob):
    caller = api.as_person(bob)
    assert caller.get("/identity", {"agent": "ada"}).status_code == 200
    bob.is_active = False
    bob.save()
    assert_problem(caller.get("/identity", {"agent": "ada"}), 401, "not_authenticated")


@pytest.mark.parametrize("secret", ["actor_token", "all_scopes_token"])
def test_token_beside_an_administrators_session_is_judged_alone(api, ada, charlie, request, secret):
    token = request.getfixturevalue(secret)
    both = api.as_person(charlie).with_headers(Authorization=f"Bearer {token}")
    before = rows()
    assert_problem(both.post("/reinitiate", {}, {"agent": "ada"}), 403, "not_allowed", detail="no token can")
    assert_problem(both.get("/identity", {"agent": "bruno"}), 404, "not_found")
    assert rows() == before


def test_token_revoked_is_not_rescued_by_a_session(api, charlie, revoked_token):
    both = api.as_person(charlie).with_headers(Authorization=f"Bearer {revoked_token}")
    assert_problem(both.get("/identity", {"agent": "ada"}), 401, "not_authenticated")


def test_token_hash_is_no_token(api, ada, actor_token):
    stored = ApiToken.objects.get(name="actor")
    assert actor_token not in (stored.digest, stored.prefix)
    assert stored.prefix == actor_token[:11]
    for kept in (stored.digest, stored.prefix, f"nous_{stored.digest}"):
        assert_problem(api.as_token(kept).get("/identity"), 401, "not_authenticated")


@pytest.mark.parametrize("given", ["trace-1", "A.b_c-9", "x" * 64])
def test_request_id_well_formed_is_kept(api, given):
    response = api.with_headers(X_Request_Id=given).get("/identity")
    assert response["X-Request-Id"] == given
    assert response.json()["request_id"] == given


def test_request_id_malformed_is_replaced(api, subtests):
    for given in ["", "x" * 65, "a b", "<script>", "ä", "a;b"]:
        with subtests.test(given=given):
            response = api.with_headers(X_Request_Id=given).get("/identity")
            assert response["X-Request-Id"] != given
            assert len(response["X-Request-Id"]) == 32

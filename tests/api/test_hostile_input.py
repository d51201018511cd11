"""Bodies and addresses that no client of good will sends: each gets a precise refusal, and nothing changes."""

import json

import pytest

from context.models import ContextRun
from identity.services.agents import agent_create
from tests.api.problems import assert_problem, each_once, rows
from tests.factories import SYSTEM, make_person

CHANGE = ("PUT", "/identity/preferences", {"content": "Prefers tea."})
FACT = ("POST", "/facts", {"content": "Paris is in France."})
CONTEXT = ("POST", "/context", {"session_id": "s", "input": "hello"})
REINITIATE = ("POST", "/reinitiate", {"reason": "anew"})
WITH_BODY = (FACT, CHANGE, CONTEXT, REINITIATE)
NOT_JSON = {
    "cut": b"{",
    "word": b"nul",
    "comma": b'{"content": "x",}',
    "utf-16": b"\xff\xfe{}",
    "surrogate-bytes": b'{"content": "\xed\xa0\x80"}',
    "bad-utf-8": b'{"content": "\xc3\x28"}',
    "nested": b"[" * 100_000,
    "digits": b'{"content": ' + b"9" * 5_000 + b"}",
}


@pytest.fixture(scope="module")
def ada(module_db):
    """Made once: what a test changes of her is undone after it."""
    return agent_create(slug="ada", name="Ada", kind="knight", prompt="You are Ada, calm and exact.", by=SYSTEM)


@pytest.fixture(scope="module")
def charlie(module_db):
    return make_person("charlie", "Administrator")


@pytest.fixture
def caller(api, ada, charlie):
    """Charlie, who may do everything, so that only the input can be refused."""
    return lambda method, path, body: api.as_person(charlie).request(method, path, body=body, query={"agent": "ada"})


@pytest.mark.parametrize(("call", "name"), each_once(WITH_BODY, [*NOT_JSON]))
def test_body_not_json_in_utf_8_is_refused(caller, call, name):
    before = rows()
    refused = caller(*call[:2], NOT_JSON[name])
    assert refused.status_code in (400, 422)
    assert_problem(refused, refused.status_code, {400: "bad_request", 422: "invalid"}[refused.status_code])
    assert b"Traceback" not in refused.content
    assert rows() == before


@pytest.mark.parametrize(("call", "body"), each_once(WITH_BODY, [b"[]", b'"text"', b"17", b"true"]))
def test_body_that_is_no_object_is_refused(caller, call, body):
    before = rows()
    assert_problem(caller(*call[:2], body), 422, "invalid")
    assert rows() == before


@pytest.mark.parametrize(("call", "body"), each_once((FACT, CHANGE, CONTEXT), [b"", b"null", b"{}"]))
def test_body_missing_is_refused(caller, call, body):
    before = rows()
    assert_problem(caller(*call[:2], body), 422, "invalid")
    assert rows() == before


UNKNOWN = ("agent_id", "persona", "id", "__class__", "Content", "", "\ud800", "\x00")


@pytest.mark.parametrize(("call", "extra"), each_once(WITH_BODY, UNKNOWN))
def test_field_unknown_is_refused_by_name(caller, call, extra):
    before = rows()
    named = "" if extra == "\ud800" else extra
    assert_problem(caller(*call[:2], call[2] | {extra: "x"}), 422, "invalid", field=named)
    assert rows() == before


MORE_TEXT = {"/facts": ("subject", "source"), "/identity/preferences": ("reason",)}
TEXT_FIELDS = [(call, field) for call in WITH_BODY for field in (*call[2], *MORE_TEXT.get(call[1], ()))]


@pytest.mark.parametrize(("place", "text"), each_once(TEXT_FIELDS, ["a\x00b", "\x00", "a\ud800b", "\udfff"]))
def test_text_that_cannot_be_stored_is_refused_by_field(caller, place, text):
    (method, path, good), field = place
    before = rows()
    assert_problem(caller(method, path, good | {field: text}), 422, "invalid", field=field)
    assert rows() == before


@pytest.mark.parametrize("tags", [["a\x00"], ["\ud800"]])
def test_text_inside_a_list_is_checked(caller, tags):
    assert_problem(caller(*FACT[:2], FACT[2] | {"tags": tags}), 422, "invalid", field="tags")


@pytest.mark.parametrize("place", TEXT_FIELDS)
def test_text_of_a_megabyte_is_refused_by_field(caller, place):
    (method, path, good), field = place
    before = rows()
    body = assert_problem(caller(method, path, good | {field: "x" * 1_000_000}), 422, "invalid", field=field)
    assert len(json.dumps(body)) < 3_000, "a refusal must not quote the text back"
    assert rows() == before


@pytest.mark.parametrize(("place", "value"), each_once(TEXT_FIELDS, [17, 1.5, True, ["x"], {"a": 1}]))
def test_text_of_another_type_is_refused_by_field(caller, place, value):
    (method, path, good), field = place
    before = rows()
    assert_problem(caller(method, path, good | {field: value}), 422, "invalid", field=field)
    assert rows() == before


EPISODE = ("POST", "/episodes", {})
OTHER_TYPES = [
    (*FACT, "confidence", [True, False, "0.5", "", [1]]),
    (*FACT, "valid_from", [17, 1_700_000_000_000, True, "17", "1700000000", "2026-01-01", "2026-01-01T00:00:00"]),
    (*EPISODE, "started_at", [17, "17", False, "tomorrow"]),
    (*CONTEXT, "budget", [True, "500", 500.5]),
    (*CONTEXT, "dry_run", [1, 0, "true", "no"]),
    (*CONTEXT, "as_of", [17, "17", "2026-01-01T00:00:00", "2999-01-01T00:00:00Z"]),
    (*CONTEXT, "task", [{"files": ["a.py"] * 100}, "debug", 1]),
]


@pytest.mark.parametrize(
    ("method", "path", "good", "field", "value"),
    [
        pytest.param(*call, field, value, id=f"{call[1]}:{field}={value!r}"[:60])
        for *call, field, values in OTHER_TYPES
        for value in values
    ],
)
def test_numbers_times_and_booleans_are_read_only_as_declared(caller, method, path, good, field, value):
    before = rows()
    refused = caller(method, path, good | {field: value})
    named = {error["field"].split(".")[0] for error in refused.json().get("errors", ())} | {refused.json().get("field")}
    assert_problem(refused, 422, "invalid")
    assert named & {field, "files"}
    assert "Value error" not in refused.json()["detail"]
    assert rows() == before


def test_values_as_declared_are_accepted(caller):
    given = {"confidence": 1, "valid_from": "2026-01-01T00:00:00+02:00", "importance": 0.25, "valid_until": None}
    assert caller(*FACT[:2], FACT[2] | given).status_code == 201
    asked = {"budget": 500, "dry_run": True, "as_of": "2026-01-01T00:00:00Z", "frame": None}
    assert caller(*CONTEXT[:2], CONTEXT[2] | asked).status_code == 200


@pytest.mark.parametrize("said", ["hello", "What happened last week?", "What happened yesterday with the ledger?"])
def test_time_at_the_minimum_is_accepted(caller, said):
    moments = ("0001-01-01T00:00:00Z", "0001-01-02T00:00:00Z")
    for moment in moments:
        assert caller(*CONTEXT[:2], CONTEXT[2] | {"input": said, "as_of": moment}).status_code == 200
    before = rows()
    refused = caller(*CONTEXT[:2], CONTEXT[2] | {"input": said, "as_of": "0001-01-01T00:00:00+14:00"})
    # The database would keep it, and no page that lists it could be read again.
    assert_problem(refused, 422, "invalid", field="as_of")
    assert rows() == before
    assert {run.as_of.isoformat() for run in ContextRun.objects.all()} == {
        moment.replace("Z", "+00:00") for moment in moments
    }


@pytest.mark.parametrize(("method", "path", "good"), WITH_BODY)
def test_body_beyond_the_limit_is_too_large(caller, settings, method, path, good):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10_000
    before = rows()
    assert_problem(caller(method, path, b" " * 10_001 + b"{}"), 413, "too_large", detail="10,000")
    assert rows() == before


def test_body_of_a_form_is_not_taken_for_json(api, ada, charlie):
    caller = api.as_person(charlie)
    token = caller.client.cookies["csrftoken"].value
    response = caller.client.post("/api/facts?agent=ada", {"content": "x"}, headers={"X-CSRFToken": token})
    assert_problem(response, 415, "unsupported_media_type")


@pytest.mark.parametrize("path", ["/identity?agent=a%00b", "/facts?cursor=%00", "/proposals/%00", "/identity/a%00b"])
def test_address_with_a_nul_is_refused(api, actor_token, path):
    assert_problem(api.as_token(actor_token).get(path), 400, "bad_request")


@pytest.mark.parametrize(
    "path", ["/events?from=", "/events?to=", "/facts?as_of=", "/facts?valid_at=", "/recall?q=x&as_of=", "/loops?from="]
)
def test_moment_in_an_address_is_text(api, all_scopes_token, path):
    caller = api.as_token(all_scopes_token)
    for moment in ("1700000000", "1.5", "1e9"):
        assert_problem(caller.get(path + moment), 422, "invalid", detail="A moment is text with a time zone")
    assert caller.get(f"{path}2026-01-31T09:00:00Z").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/identity", "GET"),
        ("DELETE", "/identity", "GET"),
        ("HEAD", "/identity", "GET"),
        ("OPTIONS", "/identity", "GET"),
        ("PATCH", "/identity/values", "GET, PUT"),
        ("DELETE", "/identity/values", "GET, PUT"),
        ("POST", "/identity/values/history", "GET"),
        ("PUT", "/identity/values/diff", "GET"),
        ("DELETE", "/facts", "GET, POST"),
        ("PUT", "/facts/00000000-0000-0000-0000-000000000000", "GET, PATCH"),
        ("DELETE", "/proposals/00000000-0000-0000-0000-000000000000", "GET"),
        ("GET", "/context", "POST"),
        ("GET", "/reinitiate", "POST"),
    ],
)
def test_method_not_offered_is_refused(api, all_scopes_token, method, path, allowed):
    response = api.as_token(all_scopes_token).request(method, path, body={})
    assert response.status_code == 405
    assert set(response["Allow"].split(", ")) == set(allowed.split(", "))
    if method != "HEAD":
        assert_problem(response, 405, "method_not_allowed")


@pytest.mark.parametrize("path", ["/", "/nothing", "/identity/", "/identity/values/", "/v1/identity"])
def test_address_unknown_is_a_problem_document(api, actor_token, path):
    assert_problem(api.as_token(actor_token).get(path), 404, "not_found")

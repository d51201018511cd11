"""The reference of the API as pages: every operation is there, and the calls that it shows are accepted."""

import re

import pytest

from nousweb.console.api_reference.operations import operations
from tests.api.test_openapi import OPERATIONS
from tests.http import ApiClient, markup

pytestmark = pytest.mark.django_db


def test_reference_lists_every_operation_without_a_login(client):
    shown = markup(client.get("/api/docs"))
    assert sorted((each.method, each.path) for each in operations()) == sorted(OPERATIONS)
    assert len(operations()) > 90
    for operation in operations():
        assert f'href="/api/docs/{operation.method}/{operation.path[5:]}"' in shown.replace("%7B", "{").replace(
            "%7D", "}"
        )
    assert "<script>" not in shown
    assert "http" not in re.sub(r'href="[^"]*"', "", shown)


def test_reference_is_searched_by_path_summary_and_field(client):
    for words, path in (
        ("learn fact", "/api/facts"),
        ("SUPERSEDE", "/api/facts/{fact_id}/supersede"),
        ("profile_override", "/api/context"),
    ):
        shown = markup(client.get("/api/docs", {"q": words}))
        assert f">{path}</a>" in shown
    assert "No operation matches" in markup(client.get("/api/docs", {"q": "<b>nothing</b>"}))


def test_each_operation_has_a_page(client):
    for operation in operations():
        answer = client.get(f"/api/docs/{operation.method}/{operation.path[5:]}")
        assert answer.status_code == 200, operation.path
        assert operation.summary in answer.content.decode().replace("&#x27;", "'")
    assert client.get("/api/docs/GET/nothing").status_code == 404
    assert client.get("/api/docs/PATCH/context").status_code == 404


def test_fields_are_told_with_type_bounds_and_meaning(client):
    shown = markup(client.get("/api/docs/POST/facts"))
    assert "text, 1 to 8000 characters" in shown
    assert "one of task, project, global" in shown
    assert "The fact, as one sentence" in shown
    assert "curl -s -H" in shown


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_example_is_a_call_that_the_api_can_read(method, path, all_scopes_token, charlie):
    """Ids of nothing are answered 404; what cannot be read would be 400, 415 or 422."""
    (operation,) = (each for each in operations() if (each.method, each.path) == (method, path))
    example = operation.example("http://127.0.0.1:8000")
    address = re.search(r"'http://127\.0\.0\.1:8000(/api[^']*)'", example)[1]
    called, _, query = address.partition("?")
    parameters = dict(pair.split("=") for pair in query.split("&")) if query else {}
    for caller in (ApiClient().as_token(all_scopes_token), ApiClient().as_person(charlie)):
        asked = parameters if caller.headers.get("Authorization") else {**parameters, "agent": "ada"}
        answer = caller.request(operation.method, called[4:], body=operation.example_body(), query=asked)
        assert answer.status_code not in (400, 405, 415, 422, 500), answer.content

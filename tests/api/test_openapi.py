"""The OpenAPI document: as it was agreed on, and true of what the endpoints do."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from hypothesis import HealthCheck, given, settings

from identity.policy.permissions import SCOPE_PERMISSIONS
from identity.policy.sections import Section
from identity.principal import Principal
from identity.services.agents import agent_create
from identity.services.proposals import identity_propose
from memory.models import Scope
from memory.services.facts import fact_learn
from nousweb.api import api as the_api
from tests.api.problems import assert_problem, rows
from tests.factories import SYSTEM, make_person, make_principal, make_token
from tests.http import signed_in, wsgi_application

SNAPSHOT = Path(__file__).parents[2] / "docs" / "openapi.json"


def document():
    return json.loads(json.dumps(the_api.get_openapi_schema()))


# Of the agreed document, which is there without half a second of work in every process that collects the tests.
AGREED = json.loads(SNAPSHOT.read_text())
OPERATIONS = [(method.upper(), path) for path, operations in AGREED["paths"].items() for method in operations]


def test_openapi_document_is_unchanged():
    assert document() == AGREED, "docs/api.md says how docs/openapi.json is written anew"


def test_openapi_resources_are_those_of_the_guide():
    rows = re.findall(r"^\| `/api/.*?\|", (SNAPSHOT.parent / "api.md").read_text(), re.MULTILINE)
    listed = [resource for row in rows for resource in re.findall(r"`(/api/[a-z]+)`", row)]
    assert sorted(listed) == sorted({re.match("/api/[a-z]+", path)[0] for _, path in OPERATIONS})


def test_openapi_operations_describe_purpose_and_refusals():
    for path, operations in document()["paths"].items():
        for method, operation in operations.items():
            named = f"{method.upper()} {path}"
            assert operation["summary"], named
            assert operation.get("description"), named
            assert {"401", "403", "404", "422"} <= operation["responses"].keys(), named
            for status in ("401", "403", "404", "422"):
                assert list(operation["responses"][status]["content"]) == ["application/problem+json"], named
            for name, body in operation.get("requestBody", {}).get("content", {}).items():
                assert name == "application/json", named
                assert body["schema"], named


def test_openapi_inputs_have_bounds_and_choices():
    schemas = document()["components"]["schemas"]
    fact = schemas["FactIn"]["properties"]
    assert (fact["confidence"]["minimum"], fact["confidence"]["maximum"]) == (0, 1)
    assert fact["scope"]["enum"] == Scope.values
    assert (fact["tags"]["maxItems"], fact["tags"]["items"]["maxLength"]) == (20, 50)
    assert re.fullmatch(fact["category"]["pattern"], "preference")
    for name, schema in schemas.items():
        if not name.endswith(("In", "Patch")):
            continue
        for field, shape in schema["properties"].items():
            choices = [shape, *shape.get("anyOf", ())]
            if any(one.get("type") == "number" for one in choices):
                assert any("maximum" in one for one in choices), f"{name}.{field}"
            if name.endswith("Patch") and field not in ("reason", "message"):
                assert "default" not in shape, f"{name}.{field}: left out, it stays as it is"


def test_openapi_inputs_refuse_unknown_fields():
    for name, schema in document()["components"]["schemas"].items():
        if name.endswith(("In", "Patch")):
            assert schema.get("additionalProperties") is False, name


def test_openapi_query_parameters_that_no_operation_has_are_refused(api, ada, charlie):
    person, before = api.as_person(charlie), rows()
    for method, path in OPERATIONS:
        address = re.sub(r"{[^}]*}", "1", path).removeprefix("/api")
        body = {} if method in ("POST", "PUT", "PATCH") else None
        query = {"agent": "ada", "nonsense": "1", "Limit": "2"}
        problem = assert_problem(person.request(method, address, body=body, query=query), 422, "invalid")
        assert {error["field"] for error in problem["errors"]} >= {"nonsense", "Limit"}, f"{method} {path}"
        assert_problem(api.request(method, address, body=body, query=query), 401, "not_authenticated")
    assert rows() == before


@pytest.fixture(scope="module")
def schema(django_db_setup, django_db_blocker):
    # Only the process that runs these tests needs them, and the first takes as long as all of the product.
    import schemathesis

    with django_db_blocker.unblock():
        return schemathesis.openapi.from_wsgi("/api/openapi.json", wsgi_application())


@pytest.fixture(autouse=True)
def _connection_outlives_requests():
    """As Django's own test client has it: the transaction of a test goes on after each of its requests."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


FEW = settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@dataclass
class World:
    """Who calls, and path parameters that stand for something: half the examples get them."""

    token: str
    administrator: User
    real: dict[str, str]


@pytest.fixture(scope="module")
def world(module_db):
    """Ada with something to look at, made once: what an operation changes is undone after its test."""
    ada = agent_create(slug="ada", name="Ada", kind="knight", prompt="You are Ada, calm and exact.", by=SYSTEM)
    actor, reviewer = make_principal(ada), Principal.of_user(make_person("bob", "Reviewer"))
    identity_propose(agent=ada, section="values", content="Truth.", by=reviewer)
    proposal = identity_propose(agent=ada, section="character", content="Brisk.", by=actor).proposal
    fact_learn(agent=ada, content="Tim's twin is Ann.", subject="Tim", by=actor)
    asked = fact_learn(agent=ada, content="Tim's twin is Eva.", subject="Tim", by=actor).review
    return World(
        token=make_token(ada, name="everything", scopes=list(SCOPE_PERMISSIONS)),
        administrator=make_person("charlie", "Administrator"),
        real={
            "fact_id": str(fact_learn(agent=ada, content="Tim sails.", by=actor).fact.pk),
            "proposal_id": str(proposal.pk),
            "section": Section.VALUES.value,
            "loop_id": "loop-1",
            "review_id": str(asked),
        },
    )


def check(case, real, **call):
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    wanted = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    if len(repr(case.body) + repr(case.query)) % 2:
        known = {name: real[name] for name in case.path_parameters or {} if name in real}
        case.path_parameters = (case.path_parameters or {}) | known
    response = case.call(**call)
    case.validate_response(response, checks=wanted)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_openapi_document_holds_for_tokens_and_people(db, schema, world, method, path):
    """Each example is sent by a token and by an administrator."""
    cookies = {name: morsel.value for name, morsel in signed_in(world.administrator).cookies.items()}

    @FEW
    @given(case=schema[path][method].as_strategy())
    def run(case):
        check(case, world.real, headers={"Authorization": f"Bearer {world.token}"})
        case.query = (case.query or {}) | {"agent": "ada"}
        check(case, world.real, headers={"X-CSRFToken": cookies["csrftoken"]}, cookies=cookies)

    run()

"""GET /api/identity and GET /api/identity/{section}."""

import pytest

from identity.models import IdentityVersion
from identity.principal import Principal
from identity.services.agents import agent_create
from identity.services.proposals import identity_propose
from tests.api.problems import assert_problem


def test_identity_get_by_the_agent(api, ada, actor_token):
    answer = api.as_token(actor_token).get("/identity")
    assert answer.status_code == 200
    body = answer.json()
    assert list(body) == ["agent", "initiation_state", "sections", "prompt", "tokens", "etag"]
    assert body["agent"] == "ada"
    assert body["initiation_state"] == "initiated"
    assert list(body["sections"]) == ["character", "boundaries"]
    assert body["prompt"] == (
        "## Character\nYou are Ada, calm and exact.\n\n"
        "## Boundaries\nSee Active Censors section for current safety rules."
    )
    assert body["tokens"] == -(-len(body["prompt"]) // 4)
    assert body["etag"] == answer["ETag"] == '"character=1,boundaries=1"'
    character = body["sections"]["character"]
    assert list(character) == ["section", "version", "content", "tokens", "updated_at", "updated_by", "etag"]
    assert (character["version"], character["tokens"], character["updated_by"]) == (1, 7, "tests")


def test_identity_get_by_a_viewer_and_of_an_empty_identity(api, alice, system):
    agent_create(slug="newborn", prompt="", by=system)
    answer = api.as_person(alice).get("/identity", {"agent": "newborn"})
    assert answer.json()["sections"] == {}
    assert (answer.json()["prompt"], answer.json()["tokens"]) == ("", 0)
    assert answer.json()["initiation_state"] == "new"
    assert answer["ETag"] == '""'


def test_identity_get_is_in_prompt_order_without_emptied_sections(api, ada, bob, actor_token):
    by = Principal.of_user(bob)
    for section in ("environment", "preferences", "protocols", "values"):
        identity_propose(agent=ada, section=section, content=f"Text of {section}.", by=by)
    identity_propose(agent=ada, section="values", content="", by=by)
    body = api.as_token(actor_token).get("/identity").json()
    assert list(body["sections"]) == [
        "character", "values", "protocols", "preferences", "boundaries", "environment",
    ]  # fmt: skip
    headings = [line for line in body["prompt"].split("\n") if line.startswith("## ")]
    assert headings == ["## Character", "## Protocols", "## Preferences", "## Boundaries", "## Environment"]


@pytest.mark.parametrize("path", ["/identity", "/identity/character"])
def test_identity_get_of_a_known_etag_is_not_modified(api, ada, actor_token, path):
    caller = api.as_token(actor_token)
    etag = caller.get(path)["ETag"]
    for held in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        answer = caller.with_headers(If_None_Match=held).get(path)
        assert answer.status_code == 304
        assert answer.content == b""
        assert answer["ETag"] == etag
    for other in ('"character=2,boundaries=1"', '"character=2"', "character=1", "", "rubbish", "W/"):
        assert caller.with_headers(If_None_Match=other).get(path).status_code == 200


def test_identity_get_etag_changes_with_the_text(api, ada, bob, actor_token):
    caller = api.as_token(actor_token)
    etag = caller.get("/identity")["ETag"]
    identity_propose(agent=ada, section="values", content="Truth first.", by=Principal.of_user(bob))
    answer = caller.with_headers(If_None_Match=etag).get("/identity")
    assert answer.status_code == 200
    assert answer["ETag"] == '"character=1,values=1,boundaries=1"'


def test_identity_get_of_one_section(api, ada, actor_token):
    answer = api.as_token(actor_token).get("/identity/character")
    assert answer.json()["content"] == "You are Ada, calm and exact."
    assert answer["ETag"] == answer.json()["etag"] == '"character=1"'


def test_identity_get_of_a_section_without_text_is_not_found(api, ada, actor_token):
    assert_problem(api.as_token(actor_token).get("/identity/values"), 404, "not_found", detail="no text yet")


def test_identity_get_of_an_unknown_section_is_refused_by_name(api, ada, actor_token, subtests):
    for rest in ["", "/history", "/diff?from=1&to=1"]:
        for section in ["user_profile", "Character", "character%20", "é", "x" * 3000]:
            with subtests.test(rest=rest, section=section):
                refused = api.as_token(actor_token).get(f"/identity/{section}{rest}")
                body = assert_problem(refused, 422, "invalid", field="section")
                assert len(body["detail"]) < 300
                if section == "user_profile":
                    assert "'user_profile'" in body["detail"]


def test_identity_get_is_consistent_in_one_answer(api, ada, actor_token):
    """The prompt is made of the very sections beside it."""
    body = api.as_token(actor_token).get("/identity").json()
    for section in body["sections"].values():
        assert section["content"] in body["prompt"]
    assert IdentityVersion.objects.current().count() == len(body["sections"])

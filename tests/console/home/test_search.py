"""Search across agents finds what one may see, and nothing else."""

from uuid import uuid4

import pytest
from django.contrib.auth.models import User

from identity.models import Agent
from identity.principal import Principal
from tests.factories import make_fact, make_principal, make_proposal
from tests.http import browser

pytestmark = pytest.mark.django_db
SEARCH = "/search/"


def groups(user: User, query: str, **more: str) -> dict[str, list[str]]:
    result = browser(user).get(SEARCH, {"q": query, **more}).context["result"]
    return {name: [one["label"] for one in found] for name, found in result.groups.items()}


def test_memories_of_several_agents_stand_in_one_order(
    ada: Agent, bruno: Agent, actor: Principal, alice: User, system: Principal
) -> None:
    make_fact(ada, "The lighthouse lamp is lit by paraffin oil.", actor, subject="lamp")
    make_fact(bruno, "The harbour's paraffin store burned down.", system, subject="store")
    found = groups(alice, "paraffin")
    assert {label.split()[1] for label in found["Memories"]} == {"lighthouse", "harbour's"}
    assert "Subjects" not in found
    assert groups(alice, "lamp")["Subjects"] == ["lamp"]


def test_agents_and_what_waits_are_found_by_name(ada: Agent, actor: Principal, alice: User) -> None:
    make_proposal(ada, actor, "values", reason="It learned of tides.")
    assert groups(alice, "ada")["Agents"] == ["Ada"]
    assert groups(alice, "tides")["Pending"] == ["Values of Ada"]


def test_id_leads_to_its_page(ada: Agent, actor: Principal, alice: User) -> None:
    fact = make_fact(ada, "The lamp is lit at six.", actor)
    page = browser(alice).get(SEARCH, {"q": f" {fact.pk} "})
    assert [one["url"] for one in page.context["result"].groups["By id"]] == [fact.get_absolute_url()]
    assert "By id" not in groups(alice, str(uuid4()))


def test_subconscious_stays_hidden_whoever_asks(ada: Agent, alice: User, charlie: User) -> None:
    fact = make_fact(ada, "A dream of paraffin.", make_principal(ada, "subconscious"), subject="dream")
    for query in ("paraffin", "dream", str(fact.pk)):
        assert groups(alice, query) == {}


def test_nothing_asked_and_nothing_found_say_so(ada: Agent, alice: User) -> None:
    client = browser(alice)
    assert "Across all agents" in client.get(SEARCH).content.decode()
    assert "No results." in client.get(SEARCH, {"q": "zebra"}).content.decode()
    assert client.get(SEARCH, {"q": "\x00 "}).status_code in (200, 400)
    assert client.get(SEARCH, {"q": "x" * 5_000}).status_code == 200


def test_part_for_the_palette_has_no_frame(ada: Agent, alice: User) -> None:
    part = browser(alice).get(SEARCH, {"q": "ada"}, headers={"HX-Request": "true"}).content.decode()
    assert "Ada" in part
    assert "<html" not in part

"""The page of what ends soon, and what people do about it."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from memory.models import Document, Fact
from memory.services.documents import document_put
from memory.services.facts import fact_learn
from nousweb.lib import clock
from tests.http import browser

DAY = timedelta(days=1)


def page(client, **query):
    answer = client.get(reverse("agent_endings", args=["ada"]), query)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


@pytest.fixture
def memories(ada, actor):
    now = clock.now()
    note = {"agent": ada, "namespace": ["n"], "by": actor}
    with clock.at(now - 2 * DAY):
        fact_learn(agent=ada, content="The quay is closed.", by=actor, ttl=86_400)
    fact_learn(agent=ada, content="The crane is rented.", by=actor, valid_until=now + 3 * DAY)
    fact_learn(agent=ada, content="The gate code is heron.", by=actor, expires_at=now + DAY)
    fact_learn(agent=ada, content="The hall is heated.", by=actor, expires_at=now + 60 * DAY)
    fact_learn(agent=ada, content="The wall is red.", by=actor)
    for value in ({"n": 1}, {"n": 2}):
        document_put(**note, key="unsearched", value=value, index=[], ttl=2 * 86_400)


def test_page_lists_what_ends_in_its_order(memories, alice, bob, django_assert_max_num_queries):
    reader = browser(alice)
    shown = page(reader)
    places = [shown.index(text) for text in ("The gate code is heron.", "n / unsearched", "The crane is rented.")]
    assert places == sorted(places)
    assert shown.count("n / unsearched") == 1
    assert not any(text in shown for text in ("The quay", "The hall", "The wall", "Keep or move"))
    assert ("forgotten" in shown, "no longer true" in shown) == (True, True)
    ended = page(reader, when="ended")
    assert "The quay is closed." in ended
    assert "The crane" not in ended
    assert "The hall is heated." in page(reader, when="90")
    assert "unsearched" not in page(reader, type="fact")
    assert "No ending matches" in page(reader, type="document", when="ended")
    assert "A filter is invalid" in page(reader, when="7 days")
    assert page(browser(bob)).count("Keep or move") == 3
    with django_assert_max_num_queries(20):
        page(reader)


def test_endings_of_the_subconscious_keep_their_persona(ada, subconscious_token, api, charlie):
    learned = api.as_token(subconscious_token).post("/facts", {"content": "The attic is locked.", "ttl": 60}).json()
    shown = page(browser(charlie), persona="subconscious")
    assert f"{learned['fact']['id']}/expiry/?persona=subconscious" in shown


def test_page_without_endings_says_what_will_be_there(ada, alice):
    assert "No endings yet" in page(browser(alice))


def test_people_keep_a_fact_and_move_the_end_of_a_document(memories, alice, bob):
    fact, document = Fact.objects.get(content="The gate code is heron."), Document.objects.get(active=True)
    person = browser(bob)
    keep = reverse("agent_fact_change", args=["ada", fact.pk, "expiry"])
    move = reverse("agent_document_expiry", args=["ada", document.pk])
    assert "Change its end" in person.get(fact.get_absolute_url()).content.decode()
    assert f"{fact.expires_at:%Y-%m-%dT%H:%M}" in person.get(keep).content.decode()
    assert person.post(keep, {"expires_at": "", "reason": "Still used."}).status_code == 302
    later = (timezone.now() + 9 * DAY).replace(second=0, microsecond=0)
    assert person.post(move, {"expires_at": f"{later:%Y-%m-%dT%H:%M}"}).status_code == 302
    fact.refresh_from_db()
    document.refresh_from_db()
    assert (fact.expires_at, document.expires_at, document.ttl) == (None, later, None)
    assert "not verified by people and expiring " in person.get(fact.get_absolute_url()).content.decode()
    refused = person.post(move, {"expires_at": "2020-01-01T00:00"})
    assert (refused.status_code, "“Expires” lies in the past" in refused.content.decode()) == (422, True)
    assert browser(alice).post(move, {}).status_code == 403


def test_person_adds_a_fact_that_expires(ada, bob):
    end = (timezone.now() + DAY).replace(second=0, microsecond=0)
    form = {"content": "The pass is at the desk.", "category": "concept", "scope": "global", "confidence": "1",
            "importance": "0.5", "expires_at": f"{end:%Y-%m-%dT%H:%M}"}  # fmt: skip
    assert browser(bob).post(reverse("agent_fact_add", args=["ada"]), form).status_code == 302
    assert Fact.objects.get().expires_at == end

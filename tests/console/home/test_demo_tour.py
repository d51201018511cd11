"""The guided demo: who sees it, and that each step is done by what the person really did."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from identity.models import Agent, AuditEvent
from identity.principal import Principal
from identity.services.people import person_agents_set
from identity.services.personal_settings import demo_tour_begin
from memory.services.erasure import agent_erase
from tests.factories import make_fact, make_proposal, make_review, make_run
from tests.http import browser


def guided(agent: Agent, *people: User) -> None:
    for person in people:
        demo_tour_begin(agent=agent, by=Principal.of_user(person))


def panel(client: Client, address: str = "/") -> str:
    """The words of the panel on a page, "" where there is none."""
    page = client.get(address).content.decode()
    found = re.search(r'<section id="demo-tour".*?</section>', page, re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", found[0]).split()) if found else ""


def test_step_that_is_done_before_the_others_is_passed_over_when_its_turn_comes(
    ada: Agent, actor: Principal, bob: User
) -> None:
    review = make_review(ada, actor, "Tim never swims in the sea.", "Tim sometimes swims in the sea.")
    proposal = make_proposal(ada, actor, "preferences")
    make_fact(ada, "The carts of the checkout are kept in Redis.", actor)
    run = make_run(ada, actor, "Checkout is slow. Where are the carts?")
    guided(ada, bob)
    bobs = browser(bob)
    bobs.post(reverse("memory_review_detail", args=[review.pk]), {"answer": "both"})
    bobs.post(reverse("item_change", args=["memoryreview", review.pk, "undo"]))
    shown = panel(bobs)
    assert "1 of 4. Approve a proposed change" in shown
    assert ", done" not in shown
    bobs.post(reverse("proposal", args=[proposal.pk]), {"action": "approve", "base_version": "0"})
    assert panel(bobs).count("Approve a proposed change, done") == 1
    bobs.get(f"{reverse('agent_context_run', args=['ada', run.pk])}?q=redis")
    assert "All four steps are done" in panel(bobs)
    assert panel(bobs).count(", done") == 4


def test_steps_are_done_by_what_the_person_did(ada: Agent, actor: Principal, bob: User, charlie: User) -> None:
    proposal = make_proposal(ada, actor, "preferences")
    make_fact(ada, "The carts of the checkout are kept in Redis.", actor)
    run = make_run(ada, actor, "Checkout is slow. Where are the carts?")
    review = make_review(ada, actor, "Tim never swims in the sea.", "Tim sometimes swims in the sea.")
    guided(ada, bob, charlie)
    bobs, charlies = browser(bob), browser(charlie)

    assert "1 of 4. Approve a proposed change" in panel(bobs)
    opened = reverse("proposal", args=[proposal.pk])
    assert opened in bobs.get("/").content.decode()
    bobs.get(opened)
    assert "1 of 4." in panel(bobs, opened)  # to look at it approves nothing
    assert "Open the change" in panel(bobs)
    assert "Open the change" not in panel(bobs, opened), "it never points at the page one is on"
    bobs.post(opened, {"action": "approve", "base_version": "0"})
    assert "2 of 4. Ask why something was in a prompt" in panel(bobs, "/inbox/")
    facts = reverse("agent_facts", args=["ada"])
    assert "2 of 4." in panel(bobs, facts)
    assert panel(bobs, f"{facts}?as_of=2026-01-01T09:00") == ""  # where nobody can take a step

    page = reverse("agent_context_run", args=["ada", run.pk])
    assert "2 of 4." in panel(bobs, page)
    assert "2 of 4." in panel(bobs, f"{page}?q=zeppelin")  # no memory holds it
    assert "3 of 4. Resolve a contradiction between two facts" in panel(bobs, f"{page}?q=redis")
    panel(bobs, f"{page}?q=redis")
    assert AuditEvent.objects.filter(action="demo_tour.look").count() == 1

    bobs.post(reverse("memory_review_detail", args=[review.pk]), {"answer": "both"})
    assert "4 of 4. Undo a decision" in panel(bobs)
    assert reverse("memory_review_detail", args=[review.pk]) in bobs.get("/").content.decode()
    bobs.post(reverse("item_change", args=["memoryreview", review.pk, "undo"]))
    assert "All four steps are done" in panel(bobs)
    assert "1 of 4." in panel(charlies)  # what one person did is no step of another's


def test_leaving_is_kept_until_it_is_resumed(ada: Agent, bob: User) -> None:
    guided(ada, bob)
    client = browser(bob)
    back = client.post(reverse("demo_tour_leave"), headers={"Referer": "http://testserver/inbox/?view=all"})
    assert back["Location"] == "/inbox/?view=all"
    assert panel(browser(bob), "/inbox/") == ""
    assert "You left the guided demo." in client.get("/").content.decode()
    assert client.post(reverse("demo_tour_resume"))["Location"] == "/"
    for nowhere in ("x", "?view=all", "https://elsewhere.example/inbox/", "//elsewhere.example"):
        assert client.post(reverse("demo_tour_resume"), headers={"Referer": nowhere})["Location"] == "/"
    assert "1 of 4." in panel(client)
    actions = AuditEvent.objects.filter(action__startswith="demo_tour.").order_by("id").values_list("action", flat=True)
    assert list(actions) == ["demo_tour.begin", "demo_tour.leave", "demo_tour.resume"]


def test_a_viewer_is_asked_only_for_what_a_viewer_may(ada: Agent, actor: Principal, alice: User) -> None:
    make_fact(ada, "The carts are kept in Redis.", actor)
    run = make_run(ada, actor, "Where are the carts?")
    guided(ada, alice)
    client = browser(alice)
    assert "2 of 4. Ask why something was in a prompt" in panel(client)
    assert "You have done every step that your role allows" in panel(client, f"/agents/ada/context/{run.pk}/?q=redis")


def test_whoever_is_not_guided_sees_nothing_of_it(
    ada: Agent, bruno: Agent, actor: Principal, alice: User, bob: User, system: Principal
) -> None:
    make_fact(ada, "The carts are kept in Redis.", actor)
    run = make_run(ada, actor, "Where are the carts?")
    client = browser(alice)
    assert panel(client, f"/agents/ada/context/{run.pk}/?q=redis") == ""
    client.post(reverse("demo_tour_resume"))
    assert "guided demo" not in client.get("/").content.decode()
    assert not AuditEvent.objects.filter(action__startswith="demo_tour.").exists()

    guided(ada, bob)
    owner = Principal.of_user(User.objects.create_superuser("owner"))
    person_agents_set(person=bob, agents=[bruno], by=owner)
    assert panel(browser(bob)) == ""
    person_agents_set(person=bob, agents=None, by=owner)
    assert "1 of 4." in panel(browser(bob))
    agent_erase(agent=ada, by=system, reason="Asked.")
    assert panel(browser(bob)) == ""


@pytest.mark.django_db
def test_log_in_page_says_what_this_is() -> None:
    page = " ".join(Client().get("/login/").content.decode().split())
    assert "stores the memory of AI agents" in page
    assert "approve changes of an agent's identity" in page

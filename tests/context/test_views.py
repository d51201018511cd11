"""The preview of a context, and what was really sent."""

from typing import Any
from uuid import uuid4

from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from context.engine.request import ContextRequest
from context.models import ContextRun
from context.services.context import context_assemble
from identity.models import Agent
from identity.principal import Principal
from memory.models import Fact
from tests.many import multiply

PREVIEW = ("agent_context", ["ada"])


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def send(agent: Agent, by: Principal, text: str = "Hello") -> ContextRun:
    found = context_assemble(agent=agent, request=ContextRequest("s", text), by=by)
    return ContextRun.objects.get(pk=found.id)


def test_a_preview_shows_the_prompt_and_leaves_no_trace(ada: Agent, actor: Principal, alice: User) -> None:
    Fact.objects.create(agent=ada, content="Likes <tea>.", category="preference")
    url = reverse(PREVIEW[0], args=PREVIEW[1])
    page = browser(alice).get(url, {"input": "Hello", "session": "x"}).content.decode()
    assert "You are Ada, calm and exact." in page
    assert "Likes &lt;\\tea&gt;." in page
    assert "leaves no trace" in page
    part = browser(alice).post(url, {"input": "Hello", "session": "x"}, headers={"HX-Request": "true"})
    assert part["HX-Replace-Url"] == f"{url}?input=Hello&session=x"
    assert "<html" not in part.content.decode()
    long = browser(alice).post(url, {"input": "x " * 2500}, headers={"HX-Request": "true"})
    assert long["HX-Replace-Url"] == "false"
    assert not ContextRun.objects.exists()


def test_an_empty_input_is_refused_in_place(ada: Agent, alice: User) -> None:
    page = browser(alice).get(reverse(PREVIEW[0], args=PREVIEW[1]), {"input": ""})
    assert "This field is required." in page.content.decode()


def test_the_number_of_queries_of_the_preview_holds(
    ada: Agent, actor: Principal, alice: User, django_assert_num_queries: Any
) -> None:
    client = browser(alice)
    url = reverse(PREVIEW[0], args=PREVIEW[1])
    client.get(url)
    for number in (0, 10_000):
        if number:
            first = Fact.objects.create(agent=ada, content="Fact.", category="person")
            multiply(first, number - 1, content="'Fact ' || n || '.'")
        for _ in range(number // 400):
            send(ada, actor)
        with django_assert_num_queries(15):
            client.get(url, {"input": "Hello"})


def test_a_logged_run_shows_what_was_sent(ada: Agent, bruno: Agent, actor: Principal, alice: User) -> None:
    run = send(ada, actor, "When is tea?")
    client = browser(alice)
    assert "When is tea?" in client.get(reverse("agent_context_runs", args=["ada"])).content.decode()
    page = client.get(reverse("agent_context_run", args=["ada", run.pk])).content.decode()
    assert "When is tea?" in page
    assert "You are Ada, calm and exact." in page
    assert client.get(reverse("agent_context_run", args=["bruno", run.pk])).status_code == 404
    assert client.get(reverse("agent_context_run", args=["ada", uuid4()])).status_code == 404

"""The preview of a context, and what was really sent."""

from typing import Any
from uuid import uuid4

from django.contrib.auth.models import User
from django.urls import reverse

from context.models import ContextRun
from identity.models import Agent
from identity.principal import Principal
from memory.models import Fact
from tests.factories import make_copies, make_run
from tests.http import browser

PREVIEW = ("agent_context", ["ada"])


def test_preview_shows_the_prompt_and_writes_nothing(ada: Agent, actor: Principal, alice: User) -> None:
    Fact.objects.create(agent=ada, content="Likes <tea>.", category="preference")
    url = reverse(PREVIEW[0], args=PREVIEW[1])
    page = browser(alice).get(url, {"input": "Hello", "session": "x", "tab": "prompt"}).content.decode()
    assert "You are Ada, calm and exact." in page
    assert "Likes &lt;\\tea&gt;." in page
    assert "does not count as usage" in page
    part = browser(alice).post(url, {"input": "Hello", "session": "x"}, headers={"HX-Request": "true"})
    assert part["HX-Replace-Url"] == f"{url}?input=Hello&session=x"
    assert "<html" not in part.content.decode()
    long = browser(alice).post(url, {"input": "x " * 2500}, headers={"HX-Request": "true"})
    assert long["HX-Replace-Url"] == "false"
    assert not ContextRun.objects.exists()


def test_preview_of_an_empty_input_is_refused_in_place(ada: Agent, alice: User) -> None:
    page = browser(alice).get(reverse(PREVIEW[0], args=PREVIEW[1]), {"input": ""})
    assert "This field is required." in page.content.decode()


def test_preview_number_of_queries_is_constant(
    ada: Agent, actor: Principal, alice: User, django_assert_num_queries: Any
) -> None:
    client = browser(alice)
    url = reverse(PREVIEW[0], args=PREVIEW[1])
    client.get(url)
    for number in (0, 10_000):
        if number:
            first = Fact.objects.create(agent=ada, content="Fact.", category="person")
            make_copies(first, number - 1, content="'Fact ' || n || '.'")
        for _ in range(number // 400):
            make_run(ada, actor, "Hello")
        # With facts, one statement more looks for what contests them, and two for the core memory beyond what is read.
        with django_assert_num_queries(9 + 3 * bool(number)):
            client.get(url, {"input": "Hello"})


def test_run_page_shows_what_was_sent(ada: Agent, bruno: Agent, actor: Principal, alice: User) -> None:
    run = make_run(ada, actor, "When is tea?")
    client = browser(alice)
    assert "When is tea?" in client.get(reverse("agent_context_runs", args=["ada"])).content.decode()
    page = client.get(reverse("agent_context_run", args=["ada", run.pk]), {"tab": "prompt"}).content.decode()
    assert "When is tea?" in page
    assert "You are Ada, calm and exact." in page
    assert client.get(reverse("agent_context_run", args=["bruno", run.pk])).status_code == 404
    assert client.get(reverse("agent_context_run", args=["ada", uuid4()])).status_code == 404

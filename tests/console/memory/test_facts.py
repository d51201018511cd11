"""The page of facts."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from identity.models import Agent, Persona
from identity.principal import Principal
from memory.models import Fact
from memory.services.facts import fact_invalidate, fact_learn
from memory.services.subjects.changes import subject_alias_add
from tests.factories import make_copies, make_review
from tests.http import browser

FACTS = ("agent_facts", ["ada"])


def shown(client: Client, **query: str) -> list[str]:
    page = client.get(reverse(FACTS[0], args=FACTS[1]), query)
    assert page.status_code == 200
    return [fact.content for fact in page.context["page"]]


def test_facts_page_shows_the_actor_only(ada: Agent, alice: User) -> None:
    Fact.objects.create(agent=ada, content="Seen.", category="person")
    Fact.objects.create(agent=ada, content="Hidden.", persona=Persona.SUBCONSCIOUS)
    page = browser(alice).get(reverse(FACTS[0], args=FACTS[1])).content.decode()
    assert "Seen." in page
    assert "always in the prompt" in page
    assert "Hidden." not in page
    assert "Add fact" not in page


def test_action_of_the_facts_stands_in_the_row_of_their_title(ada: Agent, bob: User) -> None:
    Fact.objects.create(agent=ada, content="Seen.")
    head, _, content = browser(bob).get(reverse(FACTS[0], args=FACTS[1])).content.decode().partition("<main")
    assert "Add fact" in head.partition("<h1")[2].partition('<nav class="subnav"')[0]
    assert "Add fact" not in content


def test_facts_page_filters_live_in_the_address(ada: Agent, actor: Principal, alice: User) -> None:
    for content, category, subject, confidence in (
        ("Tea.", "preference", "Ms Lind", 0.4),
        ("Öl.", "tool", "", 0.9),
        ("Bikes.", "my_own", "Ms Lind", 0.6),
    ):
        fact_learn(agent=ada, content=content, category=category, subject=subject, confidence=confidence, by=actor)
    client = browser(alice)
    assert shown(client) == ["Bikes.", "Öl.", "Tea."]
    assert shown(client, sort="surest") == ["Öl.", "Bikes.", "Tea."]
    assert shown(client, q="LIND") == ["Bikes.", "Tea."]
    assert shown(client, q="ö") == ["Öl."]
    assert shown(client, q="%") == shown(client, q="_") == []
    assert shown(client, category="profile") == ["Tea."]
    assert shown(client, category="my_own") == ["Bikes."]
    assert shown(client, subject="ms lind", sort="oldest") == ["Tea.", "Bikes."]
    assert shown(client, state="retired") == []
    assert shown(client, state="odd") == []


def test_facts_page_number_of_queries_holds_at_ten_thousand(
    ada: Agent, alice: User, charlie: User, django_assert_num_queries: Any, subtests: pytest.Subtests
) -> None:
    make_copies(Fact.objects.create(agent=ada, content="Fact.", tags=["t"]), 9_999, content="'Fact ' || n || '.'")
    queries = [{}, {"page": "200"}, {"q": "999"}, {"q": "fact"}, {"sort": "surest"}, {"state": "all"}, {"tag": "t"}]
    for user in (alice, charlie):
        client = browser(user)
        client.get("/login/")
        for query in queries if user == alice else [{}, {"state": "all"}, {"tag": "t"}]:
            # The few with a rare word are counted by finding them.
            with subtests.test(user=user, query=query):
                with django_assert_num_queries(9 if query == {"q": "999"} else 10):
                    page = client.get(reverse(FACTS[0], args=FACTS[1]), query).context["page"]
                assert page.paginator.count == (18 if query == {"q": "999"} else 10_000)


def columns(client: Client, page: str, **query: str) -> list[str]:
    shown = client.get(reverse(page, args=["ada"]), query)
    return [column.label for column in shown.context["columns"]]


def test_facts_page_leaves_out_columns_that_say_the_usual(ada: Agent, actor: Principal, alice: User, bob: User) -> None:
    client = browser(alice)
    sure = fact_learn(agent=ada, content="Tea.", subject="tea", by=actor).fact
    assert columns(client, "agent_facts") == ["Subject", "Category", "Learned"]
    fact_learn(agent=ada, content="Rum.", confidence=0.4, by=actor)
    assert columns(client, "agent_facts") == ["Subject", "Category", "Confidence", "Learned"]
    fact_invalidate(fact=sure, by=Principal.of_user(bob), reason="No.")
    assert "State" not in columns(client, "agent_facts")
    assert "State" in columns(client, "agent_facts", state="all")


def test_subjects_page_lists_other_names_only(ada: Agent, actor: Principal, alice: User, bob: User) -> None:
    learned = fact_learn(agent=ada, content="Tim sails.", subject="Tim", by=actor).fact
    assert learned.subject_alias is not None
    subject_alias_add(subject=learned.subject_alias.subject, spelling="Timothy", by=Principal.of_user(bob))
    page = browser(alice).get(reverse("agent_subjects", args=["ada"])).content.decode()
    assert page.count("Timothy") == 1


def test_fact_page_leaves_out_what_is_empty_or_usual(ada: Agent, actor: Principal, alice: User) -> None:
    fact = fact_learn(agent=ada, content="Tea.", by=actor).fact
    page = browser(alice).get(reverse("agent_fact", args=["ada", fact.pk])).content.decode()
    for label in ("Subject", "Tags", "Importance", "Scope", "Event", "Episode", "Index"):
        assert f"<dt>{label}</dt>" not in page
    assert 'id="timeline-title"' not in page, "its history says all of it"


def test_fact_page_names_an_open_contradiction_under_the_sentence(ada: Agent, actor: Principal, alice: User) -> None:
    review = make_review(ada, actor, "The lift never stops.", "The lift sometimes stops.")
    page = browser(alice).get(reverse("agent_fact", args=["ada", review.old_id])).content.decode()
    resolve = reverse("memory_review_detail", args=[review.pk])
    assert page.index("Contradicted by:") < page.index(f'href="{resolve}">Resolve') < page.index("Where it comes from")
    assert "The lift sometimes stops." in page


def test_fact_form_is_for_reviewers(ada: Agent, alice: User, bob: User) -> None:
    url = reverse("agent_fact_add", args=["ada"])
    given = {"content": "Likes tea.", "category": "rule", "scope": "global", "confidence": "0.8", "importance": "0.5"}
    assert browser(alice).get(url).status_code == 403
    assert browser(alice).post(url, given).status_code == 403
    assert browser(bob).get(url).status_code == 200
    assert browser(bob).post(url, given).url == reverse(FACTS[0], args=FACTS[1])
    fact = Fact.objects.get()
    assert (fact.content, fact.persona, fact.source) == ("Likes tea.", "actor", "console: bob")


def test_fact_form_states_an_attribute(ada: Agent, bob: User) -> None:
    given = {"content": "Tim nurses.", "subject": "Tim", "attribute": "Job title", "value": "nurse"}
    given |= {"category": "person", "scope": "global", "confidence": "1", "importance": "0.5"}
    assert browser(bob).post(reverse("agent_fact_add", args=["ada"]), given).status_code == 302
    fact = Fact.objects.get()
    assert (fact.attribute, fact.value) == ("job title", "nurse")
    assert "<dd>nurse</dd>" in browser(bob).get(reverse("agent_fact", args=["ada", fact.pk])).content.decode()
    refused = browser(bob).post(reverse("agent_fact_add", args=["ada"]), given | {"attribute": ""})
    assert "Name the attribute that has this value." in refused.content.decode()
    refused = browser(bob).post(reverse("agent_fact_add", args=["ada"]), given | {"attribute": "x" * 81})
    assert (refused.status_code, Fact.objects.count()) == (422, 1)


def test_fact_form_keeps_a_refused_input(ada: Agent, bob: User) -> None:
    given = {"content": "Likes <tea>.", "category": "rule", "scope": "global", "confidence": "8", "importance": "0.5"}
    answer = browser(bob).post(reverse("agent_fact_add", args=["ada"]), given)
    assert answer.status_code == 422
    assert "Likes &lt;tea&gt;." in answer.content.decode()
    assert not Fact.objects.exists()


def test_fact_form_folds_rare_fields_until_one_is_refused(ada: Agent, bob: User) -> None:
    url = reverse("agent_fact_add", args=["ada"])
    first, fold, rest = browser(bob).get(url).content.decode().partition('<details class="more"')
    assert all(f'name="{name}"' in first for name in ("content", "category", "subject"))
    assert all(f'name="{name}"' in rest for name in ("attribute", "confidence", "source", "expires_at", "project"))
    assert fold
    assert "open" not in rest.partition(">")[0]
    refused = browser(bob).post(url, {"content": "Likes tea.", "confidence": "8"}).content.decode()
    assert "open" in refused.partition('<details class="more"')[2].partition(">")[0]


def test_facts_page_of_an_unknown_agent_is_not_found(alice: User) -> None:
    assert browser(alice).get(reverse("agent_facts", args=["nobody"])).status_code == 404


def test_fact_page_lists_what_else_holds_about_its_subject(
    ada: Agent, actor: Principal, alice: User, bob: User
) -> None:
    old, other, third = (
        fact_learn(agent=ada, content=content, subject=subject, by=actor).fact
        for content, subject in (("Mail has one host.", "mail"), ("Mail is slow.", "Mail"), ("Ada is calm.", "Ada"))
    )
    page = browser(alice).get(old.get_absolute_url())
    assert [fact.content for fact in page.context["others"]] == ["Mail is slow."]
    assert "Also about mail" in page.content.decode()
    assert "Also about" not in browser(alice).get(third.get_absolute_url()).content.decode()
    fact_invalidate(fact=other, reason="It is fast.", by=Principal.of_user(bob))
    assert not browser(alice).get(old.get_absolute_url()).context["others"]


def test_person_who_adds_a_fact_is_told_what_became_of_it(ada: Agent, bob: User) -> None:
    person, address = browser(bob), reverse("agent_fact_add", args=["ada"])

    def added(content: str) -> str:
        fields = {
            "content": content,
            "category": "technical",
            "scope": "global",
            "confidence": "1",
            "importance": "0.5",
        }
        answer = person.post(address, fields, follow=True)
        return " ".join(str(message) for message in answer.context["messages"])

    assert added("Helga keeps the pagers.") == "The fact was added."
    assert "nothing else of the form was stored" in added("Helga keeps the pagers.")

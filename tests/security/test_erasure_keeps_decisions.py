"""Somebody who may erase invents facts, to make unreadable what the audit trail says of decisions."""

import pytest
from django.apps import apps
from django.db import connection

from identity.models import AuditEvent, ChangeProposal
from identity.principal import Principal
from identity.services.proposals import proposal_reject
from memory.models import Fact, WorkingMemory
from memory.services.erasure import fact_erase
from memory.services.facts import fact_learn
from tests.memory.test_erasure import assert_gone

ASK = "Ask Ann before each deploy. Always approved by Ann."
AGENT = {"agent": "ada"}
DECIDES = {"censor", "contextprofile", "contextprofileversion"}
"""Models of memory and contexts whose records are decisions of people."""
UNRECORDED = {"attribute", "figuresnapshot", "inboxrank", "searchlanguage", "screening"}
"""Models that hold no text of a memory, and that no record with such a text is about."""


@pytest.fixture
def admin(charlie):
    return Principal.of_user(charlie)


def invented(agent, by, words):
    return fact_erase(fact=fact_learn(agent=agent, content=words, by=by).fact, by=by, reason="A typo.")


def trail():
    return list(AuditEvent.objects.order_by("pk").values())


@pytest.mark.parametrize("words", ["Ask Ann before", ASK, "Leak everything to everybody.", "never ever is this for us"])
def test_erasure_of_an_invented_fact_blanks_no_decision(api, ada, actor_token, bob, admin, words):
    body = {"content": ASK, "base_version": None}
    assert api.as_person(bob).request("PUT", "/identity/protocols", body=body, query=AGENT).status_code == 200
    body = {"content": "Leak everything to everybody."}
    asked = api.as_token(actor_token).request("PUT", "/identity/values", body=body).json()["proposal"]
    proposal = ChangeProposal.objects.get(pk=asked["id"])
    proposal_reject(proposal=proposal, by=Principal.of_user(bob), comment="never ever is this for us")
    assert api.as_person(bob).post("/censors", {"pattern": "leak everything"}, AGENT).status_code == 201
    before = trail()
    receipt = invented(ada, admin, words)
    assert trail()[: len(before)] == before
    assert receipt.still_quoted["auditevent"] >= 1
    # Nor what is decided while the fact is there.
    fact = fact_learn(agent=ada, content="Publish the prices on each Monday.", by=admin).fact
    body = {"content": "Publish the prices on each Monday.", "base_version": None}
    api.as_person(bob).request("PUT", "/identity/environment", body=body, query=AGENT)
    before = [row for row in trail() if row["object_id"] != str(fact.pk)]
    receipt = fact_erase(fact=fact, by=admin, reason="A typo.")
    assert [row for row in trail() if row["object_id"] != str(fact.pk)] == before
    assert receipt.still_quoted["auditevent"] >= 1


def test_erasure_of_an_invented_fact_blanks_nothing_from_before_it(api, ada, actor_token, admin):
    made = api.as_token(actor_token).post("/episodes", {"title": "Ask Ann before each deploy."})
    assert made.status_code == 201
    before = trail()
    assert invented(ada, admin, "Ask Ann before each deploy.").still_quoted["auditevent"] == 1
    assert trail()[: len(before)] == before


def test_erasure_of_few_words_blanks_nothing_about_other_memory(api, ada, actor_token, admin):
    fact = fact_learn(agent=ada, content="Ask Ann before", by=admin).fact
    assert api.as_token(actor_token).post("/episodes", {"title": "Ask Ann before lunch."}).status_code == 201
    opened = AuditEvent.objects.filter(action="episode.open").values().get()
    assert fact_erase(fact=fact, by=admin, reason="A typo.").still_quoted["auditevent"] == 1
    assert AuditEvent.objects.filter(action="episode.open").values().get() == opened


def test_erasure_blanks_a_later_memory_record_that_quotes_it(api, ada, actor_token, admin):
    fact = fact_learn(agent=ada, content="Zanzibar  Quux has <b>the flu</b> since May.", by=admin).fact
    for title in (
        "So Zanzibar  Quux has <b>the flu</b> since May.",
        r"So Zanzibar Quux has <\b>the flu<\/b> since May.",
    ):
        made = api.as_token(actor_token).post("/episodes", {"title": title})
        assert made.status_code == 201
    fact_erase(fact=fact, by=admin, reason="They asked.")
    assert {row.after for row in AuditEvent.objects.filter(action="episode.open")} == {None}


@pytest.mark.django_db
@pytest.mark.parametrize("function", ["nous_erase_facts", "nous_erase_documents", "nous_erase_events"])
def test_erasure_records_about_memory_are_known_to_the_owner(function):
    """A new model has to be thought of in these functions: a new migration, or a decision of people."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT prosrc, proconfig::text, prosecdef FROM pg_proc WHERE proname = %s", [function])
        [(source, settings, as_the_owner)] = cursor.fetchall()
    assert "search_path=pg_catalog" in settings
    assert as_the_owner
    told = source.partition("a.object_type IN (")[2].partition(")")[0]
    models = [model for name in ("memory", "context") for model in apps.get_app_config(name).get_models()]
    names = {model._meta.model_name for model in models}
    assert {name.strip(" \n'") for name in told.split(",")} == names - DECIDES - UNRECORDED


@pytest.mark.parametrize(
    "words",
    [
        "Jane  Doe has  <b>cancer</b> and takes pills since May 2020, says her doctor in Oslo.",
        "Jane\u200b Doe\u00ad has can\u200bcer and takes pills since May 2020, says her doctor.",
        "- Jane Doe has </system> cancer and takes pills since May 2020.",
    ],
)
def test_erasure_reaches_working_memory_shown_in_a_prompt(api, ada, actor_token, admin, words):
    agent = api.as_token(actor_token)
    made = agent.post("/facts", {"content": words, "subject": "Jane", "category": "person"}).json()["fact"]
    prompt = agent.post("/context", {"input": "Who is Jane?", "session_id": "s"}).json()["system_prompt"]
    [line] = [line for line in prompt.split("\n") if "Doe" in line]
    shown = line.partition("Jane")[1] + line.partition("Jane")[2]
    assert words not in shown
    assert agent.post("/working/s/items", {"text": shown}).status_code in (200, 201)
    assert agent.post("/working/s/items", {"text": "This stays."}).status_code in (200, 201)
    fact_erase(fact=Fact.objects.get(pk=made["id"]), by=admin, reason="They asked.")
    assert [item["text"] for item in WorkingMemory.objects.get().items] == ["This stays."]
    assert_gone("Doe has", "pills since")

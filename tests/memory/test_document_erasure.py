"""Erasing a document, alone or with the subject that it quotes: gone with every version, and nothing else is."""

import io
import json
import re

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from context.expectations.services import expectation_create, request_of
from context.models import ContextPin, ContextRun, Expectation
from context.services.agent_settings import context_pin
from identity.models import ApiToken, AuditEvent, Change
from identity.principal import Principal
from memory.models import Document, Fact, SearchItem, WorkingMemory
from memory.services.documents import document_put, document_retire
from memory.services.erasure import document_erase, fact_erase, subject_erase
from memory.services.erasure.steps import receipt_describe
from memory.services.facts import fact_learn
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.lib.errors import Invalid, NotAllowed, NotFound
from tests.http import browser
from tests.memory.test_erasure import assert_gone

ELM = "Ms Zanzibar lives at 12 Elm Road."
OAK = "Ms Zanzibar lives at 3 Oak Lane since spring."
TEA = "The crew drinks tea at four in the afternoon."


@pytest.fixture
def admin(charlie):
    return Principal.of_user(charlie)


def put(agent, by, key, text, **more):
    return document_put(agent=agent, namespace=["people"], key=key, value={"text": text}, by=by, **more).document


@pytest.fixture
def subconscious(ada, subconscious_token):
    return Principal.of_token(ApiToken.objects.get(agent=ada, persona="subconscious"))


@pytest.fixture
def letters(ada, actor):
    """Two versions of one document, and another one."""
    put(ada, actor, "address", ELM)
    last = put(ada, actor, "address", OAK)
    put(ada, actor, "tea", TEA)
    embed_pending_rows()
    return last


def test_document_erasure_leaves_only_a_receipt(ada, actor, admin, api, actor_token, letters):
    caller = api.as_token(actor_token)
    shown = caller.post("/context", {"session_id": "s", "input": "Where does Ms Zanzibar live?"})
    assert OAK in shown.json()["system_prompt"]
    caller.post("/context", {"session_id": "s", "input": "hey"})
    context_pin(agent=ada, item_type="document", item_id=str(letters.pk), by=admin)
    for target in (
        {"target": "text", "text": ELM},
        {"target": "memory", "item_type": "document", "item_id": str(letters.pk)},
    ):
        expectation_create(agent=ada, by=admin, request=request_of("Where?"), requirement="present", **target)
    WorkingMemory.objects.create(
        agent=ada, persona="actor", session_id="s", task=f"write to: {OAK}",
        items=[{"id": "1", "type": "note", "text": ELM}, {"id": "2", "type": "note", "text": "stays"}],
    )  # fmt: skip
    receipt = document_erase(document=letters, by=admin, reason="Asked by the person.")
    assert_gone("Zanzibar", "Elm", "Oak")
    assert receipt.rows | {"auditevent": 0} == {
        "document": 2, "searchitem": 2, "contextrun": 1, "contextpin": 1, "expectation": 1, "workingmemory": 1,
        "auditevent": 0,
    }  # fmt: skip
    assert receipt.still_quoted == {}
    assert Document.objects.get().key == "tea"
    assert SearchItem.objects.get().item_id == str(Document.objects.get().pk)
    assert ContextRun.objects.get().input == "hey"
    assert not ContextPin.objects.exists()
    assert Expectation.objects.get().item_id == str(letters.pk)
    assert [item["text"] for item in WorkingMemory.objects.get().items] == ["stays"]
    left = AuditEvent.objects.get(action="document.erase")
    assert (left.author_name, left.object_id, left.object_label) == ("charlie", str(letters.pk), "A document")
    assert (left.message, left.after) == ("Asked by the person.", {"rows": receipt.rows})
    assert Change.objects.filter(kind="document.erased").count() == 2
    assert put(ada, actor, "address", "Nobody knows.").version == 1


def test_document_erasure_needs_the_right_a_reason_and_a_document(reviewer, admin, letters):
    with pytest.raises(NotAllowed):
        document_erase(document=letters, by=reviewer, reason="Why not?")
    with pytest.raises(Invalid):
        document_erase(document=letters, by=admin, reason=" ")
    document_erase(document=letters, by=admin, reason="Over.")
    with pytest.raises(NotFound):
        document_erase(document=letters, by=admin, reason="Again.")


def test_document_that_people_retired_is_erased_and_forgotten(ada, actor, admin, letters):
    document_retire(document=letters, by=admin)
    document_erase(document=letters, by=admin, reason="Over.")
    assert_gone("Zanzibar")
    assert put(ada, actor, "elsewhere", OAK).active


def test_subject_erasure_takes_the_documents_that_are_named(ada, bruno, actor, subconscious, admin, letters):
    fact_learn(agent=ada, content=ELM, subject="Zanzibar", by=actor)
    fact_learn(agent=ada, content="The pier is closed on Sundays.", subject="pier", by=actor)
    night = put(ada, subconscious, "dream", f"A dream: {ELM}")
    system = Principal.of_system("tests")
    kept = put(bruno, system, "address", ELM)
    with pytest.raises(NotFound):
        subject_erase(agent=ada, subject="Zanzibar", by=admin, reason="Asked.", documents=[kept.pk])
    receipt = subject_erase(
        agent=ada, subject="zanzibar", by=admin, reason="Asked.", documents=[letters.pk, night.pk]
    )  # fmt: skip
    assert (receipt.rows["fact"], receipt.rows["document"]) == (1, 3)
    kept.refresh_from_db()
    assert receipt.still_quoted == {}
    assert {row.key for row in Document.objects.filter(agent=ada)} == {"tea"}
    assert Fact.objects.get().subject == "pier"
    told = AuditEvent.objects.filter(agent=ada, action__endswith=".erase").values_list("action", flat=True)
    assert sorted(told) == ["document.erase", "document.erase", "subject.erase"]
    for row in AuditEvent.objects.filter(agent=ada).values("before", "after", "message", "object_label"):
        assert "Zanzibar" not in str(row)


def test_subject_erasure_without_documents_counts_those_that_quote_it(ada, actor, admin, letters):
    fact_learn(agent=ada, content=ELM, subject="Zanzibar", by=actor)
    receipt = subject_erase(agent=ada, subject="Zanzibar", by=admin, reason="Asked.")
    assert receipt.still_quoted["document"] == 1
    assert Document.objects.filter(key="address").count() == 2


def test_page_of_an_erasure_offers_the_documents_that_quote_it(ada, actor, subconscious, charlie, letters):
    fact = fact_learn(agent=ada, content=ELM, subject="Ms Zanzibar", by=actor).fact
    named = put(ada, actor, "guests", "Dinner on Friday with ms zanzibar and the harbour master.")
    put(ada, subconscious, "dream", f"A dream: {ELM}")
    person = browser(charlie)
    address = "/agents/ada/erase/subject/?subject=Ms+Zanzibar"
    page = person.get(address).content.decode()
    assert "people / address (actor, active; quotes it)" in page
    assert "people / guests (actor, active; names it)" in page
    assert "people / dream (subconscious, active; quotes it)" in page
    assert "people / tea" not in page
    boxes = dict(re.findall(r'name="memories" value="([^"]+)"([^>]*)>', page))
    ticked = {Document.objects.get(pk=key).key for key, more in boxes.items() if "checked" in more}
    assert ticked == {"address", "dream"}
    refused = {"reason": "Asked.", "name": "Ms Zanzibar", "memories": ["not one"]}
    assert person.post(address, refused).status_code == 422
    other = Document.objects.get(key="tea")
    assert person.post(address, refused | {"memories": [str(other.pk)]}).status_code == 422
    chosen = [str(named.pk), str(letters.pk)]
    assert person.post(address, refused | {"memories": chosen}).status_code == 302
    assert set(Document.objects.values_list("key", flat=True)) == {"tea", "dream"}
    assert not Fact.objects.filter(pk=fact.pk).exists()


def test_page_of_a_facts_erasure_offers_documents_too(ada, actor, charlie, letters):
    fact = fact_learn(agent=ada, content=ELM, subject="Ms Zanzibar", by=actor).fact
    person = browser(charlie)
    address = f"/agents/ada/facts/{fact.pk}/erase/"
    assert "people / address (actor, active; quotes it)" in person.get(address).content.decode()
    assert person.post(address, {"reason": "Asked.", "name": "ada", "memories": [str(letters.pk)]}).status_code == 302
    assert_gone("Zanzibar")


def test_page_erases_a_document(charlie, bob, letters):
    person = browser(charlie)
    assert (
        f"/agents/ada/documents/{letters.pk}/erase/"
        in person.get(f"/agents/ada/documents/{letters.pk}/").content.decode()
    )
    assert "/erase/" not in browser(bob).get(f"/agents/ada/documents/{letters.pk}/").content.decode()
    address = f"/agents/ada/documents/{letters.pk}/erase/"
    assert "<strong>2</strong> versions of it" in person.get(address).content.decode()
    assert person.post(address, {"reason": "Asked.", "name": "no"}).status_code == 422
    done = person.post(address, {"reason": "Asked.", "name": "ada"}, follow=True).content.decode()
    assert "Erased permanently" in done
    assert_gone("Zanzibar")


def test_command_erases_documents_alone_and_with_a_subject(ada, actor, letters):
    out = io.StringIO()
    tea = Document.objects.get(key="tea")
    call_command("erase", "document", str(tea.pk), "--reason", "Over.", "--no-input", stderr=out)
    assert "1 document" in out.getvalue()
    with pytest.raises(CommandError, match="no such document"):
        call_command("erase", "document", str(tea.pk), "--reason", "Over.", "--no-input")
    fact_learn(agent=ada, content=ELM, subject="Zanzibar", by=actor)
    fact = fact_learn(agent=ada, content="The pier is closed on Sundays.", subject="pier", by=actor).fact
    call_command("erase", "fact", str(fact.pk), "--documents", "--reason", "x.", "--no-input", stderr=out)
    assert Document.objects.exists()
    call_command("erase", "subject", "ada", "Zanzibar", "--documents", "--reason", "Over.", "--no-input", stderr=out)
    assert not Document.objects.exists()
    assert_gone("Zanzibar")


def test_facts_erasure_with_a_document_of_the_same_words(ada, actor, admin, letters):
    fact = fact_learn(agent=ada, content=ELM, subject="Zanzibar", by=actor).fact
    fact_erase(fact=fact, by=admin, reason="Asked.", documents=[letters.pk])
    assert_gone("Zanzibar")


@pytest.mark.parametrize(
    ("action", "named", "problem"),
    [("fact.erase", True, "this erases documents"), ("document.erase", False, "there is no such document")],
)
def test_owners_function_erases_documents_only(ada, letters, action, named, problem):
    receipt = f'{{"action": "{action}", "message": "Why.", "author_name": "x"}}'
    ids = [letters.pk] if named else []
    with pytest.raises(DatabaseError, match=problem), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT nous_erase_documents(%s, %s::uuid[], %s::bigint[], %s::jsonb)", [ada.pk, ids, [], receipt]
        )


def test_owners_function_takes_every_version_whichever_is_named(ada, admin, letters):
    first = Document.objects.get(key="address", version=1)
    entry = receipt_describe(
        by=admin, action="document.erase", target=first, agent=ada, reason="Asked.", label="A document"
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT nous_erase_documents(%s, %s::uuid[], %s::bigint[], %s::jsonb)",
            [ada.pk, [first.pk], [], json.dumps(entry)],
        )
    assert not Document.objects.filter(key="address").exists()

"""The pages of documents: every version with what it changed, and what people do about them."""

from django.urls import reverse

from memory.models import Document
from memory.services.documents import document_put, document_retire
from tests.http import browser


def page(client, name, *args, **query):
    answer = client.get(reverse(name, args=["ada", *args]), query)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def change(client, row, what):
    return client.post(reverse("agent_document_change", args=["ada", row.pk, what]), follow=True).content.decode()


def test_pages_of_documents_show_what_changed_and_let_people_undo(ada, actor, alice, bob):
    note = {"agent": ada, "namespace": ["memories"], "key": "/memories/tea.md", "by": actor}
    for text in ("Tim likes tea.", "Tim likes rum.", "Tim likes coffee."):
        document_put(**note, value={"content": text})
    document_put(agent=ada, namespace=["users", "tim"], key="prefs", value={"theme": "dark", "n": 2}, by=actor)
    reader, person = browser(alice), browser(bob)
    listed = page(reader, "agent_documents")
    assert "/memories/tea.md" in listed
    assert "users / tim" in listed
    assert "Tim likes rum." not in listed
    assert "Tim likes rum." in page(reader, "agent_documents", state="superseded")
    assert "prefs" not in page(reader, "agent_documents", namespace="memories")
    assert "No document matches" in page(reader, "agent_documents", q="nothing")

    first, _, last = Document.objects.filter(key="/memories/tea.md").order_by("version")
    shown = page(reader, "agent_document", last.pk)
    for word in ("Version 1", "Version 2", "Version 3", "1 line added", "the agent and people"):
        assert word in shown, word
    assert "Restore" not in shown
    assert "Retire" not in shown
    prefs = page(reader, "agent_document", Document.objects.get(key="prefs").pk)
    assert "&quot;theme&quot;: &quot;dark&quot;" in prefs
    assert "Text for search and prompts" in prefs
    assert "A later version has replaced this one" in page(reader, "agent_document", first.pk)

    assert "Version 4 has the value of version 1." in change(person, first, "restore")
    restored = Document.objects.get(key="/memories/tea.md", active=True)
    assert (restored.value, restored.author_name, restored.endorsed) == ({"content": "Tim likes tea."}, "bob", True)
    assert "people only" in page(person, "agent_document", restored.pk)
    assert "nothing to restore" in change(person, restored, "restore")
    assert "The agent can change the document again." in change(person, restored, "release")
    assert "The agent cannot find the document any more." in change(person, restored, "retire")
    assert "Retired by bob" in page(reader, "agent_document", restored.pk)
    for what in ("restore", "retire", "release"):
        assert reader.post(reverse("agent_document_change", args=["ada", restored.pk, what])).status_code == 403
    assert person.post(reverse("agent_document_change", args=["ada", restored.pk, "burn"])).status_code == 404


def test_pages_of_documents_are_escaped_and_empty_ones_say_so(ada, actor, alice):
    reader = browser(alice)
    assert "No documents yet" in page(reader, "agent_documents")
    said = "<script>alert(1)</script>"
    kept = document_put(agent=ada, namespace=["<b>"], key="<i>", value={"x": said}, index=[], by=actor).document
    document_retire(document=kept, by=actor)
    for shown in (page(reader, "agent_documents", state="all"), page(reader, "agent_document", kept.pk)):
        assert "<script>alert" not in shown
        assert "<i>" not in shown
    assert "The agent reads it by its key only" in page(reader, "agent_document", kept.pk)


def test_page_of_a_long_document_shows_its_beginning(ada, actor, alice):
    for number in (1, 2):
        value = {"list": [number] * 20_000}
        kept = document_put(agent=ada, namespace=["n"], key="long", value=value, by=actor).document
    shown = page(browser(alice), "agent_document", kept.pk)
    assert "This is the beginning of the value" in shown
    assert len(shown) < 400_000


def test_page_of_a_long_document_shows_a_change_near_its_end(ada, actor, alice):
    said = "这个助手在回答之前总是先检查日历。" * 2_000
    for text in (said, f"{said[:-4]}月{said[-3:]}"):
        kept = document_put(agent=ada, namespace=["n"], key="long", value={"content": text}, by=actor).document
    shown = page(browser(alice), "agent_document", kept.pk)
    assert "<del>查</del>" in shown
    assert "<ins>月</ins>" in shown

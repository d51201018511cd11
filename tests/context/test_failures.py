"""One failing section must not lose the others, whatever makes it fail."""

import pytest
from django.db import connection

from context.engine.analysis.request import Message
from context.engine.retrieval.restatement import repeated_in, vector_cell
from memory.embedding import EmbeddingFailed
from memory.models import WorkingMemory
from tests.database import as_the_owner
from tests.factories import make_fact

ASK = {"session_id": "s", "input": "Why did the ledger export fail?"}


def labels(body):
    return [section["label"] for section in body["sections"]]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("table", "label"),
    [
        ("memory_censor", "Active Censors"),
        ("memory_workingmemory", "Working Memory"),
        ("memory_fact", "User Profile"),
        ("identity_identityversion", "Identity"),
        ("memory_searchitem_actor", "Search"),
    ],
)
def test_unreadable_table_costs_its_section_alone(api, ada, actor_token, system, table, label):
    make_fact(ada, "Prefers tea.", system, category="preference")
    caller = api.as_token(actor_token)
    with as_the_owner(), connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO gone")
    try:
        answer = caller.post("/context", ASK)
    finally:
        with as_the_owner(), connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE gone RENAME TO {table}")
    assert answer.status_code == 200, answer.content
    body = answer.json()
    failed = [name for name, _ in body["failed"]]
    assert label in failed
    assert label not in labels(body)
    assert "Current Frame" in labels(body)
    others = {"Identity", "User Profile"} - {label}
    assert others <= set(labels(body))


def test_broken_row_costs_its_section_alone(api, ada, actor_token):
    WorkingMemory.objects.create(agent=ada, session_id="s", persona="actor", items=["no object"])
    body = api.as_token(actor_token).post("/context", ASK).json()
    assert [name for name, _ in body["failed"]] == ["Working Memory"]
    assert "Identity" in labels(body)


def test_empty_conversation_repeats_nothing():
    assert repeated_in(["Anything."], [], 5) == {}


@pytest.mark.parametrize("embedder", ["there", "down"])
def test_conversation_duplicate_is_detected_with_and_without_embeddings(embedder, monkeypatch):
    if embedder == "down":

        def refuse(name):
            raise EmbeddingFailed("The embedder is down.")

        monkeypatch.setattr("context.engine.retrieval.restatement.embedder_named", refuse)
    text = "The ledger export writes one file for each currency."
    said = [Message("user", "Hello."), Message("assistant", text)]
    assert repeated_in([text, "Something wholly different."], said, 5) == {0: 2}


def test_conversation_duplicate_is_not_included_again(api, ada, actor_token, system):
    text = "The ledger export failed because the replica lagged."
    fact = make_fact(ada, text, system)
    body = api.as_token(actor_token).post(
        "/context", {**ASK, "explain": True, "conversation": [{"role": "user", "content": text}]}
    ).json()  # fmt: skip
    verdict = next(one for one in body["candidates"] if one["id"] == str(fact.pk))
    assert (verdict["verdict"], "Message 1" in verdict["reason"]) == ("duplicate_message", True)
    assert "replica lagged" not in body["system_prompt"]


def test_conversation_paraphrase_is_detected_by_meaning(monkeypatch):
    text = "The ledger export writes one file for each currency."
    said = [Message("user", "Our ledger export writes a single file per currency."), Message("user", "Thanks.")]
    other = [Message("user", "Our ledger export fails for one currency since noon.")]
    assert repeated_in([text], said, 5) == {0: 1}
    assert repeated_in([text], other, 5) == {}
    # Words alone leave it in: too few of them are the same.
    monkeypatch.setattr("context.engine.retrieval.restatement.embedder_named", refusing)
    vector_cell.cache_clear()
    assert repeated_in([text], said, 5) == {}


def refusing(name):
    raise EmbeddingFailed("The embedder is down.")

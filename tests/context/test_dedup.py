"""What the conversation and the input state already: seed 005.1, D4 and its test_dedup."""

import pytest

from context.engine.analysis.request import Message
from context.engine.retrieval.restatement import repeated_in, says_otherwise, vector_cell
from memory.embedding import EmbeddingFailed
from tests.factories import make_fact

LEDGER = "We decided to use Postgres for the ledger database"
BILLING = "The billing database runs PostgreSQL 15 in Frankfurt."
SAME = [
    (LEDGER, f"{LEDGER} yesterday"),
    (LEDGER, "I decided to use Postgres for the ledger database"),
    (LEDGER, "Yesterday we decided to use Postgres for the ledger database. What else is open?"),
    (LEDGER, "Hey Marlow, last week we have decided to use Postgres for the ledger database, please remember."),
    (LEDGER, "For the ledger database we decided to use Postgres two days ago"),
    (LEDGER, "We will use Postgres for the ledger database"),
    (LEDGER, "I think we should use Postgres for the ledger database."),
    (LEDGER, "We agreed on Postgres as the database of the ledger."),
    (LEDGER, "Two days ago the team picked Postgres for the ledger database."),
    (BILLING, "Our billing database is PostgreSQL 15, in Frankfurt."),
    ("Tim lives in Silver Spring, Maryland", "Tim's home is in Silver Spring, Maryland."),
    ("Carts are stored in Redis for thirty minutes", "We keep carts in Redis for 30 minutes"),
    ("Wir haben entschieden, Postgres zu nutzen", "Gestern haben wir entschieden, Postgres zu nutzen"),
]
OTHER = [
    ("The user prefers Fahrenheit", "The user prefers Celsius"),
    ("The user prefers fahrenheit for temperatures", "the user prefers celsius for temperatures"),
    (LEDGER, "We decided not to use Postgres for the ledger database"),
    (LEDGER, "Yesterday we decided to use MySQL for the ledger database"),
    (LEDGER, "We decided against Postgres for the ledger database"),
    (LEDGER, "We no longer use Postgres for the ledger database"),
    (LEDGER, "Ann decided to use Postgres for the ledger database"),
    (LEDGER, "Did we decide to use Postgres for the ledger database?"),
    (LEDGER, "Find out whether we decided to use Postgres for the ledger database"),
    (BILLING, "The billing database runs PostgreSQL 17 in Frankfurt."),
    (BILLING, "The billing database used to run PostgreSQL 15 in Frankfurt."),
    (BILLING, "The billing database formerly ran PostgreSQL 15 in Frankfurt."),
    ("Bob manages Alice", "Yesterday Alice manages Bob"),
    ("I manage Bob", "Bob manages me"),
    ("The parser regresses by 5%", "The parser improves by 5%"),
    ("Tim likes tea", "Tim likes coffee"),
    ("The backup runs on Monday", "The backup runs on Tuesday"),
    ("Caching is enabled for the shop", "Caching is disabled for the shop"),
    ("Only admins may delete orders", "All admins may delete orders"),
    ("Ann is the former lead of billing", "Ann is the lead of billing"),
]


def refusing(name):
    raise EmbeddingFailed("The embedder is down.")


@pytest.fixture(params=["there", "down"])
def embedder(request, monkeypatch):
    vector_cell.cache_clear()
    if request.param == "down":
        monkeypatch.setattr("context.engine.retrieval.restatement.embedder_named", refusing)
    return request.param


def test_no_dedup_without_messages(embedder):
    assert repeated_in([LEDGER], [], 5) == {}
    assert repeated_in([LEDGER], [Message("user", " ")], 5, "\n") == {}


def test_redundant_memory_is_filtered_and_novel_memory_is_kept(embedder):
    said = [Message("user", "Hello."), Message("user", f"{LEDGER} yesterday."), Message("assistant", "Noted.")]
    assert repeated_in([LEDGER, "The harbour has twelve berths."], said, 5) == {0: 2}


def test_identical_text_is_redundant_whatever_it_says(embedder):
    said = ["Should we use Redis or not?", "Find out whether carts expire.", "12 carts"]
    for text in said:
        assert repeated_in([text], [Message("user", text)], 5) == {0: 1}
        assert repeated_in([text], [], 5, f" {text.upper()}") == {0: 0}


def test_only_the_last_turns_count():
    said = [Message("user", LEDGER), *[Message("user", f"Number {place}.") for place in range(6)]]
    assert (repeated_in([LEDGER], said, 3), repeated_in([LEDGER], said, 4)) == ({}, {0: 1})


def test_words_stand_in_for_meaning(monkeypatch):
    monkeypatch.setattr("context.engine.retrieval.restatement.embedder_named", refusing)
    vector_cell.cache_clear()
    for said, found in ((f"Yesterday {LEDGER}", {0: 0}), ("We chose Postgres.", {}), ("Carts use Redis.", {})):
        assert repeated_in([LEDGER], [], 5, said) == found


def test_only_memories_that_share_words_are_embedded(monkeypatch):
    monkeypatch.setattr("context.engine.retrieval.restatement.embedder_named", lambda name: pytest.fail("embedded"))
    berths = "The harbour has twelve berths of different sizes."
    assert repeated_in([LEDGER, berths], [Message("user", "Ships come daily.")], 5, "What does Ann like?") == {}
    assert repeated_in([LEDGER], [], 5, "What do we use Postgres for?") == {}, "a question"


@pytest.mark.parametrize(("memory", "said"), SAME)
def test_the_same_in_other_words_is_redundant(memory, said):
    assert repeated_in([memory], [Message("user", said)], 5) == {0: 1}
    assert repeated_in([memory], [], 5, said) == {0: 0}


@pytest.mark.parametrize(("memory", "said"), OTHER)
def test_what_really_says_something_else_is_novel(memory, said):
    assert repeated_in([memory], [Message("user", said)], 5) == {}
    assert repeated_in([memory], [], 5, said) == {}


def test_a_memory_that_says_more_is_novel():
    assert says_otherwise(f"{LEDGER} because auditors demand nightly snapshots", LEDGER)
    assert not says_otherwise(LEDGER, f"{LEDGER} because auditors demand nightly snapshots")


def test_a_question_repeats_the_same_question_only():
    asked = "When does the ledger export run?"
    assert repeated_in([asked, "The ledger export runs at nine."], [], 5, "when is the ledger export run?") == {0: 0}
    assert repeated_in([asked], [], 5, "When does the billing export run?") == {}
    assert repeated_in([f"{asked} It runs at nine."], [], 5, asked) == {}


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({"input": f"{LEDGER} yesterday"}, "duplicate_input"),
        ({"input": "I decided to use Postgres for the ledger database. Draft the plan."}, "duplicate_input"),
        ({"input": "We decided to use MySQL for the ledger database"}, "included"),
        ({"conversation": "We agreed on Postgres as the database of the ledger."}, "duplicate_message"),
        ({"conversation": "We no longer use Postgres for the ledger database."}, "included"),
        ({"conversation": "Did we decide to use Postgres for the ledger database?"}, "included"),
    ],
)
def test_prompt_leaves_out_what_was_said(api, ada, system, actor_token, more, verdict):
    fact = make_fact(ada, LEDGER, system)
    asked = {"session_id": "s", "input": "Which database does the ledger use?", "explain": True, **more}
    if said := more.get("conversation"):
        asked["conversation"] = [{"role": "user", "content": said}]
    body = api.as_token(actor_token).post("/context", asked).json()
    assert {one["id"]: one["verdict"] for one in body["candidates"]}[str(fact.pk)] == verdict
    told = body["system_prompt"].partition("## Relevant Facts")[2]
    assert (LEDGER in told) == (verdict == "included")

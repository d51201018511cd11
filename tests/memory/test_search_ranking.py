"""The learned ranker: what it makes of who said what, and that its numbers are read as they were written."""

import json

import numpy as np
import pytest

from memory.search.ranking_features import FEATURE_NAMES, FILE, build_ranker, ranker
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.lib.boosted_trees import DEPTH, NODES, trees_unpacked

CHAT = (
    ("user_input", "I'm building a budget tracker in Flask, how should I structure the project?"),
    ("actor_output", "Start with blueprints for the pages, one module for the models and one for the forms."),
    ("user_input", "I prefer simple, minimal dependencies to keep my app lightweight."),
    ("actor_output", "Good: then stay with the standard library where you can, and write small functions."),
    ("user_input", "How do I store the password of a person?"),
    ("actor_output", "Hash it with a salt. I recommend argon2 with its default cost, and never a plain digest."),
    ("user_input", "Which port does the development server listen on?"),
    ("actor_output", "Port 5000, unless the environment says otherwise. You would suggest another one by an option."),
    ("user_input", "Please suggest a name for the page that lists expenses."),
    ("actor_output", "Ledger would be a good name, or simply Expenses."),
)


@pytest.fixture
def chat(db, api, actor_token):
    events = [{"kind": kind, "content": text, "loop_id": "chat"} for kind, text in CHAT]
    assert api.as_token(actor_token).post("/events", {"events": events}).status_code == 201
    embed_pending_rows()

    def recall(q, **query):
        return [item["content"] for item in api.as_token(actor_token).get("/recall", {"q": q} | query).json()["items"]]

    return recall


def test_recall_finds_a_preference_for_a_task_that_shares_no_word(chat):
    found = chat("Which libraries would you suggest for charts and analytics?", min_score=0)
    assert CHAT[2][1] in found[:3]


def test_recall_finds_what_the_agent_said_when_asked_for_it(chat):
    assert chat("What did you recommend for hashing passwords?", min_score=0)[0] == CHAT[5][1]


def test_ranker_follows_its_trees_and_their_leaves():
    held = json.loads(FILE.read_text())
    matrix = np.random.default_rng(1).normal(size=(40, len(FEATURE_NAMES)))

    def value(tree, row):
        node = 0
        for _ in range(DEPTH):
            node = 2 * node + (2 if row[tree["features"][node]] > tree["thresholds"][node] else 1)
        return tree["leaves"][node - NODES]

    linear = FEATURE_NAMES.index("linear")
    trees = trees_unpacked(held["trees"])
    plain = [held["linear"] * row[linear] + sum(value(tree, row) for tree in trees) for row in matrix]
    assert np.allclose(ranker().scores(matrix), plain)
    assert FILE.stat().st_size < 20_000


def test_ranker_of_other_features_is_refused():
    held = json.loads(FILE.read_text())
    with pytest.raises(ValueError, match="fitted for other features"):
        build_ranker(held | {"names": held["names"][::-1]})

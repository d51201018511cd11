"""The score of a change: what embeddings add to it, and that it needs none; the pairs that are made to fit it."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.fact_pairs.slots import CHANGED, SAME, TRUE, Maker
from benchmarks.fact_pairs.stories import MORE, stories, story_pairs
from memory.comparison.change_score import EMBEDDING_FEATURES, UNKNOWN, change_features, change_model
from memory.comparison.compare_facts import Outcome, compare_facts
from memory.comparison.fact_snapshot import FactSnapshot
from memory.embedding.registry import embedder_named
from memory.embedding.thresholds import DEFAULT_MODEL, thresholds_of
from memory.models import Fact
from memory.services.facts.comparison_candidates import candidates_compare
from memory.services.facts.precheck import vector_of

THRESHOLDS = thresholds_of(DEFAULT_MODEL)


def _snapshots(subject, old, new):
    vectors = embedder_named(DEFAULT_MODEL).embed_documents([old, new])
    pair = [FactSnapshot(text, subject, vector=vector) for text, vector in zip((old, new), vectors, strict=True)]
    return *pair, float(vectors[0] @ vectors[1])


@pytest.mark.parametrize(
    ("subject", "old", "new", "asked"),
    [
        ("user", "I rent a studio.", "I bought a flat.", True),
        ("cluster", "Monitoring is done with Nagios.", "Prometheus took over from Nagios.", True),
        ("board", "Ms. Ferrari chairs the board.", "The board elected Mr. Okoye as its new chair.", True),
        ("company", "The company has 45 employees.", "The company was founded in 2011.", False),
        ("Greta", "Greta teaches piano.", "Greta owns a grand piano from 1920.", False),
        ("user", "I drive an old Volvo.", "I swim on Saturdays.", False),
    ],
)
def test_change_score_reads_what_embeddings_are_about(subject, old, new, asked):
    outcome = compare_facts(*_snapshots(subject, old, new), THRESHOLDS).outcome
    assert (outcome is Outcome.QUEUED) is asked


def test_change_score_has_each_sign_that_its_trees_were_fitted_with():
    old, new, cosine = _snapshots("user", "I rent a studio.", "I bought a flat.")
    with_vectors = change_features(old, new, frozenset(), cosine, THRESHOLDS)
    assert set(change_model().names) <= set(with_vectors)
    assert all(with_vectors[name] > UNKNOWN for name in EMBEDDING_FEATURES)
    without = change_features(FactSnapshot(old.content), FactSnapshot(new.content), frozenset(), cosine, THRESHOLDS)
    assert all(without[name] == UNKNOWN for name in EMBEDDING_FEATURES)


def test_change_score_needs_no_embedding():
    for old, new, outcome in [
        ("I take my coffee black.", "These days I put oat milk in my coffee.", Outcome.QUEUED),
        ("I take my coffee black.", "My passport expires in 2029.", Outcome.STORED),
    ]:
        facts = (FactSnapshot(text, "user") for text in (old, new))
        assert compare_facts(*facts, 0.44 if outcome is Outcome.QUEUED else 0.05, THRESHOLDS).outcome is outcome


def test_change_score_gets_the_embeddings_of_the_index(api, actor_token, ada):
    answer = api.as_token(actor_token).post("/facts", {"content": "I rent a studio in Turin.", "subject": "user"})
    assert answer.status_code == 201
    text = "I bought a two-bedroom flat in Turin."
    comparisons = {}
    fact = Fact(agent=ada, persona="actor", content=text, subject="user")
    candidates_compare(fact, vector=vector_of(text), comparisons=comparisons)
    [(old, _)] = comparisons
    assert old.vector is not None
    assert np.allclose(old.vector, embedder_named(DEFAULT_MODEL).embed_documents([old.content])[0], atol=1e-3)


def test_slots_and_stories_make_the_same_pairs_each_time_and_none_that_is_measured_with():
    made = Maker(1).pairs(1)
    assert made == Maker(1).pairs(1)
    assert {pair["label"] for pair in made} == {CHANGED, SAME, TRUE}
    assert not [pair for pair in made if "{" in pair["old"] + pair["new"]]
    told = story_pairs(1)
    assert told == story_pairs(1)
    assert not [pair for pair in told for mark in (" / ", " > ", MORE) if mark in pair["old"] + pair["new"]]
    assert all(len(lines) > 1 for _, lines in stories())
    made += told
    file = Path(__file__).parents[2] / "benchmarks/fact_pairs/pairs.jsonl"
    measured = {(pair["old"], pair["new"]) for pair in map(json.loads, file.read_text().splitlines())}
    assert not measured & {(pair["old"], pair["new"]) for pair in made}

"""The cross-encoder of facts: it computes what the embedder computes, and reads changes told in wholly other words."""

import numpy as np
import pytest

from memory.comparison import cross_encoder as c
from memory.comparison.change_score import both_true
from memory.comparison.compare_facts import Outcome, compare_facts
from memory.comparison.cross_encoder import build_encoder, cross_scores
from memory.comparison.fact_snapshot import FactSnapshot
from memory.embedding import embedder_named
from memory.embedding.local import tokenizer
from memory.embedding.thresholds import DEFAULT_MODEL, thresholds_of
from tests.embeddings import pair_score


@pytest.fixture(autouse=True)
def _each_pair_is_read_each_time(monkeypatch):
    monkeypatch.setattr(c.CrossEncoder, "score", pair_score)


def snapshots(subject, old, new):
    vectors = embedder_named(DEFAULT_MODEL).embed_documents([old, new])
    facts = (FactSnapshot(text, subject, vector=one) for text, one in zip((old, new), vectors, strict=True))
    return *facts, float(vectors[0] @ vectors[1])


def test_layers_without_a_change_are_those_of_the_embedder():
    names = [f"{layer}{part}.{side}" for layer in range(c.LAYERS) for part in c.MATRICES for side in ("down", "up")]
    nothing = {name: np.zeros((1, 1)) for each in names for name in (each, f"{each}_scale")}
    plain = build_encoder(nothing | {"segments": np.zeros(1), "head": np.zeros(1), "head_bias": np.zeros(1)})
    text = "The nightly export runs at 02:00, unless Ümit’s team pauses it."
    encoding = tokenizer().encode(text)
    last = plain._layers(np.array(encoding.ids), np.array(encoding.type_ids)).mean(0)
    assert last / np.linalg.norm(last) == pytest.approx(
        embedder_named(DEFAULT_MODEL).embed_documents([text])[0], abs=1e-5
    )


def test_score_of_a_pair_is_the_same_beside_whatever_other_pairs():
    old, new, _ = snapshots("Rita", "Rita eats everything.", "Rita has gone vegan.")
    other = FactSnapshot("Rita bought a second freezer.", "Rita")
    changed, beside = cross_scores([(old, new), (old, other)])
    assert changed > beside
    assert cross_scores([]) == []
    assert cross_scores([(old, new)]) == [changed]


@pytest.mark.parametrize(
    ("subject", "old", "new", "asked"),
    [
        ("Rita", "Rita eats everything.", "Rita has gone vegan.", True),
        ("on-call", "We page whoever is on call by phone.", "Incidents go to a chat channel, nobody is rung.", True),
        ("", "I keep my savings at the credit union.", "My savings sit with an online bank these days.", True),
        ("Rita", "Rita eats everything.", "Rita bought a second freezer.", False),
        ("on-call", "We page whoever is on call by phone.", "Handover of the shift is at nine.", False),
    ],
)
def test_change_told_in_other_words_is_asked_about(subject, old, new, asked):
    outcome = compare_facts(*snapshots(subject, old, new), thresholds_of(DEFAULT_MODEL)).outcome
    assert (outcome is Outcome.QUEUED) is asked


@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        ("The company sells bicycles.", "The company repairs bicycles.", False),
        ("Rufus has asthma.", "Rufus got a new inhaler.", False),
        ("Severin has brown eyes.", "Severin has a brown moustache.", False),
        ("Umar bought a tent.", "Umar bought a sleeping bag instead of a tent.", True),
        ("The shed has two locks.", "The shed has three locks.", True),
        ("The shed is locked.", "The shed is not locked.", True),
    ],
)
def test_difference_of_words_alone_is_settled_where_both_are_true(old, new, asked):
    outcome = compare_facts(*snapshots("", old, new), thresholds_of(DEFAULT_MODEL)).outcome
    assert (outcome in (Outcome.QUEUED, Outcome.SUPERSEDED)) is asked


def test_nothing_is_settled_of_facts_that_are_not_read_whole():
    old, new, _ = snapshots("", "Severin has brown eyes.", "Severin has a brown moustache.")
    longer = FactSnapshot(new.content[:-1] + " that he has worn for years" * 9 + ".", "", vector=new.vector)
    brief = FactSnapshot("So what.", "", vector=new.vector)
    unknown = FactSnapshot(new.content, "")
    assert both_true([(old, each) for each in (new, longer, brief, unknown)]) == [True, False, False, False]


def test_long_facts_are_cut_off_before_they_are_read():
    old, new, _ = snapshots("", "The plan is this. " * 400, "The plan is dropped. " * 400)
    assert len(c.sentence_of(old)) == c.CHARACTERS
    assert np.isfinite(cross_scores([(old, new)])).all()

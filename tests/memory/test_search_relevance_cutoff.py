"""How much of what was found is worth reading: little where the best stand out, more where they do not."""

import json

import numpy as np

from benchmarks.system import PROJECT
from benchmarks.tables import TABLES, lines_of, written
from memory.search.fusion import RELEVANT, relevance
from memory.search.ranking import MAX_RELEVANT, relevance_cutoff
from memory.search.ranking_features import ranker

CERTAIN = 4.0


def worth_reading(*behind, log_odds=CERTAIN):
    """How many of the candidates so far behind the best are above the threshold, and how relevant each is."""
    away = np.array(behind)
    learned = ranker()
    cutoff = relevance_cutoff(learned, -away, np.full(len(away), 0.5), log_odds, False)
    value = relevance(away, log_odds, learned.half_gap, cutoff)
    return int((value >= RELEVANT).sum()), value


def test_reach_is_short_where_one_stands_out_and_long_where_many_are_alike():
    clear, _ = worth_reading(0.0, *np.linspace(5.0, 9.0, 60))
    alike, _ = worth_reading(*np.linspace(0.0, 2.0, 60))
    assert clear < 4
    assert 8 < alike <= MAX_RELEVANT
    assert worth_reading(0.0)[0] == 1
    assert worth_reading(0.0, 0.0, 0.0)[0] == 3


def test_relevance_falls_from_the_best_on_and_nothing_passes_where_the_gate_says_no():
    for log_odds in (-3.0, 0.0, CERTAIN):
        count, value = worth_reading(*np.linspace(0.0, 12.0, 80), log_odds=log_odds)
        assert np.isclose(value[0], 1 / (1 + np.exp(-log_odds)))
        assert (np.diff(value) < 0).all()
        assert value[-1] > 0
        assert (count == 0) == (log_odds < -1.1)


def test_tables_are_written_where_the_document_has_a_place_for_them(tmp_path):
    record = {"conversation": "one", "category": 4, "ranks": [1], "kept_ranks": [1], "precision": 0.5, "seconds": 0.01}
    record |= {"returned": 2, "false_context": {}}
    (tmp_path / "locomo-prefix.json").write_text(f'{{"questions": [{str(record).replace(chr(39), chr(34))}]}}')
    document = "before\n<!-- table locomo -->\nold\n<!-- end locomo -->\nafter\n"
    found, names = written(document, tmp_path)
    assert names == ["locomo"]
    assert "| all | 1 | 1.000 | 1.000 | 1.000 | 1.000 | 1.000 | .500 | – |" in found
    assert "old" not in found
    assert found.startswith("before\n")
    assert found.endswith("after\n")
    assert written(found, tmp_path)[0] == found
    assert lines_of(["a"], [["b"]]) == "| a |\n|---|\n| b |".replace("|---|", "| --- |")


def test_every_table_has_its_place_in_the_document():
    document = (PROJECT / "docs" / "benchmarks.md").read_text()
    for name in TABLES:
        assert document.count(f"<!-- table {name} -->\n") == document.count(f"<!-- end {name} -->") == 1, name


def test_tables_of_pairs_speed_and_what_was_left_out(tmp_path):
    split = {group: {"pairs": 4, "wrong": 1, "confirmed": 0} for group in ("changed", "beside", "same")}
    pairs = {"dev": split, "test": split}
    one = {"p50_ms": 10.04, "p95_ms": 13.0, "per_second": 90.4, "postgres_cpu_ms": 5.0, "caller_cpu_ms": 0.5}
    asked = [{"clients": count, **one} for count in (1, 8)]
    answers = [{"contender": "now", "what": "recall", "web_cpu_ms": 7.25, **each} for each in asked]
    answers += [{"contender": "mem0", "what": "search", **each} for each in asked]
    kinds = {kind: {"cpu_milliseconds_per_message": 3.75} for kind in ("short", "long")}
    starts = {"first_seconds": 17.0, "second_seconds": 3.5, "command_seconds": 0.6}
    speed = {"answers": answers, "megabytes": {"now": 200.0, "mem0": 500.0}}
    speed |= {"ingested": {"now": kinds}, "started": {"now": starts}, "stored": {"mem0 short": one, "mem0 long": one}}
    scores = {
        "cosine": {"beam": [0.5, 0.6, 0.7, 0.8], "beam: ordering": [0.1, 0.2, 0.3, 0.4]},
    }
    left_out = {"measures": ["@5", "@10", "@20", "@50"], "scores": scores}
    for file, found in (("fact-pairs", pairs), ("speed", speed), ("left-out", left_out)):
        (tmp_path / f"{file}.json").write_text(json.dumps(found))
    places = [f"<!-- table {name} -->\n<!-- end {name} -->\n" for name in ("pairs", "speed", "left-out", "starts")]
    document, names = written("".join(places), tmp_path)
    assert names == ["pairs", "speed", "starts", "left-out"]
    assert "| 2 of 8 | 2 of 8 | 2 of 8 | 0 |" in document
    assert "| Nous Web, recall | 10.0 / 13.0 | 90 | 90 | 7.2 | 0.5 | 5.0 | 200 |" in document
    assert "| mem0, search | 10.0 / 13.0 | 90 | 90 | 0.0 | 0.5 | 5.0 | 500 |" in document
    assert "| Nous Web | 3.8 ms | 3.8 ms | 17.0 s | 3.5 s | 0.6 s |" in document
    assert "| mem0 | 5.5 ms | 5.5 ms |  |  |  |" in document
    assert "| cosine | beam | .600 | .700 | .800 | – | – |" in document
    assert "beam: ordering" not in document

"""How much of what was found is worth reading: little where the best stand out, more where they do not."""

import numpy as np

from benchmarks.tables import lines_of, written
from memory.search.ranker import ranker
from memory.search.reach import MOST, reach_of
from memory.search.scoring import RELEVANT, relevance

CERTAIN = 4.0


def worth_reading(*behind, log_odds=CERTAIN):
    """How many of the candidates so far behind the best are above the threshold, and how relevant each is."""
    away = np.array(behind)
    learned = ranker()
    reach = reach_of(learned, -away, np.full(len(away), 0.5), log_odds, False)
    value = relevance(away, log_odds, learned.half_gap, reach)
    return int((value >= RELEVANT).sum()), value


def test_reach_is_short_where_one_stands_out_and_long_where_many_are_alike():
    clear, _ = worth_reading(0.0, *np.linspace(5.0, 9.0, 60))
    alike, _ = worth_reading(*np.linspace(0.0, 2.0, 60))
    assert clear < 4
    assert 8 < alike <= MOST
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
    assert "| one | 1 | 1.000 | 1.000 | 1.000 | 1.000 | 1.000 | .500 | – |" in found
    assert "old" not in found
    assert found.startswith("before\n")
    assert found.endswith("after\n")
    assert written(found, tmp_path)[0] == found
    assert lines_of(["a"], [["b"]]) == "| a |\n|---|\n| b |".replace("|---|", "| --- |")

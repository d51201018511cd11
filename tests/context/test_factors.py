"""What is multiplied into the relevance of a memory, beside what answers have taught."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from context.engine.assembly import Candidate, Rules
from context.engine.assembly.filters import judge, score_of

NOW = datetime(2026, 3, 4, tzinfo=UTC)
PLAIN = Candidate("facts", "fact", "plain", "The parser reads a line.", 0.5, NOW, 0.25)
RULES = Rules("query", NOW, limits={"fact": 5})


def test_without_any_reason_the_score_is_the_relevance():
    assert score_of(PLAIN, RULES) == (0.5, ())


@pytest.mark.parametrize(
    ("name", "factor", "candidate", "rules"),
    [
        ("preferred kind", 1.15, {"kinds": frozenset({"code"})}, {"preferred_kinds": frozenset({"code", "test"})}),
        ("mentioned file", 1.25, {"text": "src/parser.py fails on line 42."}, {"files": ("src/parser.py",)}),
        ("mentioned file", 1.25, {"source": "file:src/parser.py"}, {"files": ("src/parser.py",)}),
        ("shared tag", 1.1, {"tags": frozenset({"bugfix"})}, {"tags": frozenset({"bugfix", "parser"})}),
        ("usage", 1.5, {"boost": 1.5}, {}),
        ("recency", 0.75, {"happened_at": NOW - timedelta(days=7)}, {"recency_weight": 0.5}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_factor_raises_or_lowers_the_score_and_is_named(name, factor, candidate, rules):
    raised, how = replace(PLAIN, id="raised", **candidate), replace(RULES, **rules)
    score, factors = score_of(raised, how)
    assert factors == ((name, pytest.approx(factor)),)
    assert score == pytest.approx(0.5 * factor)
    better = raised if factor > 1 else replace(PLAIN, happened_at=NOW)
    passed, _ = judge([PLAIN, raised] if factor > 1 else [raised, better], how)
    assert passed[0].candidate == better


def test_factors_are_multiplied_and_open_no_gate():
    """A threshold is held against the relevance itself: what is preferred and irrelevant stays out."""
    both = replace(PLAIN, kinds=frozenset({"code"}), tags=frozenset({"bugfix"}), boost=1.5, relevance=0.2)
    how = replace(RULES, preferred_kinds=frozenset({"code"}), tags=frozenset({"bugfix"}))
    passed, (refused,) = judge([both], how)
    assert not passed
    assert refused.code == "below_threshold"
    assert refused.score == pytest.approx(0.2 * 1.5 * 1.15 * 1.1)
    assert [name for name, _ in refused.factors] == ["usage", "preferred kind", "shared tag"]

"""What is multiplied into the relevance of a memory, beside what answers have taught."""

from datetime import timedelta

import pytest

from context.engine.assembly.inclusion_filters import candidates_filter, score_of
from tests.context.engine_inputs import NOW, candidate, candidate_with, resolved_request

PLAIN = candidate("plain", "The parser reads a line.")
LIMITS = {"fact": 5}


def test_score_without_factors_is_the_relevance():
    assert score_of(PLAIN, resolved_request(limits=LIMITS)) == (0.5, ())


@pytest.mark.parametrize(
    ("name", "factor", "changes", "request_changes"),
    [
        ("preferred kind", 1.15, {"kinds": frozenset({"code"})}, {"preferred_kinds": ("code", "test")}),
        ("mentioned file", 1.25, {"content": "src/parser.py fails on line 42."}, {"files": ("src/parser.py",)}),
        ("mentioned file", 1.25, {"metadata": {"source": "file:src/parser.py"}}, {"files": ("src/parser.py",)}),
        ("shared tag", 1.1, {"tags": ("bugfix",)}, {"tags": ("bugfix", "parser")}),
        ("usage", 1.5, {"boost": 1.5}, {}),
        ("recency", 0.75, {"happened_at": NOW - timedelta(days=7)}, {"recency": 0.5}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_score_factors_raise_or_lower_it_and_are_named(name, factor, changes, request_changes):
    raised = candidate_with(PLAIN, id="raised", **changes)
    resolved = resolved_request(limits=LIMITS, **request_changes)
    score, factors = score_of(raised, resolved)
    assert factors == ((name, pytest.approx(factor)),)
    assert score == pytest.approx(0.5 * factor)
    better = raised if factor > 1 else candidate_with(PLAIN, happened_at=NOW)
    passed, _ = candidates_filter([PLAIN, raised] if factor > 1 else [raised, better], resolved)
    assert passed[0].candidate == better


def test_score_factors_are_multiplied_and_pass_no_filter():
    """A threshold is held against the relevance itself: what is preferred and irrelevant stays out."""
    both = candidate_with(PLAIN, kinds=frozenset({"code"}), tags=("bugfix",), boost=1.5, score=0.2)
    resolved = resolved_request(limits=LIMITS, preferred_kinds=("code",), tags=("bugfix",))
    passed, (refused,) = candidates_filter([both], resolved)
    assert not passed
    assert refused.code == "below_threshold"
    assert refused.score == pytest.approx(0.2 * 1.5 * 1.15 * 1.1)
    assert [name for name, _ in refused.factors] == ["usage", "preferred kind", "shared tag"]

"""Choosing among memories that passed every gate, when not all of them fit."""

from datetime import UTC, datetime

from context.assembly import Candidate, Rules, SearchedSection, VerdictCode, assemble

NOW = datetime(2024, 5, 1, tzinfo=UTC)


def remembered(name, *, words, relevance):
    return Candidate("facts", "fact", name, f"{name} " + "word " * words, relevance, NOW, 0.25)


def chosen(candidates, budget):
    result = assemble(
        [],
        total_budget=budget,
        searched=[SearchedSection("facts", "Relevant Facts", budget)],
        candidates=candidates,
        rules=Rules("query", NOW, limits={"fact": 50}, weights={"global": 1.0}),
    )
    shown = [item.id for section in result.sections for item in section.items]
    assert set(shown) == {v.candidate.id for v in result.verdicts if v.code == VerdictCode.INCLUDED}
    return shown


def test_a_long_memory_gives_way_to_several_short_ones_that_are_nearly_as_good():
    short = [remembered(f"short-{place}", words=10, relevance=0.7) for place in range(4)]
    assert chosen([remembered("long", words=60, relevance=0.8), *short], 80) == [one.id for one in short]


def test_a_long_memory_that_is_far_better_keeps_its_place():
    short = [remembered(f"short-{place}", words=10, relevance=0.3) for place in range(4)]
    assert chosen([remembered("long", words=60, relevance=0.95), *short], 90)[0] == "long"


def test_what_is_chosen_is_shown_best_first_whatever_its_length():
    long = remembered("long", words=60, relevance=0.8)
    assert chosen([long, remembered("short", words=5, relevance=0.7)], 400) == ["long", "short"]

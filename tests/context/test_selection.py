"""Choosing among memories that passed every filter, when not all of them fit."""

import re
from collections import Counter

import pytest

from context.engine.assembly import SearchedSection, VerdictCode, assemble
from tests.context.engine_inputs import candidate, resolved_request


def remembered(name, *, words, relevance):
    return candidate(name, f"{name} " + "word " * words, relevance)


def chosen(candidates, budget):
    result = assemble(
        [],
        [SearchedSection("facts", "Relevant Facts", budget)],
        candidates,
        resolved_request(total=budget, limits={"fact": 50}, weights={"global": 1.0}),
    )
    shown = [item.id for section in result.sections for item in section.items]
    assert set(shown) == {v.candidate.hit.id for v in result.verdicts if v.code == VerdictCode.INCLUDED}
    return shown


def test_selection_prefers_several_short_memories_to_a_long_similar_one():
    short = [remembered(f"short-{place}", words=10, relevance=0.7) for place in range(4)]
    assert chosen([remembered("long", words=60, relevance=0.8), *short], 80) == [one.hit.id for one in short]


def test_selection_keeps_a_long_memory_that_is_far_better():
    short = [remembered(f"short-{place}", words=10, relevance=0.3) for place in range(4)]
    assert chosen([remembered("long", words=60, relevance=0.95), *short], 90)[0] == "long"


def test_selection_shows_best_first_whatever_the_length():
    long = remembered("long", words=60, relevance=0.8)
    assert chosen([long, remembered("short", words=5, relevance=0.7)], 400) == ["long", "short"]


def scoped(scope, number, relevance):
    return candidate(f"{scope}-{number}", f"{scope} {number} " + "word " * 10, relevance, scope=scope)


def scopes_included(weights, found, budget=300, **more):
    result = assemble(
        [],
        [SearchedSection("facts", "Relevant Facts", budget)],
        found,
        resolved_request(total=budget, limits={"fact": 99}, weights=weights, **more),
    )
    return Counter(item.id.split("-")[0] for section in result.sections for item in section.items)


CROWD = [scoped(scope, number, 0.9 - place / 10) for place, scope in enumerate(("task", "project", "global"))
         for number in range(30)]  # fmt: skip


def test_selection_weights_allot_the_budget_to_task_project_and_global():
    """Each has more to tell than its share holds, and the better ones of one scope do not take another's share."""
    knight = scopes_included({"task": 0.5, "project": 0.3, "global": 0.2}, CROWD)
    royalty = scopes_included({"task": 0.2, "project": 0.5, "global": 0.3}, CROWD)
    assert min(knight.total(), royalty.total()) >= 18
    for told, shares in ((knight, (0.5, 0.3, 0.2)), (royalty, (0.2, 0.5, 0.3))):
        for scope, share in zip(("task", "project", "global"), shares, strict=True):
            assert abs(told[scope] - share * told.total()) <= 2, (told, shares)


def test_selection_unused_share_goes_to_other_scopes():
    alone = [one for one in CROWD if one.hit.scope == "project"]
    assert scopes_included({"task": 0.8, "project": 0.1, "global": 0.1}, alone)["project"] >= 18


def test_selection_head_ignores_the_shares():
    told = scopes_included({"task": 0.0, "project": 1.0, "global": 0.0}, CROWD, head=3)
    assert told["task"] == 3


LONG = (
    "The export ran at noon. Nobody watched it. The ledger export failed because the replica lagged behind. "
    "Tea was served afterwards. The sky was grey and the office quiet. Ann went home early."
)


def shortened(compression, section=40, total=40):
    result = assemble(
        [],
        [SearchedSection("facts", "Relevant Facts", section)],
        [candidate("long", LONG, 0.9)],
        resolved_request("Why did the ledger export fail?", total=total, limits={"fact": 5}, compression=compression),
    )
    return result, result.verdicts[0]


def test_selection_shortens_to_the_most_relevant_sentences():
    result, verdict = shortened(0.7)
    assert (verdict.code, verdict.compressed) == (VerdictCode.INCLUDED, True)
    assert "The ledger export failed because the replica lagged behind." in result.system_prompt
    shown = result.sections[0].items[0].text.removeprefix("- ")
    assert all(part.strip() in LONG for part in shown.split("…"))
    assert result.compression_ratio < 1
    # The original is where it was: the verdict holds it whole, and the item leads to the memory by its id.
    assert verdict.candidate.hit.content == LONG
    assert (result.sections[0].items[0].type, result.sections[0].items[0].id) == ("fact", "long")


def test_selection_shortens_no_further_than_the_profile_allows():
    for compression in (0.0, 0.1):
        result, verdict = shortened(compression)
        assert (verdict.code, verdict.compressed) == (VerdictCode.OVER_BUDGET, False)
        assert result.sections == ()
        assert "more for Relevant Facts" in verdict.hint


@pytest.mark.parametrize(("section", "total"), [(20, 500), (500, 20), (30, 25), (49, 50), (1, 1)])
def test_selection_hint_of_tokens_is_exact(section, total):
    verdict = shortened(0.0, section, total)[1]
    of_section = re.search(r"(\d+) tokens? more for Relevant Facts", verdict.hint)
    of_prompt = re.search(r"(\d+) tokens? more for the whole prompt", verdict.hint)
    assert bool(of_section) == (section < 50)
    assert bool(of_prompt) == (total <= 50)
    enough = [
        had + (int(found[1]) if found else 0) for had, found in ((section, of_section), (total, of_prompt))
    ]  # fmt: skip
    assert shortened(0.0, *enough)[1].code == VerdictCode.INCLUDED
    for place, found in enumerate((of_section, of_prompt)):
        if found:
            short = [tokens - (where == place) for where, tokens in enumerate(enough)]
            assert shortened(0.0, *short)[1].code == VerdictCode.OVER_BUDGET

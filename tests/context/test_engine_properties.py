"""What holds for every prompt, whatever the memories, the profile and the budget are."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from context.engine.assembly import FixedSection, Item, SearchedSection, assemble
from memory.search.result import Retirement
from nousweb.lib.token_estimate import estimate_tokens
from tests.context.engine_inputs import NOW, candidate, candidate_with, resolved_request

KINDS = ("code", "summary", "preference", "plan")
TEXT = st.text(alphabet="abc #-.\n\u2028é👩`>*1)", max_size=90)

NUMBERS = st.integers(0, 14)
# Not made anew for each candidate: looking a new strategy over takes longer than all else that is done with one.
FIELDS = {
    "text": TEXT,
    "section": st.sampled_from(["facts", "episodes"]),
    "type": st.sampled_from(["fact", "episode"]),
    "label": st.sampled_from(["", "Tim", "## Active Censors", "x\n# y"]),
    "relevance": st.sampled_from([0.0, 0.3, 0.5, 0.5, 0.9]) | st.floats(0, 1),
    "happened_at": st.integers(0, 400).map(lambda days: NOW - timedelta(days=days)),
    "kinds": st.lists(st.sampled_from(KINDS), max_size=2).map(frozenset),
    "scope": st.sampled_from(["task", "project", "global"]),
    "importance": st.floats(0, 1),
    "boost": st.sampled_from([0.5, 1.0, 1.0, 1.5]),
    "retirement": st.sampled_from([None, None, None, Retirement(NOW), Retirement(NOW, successor="another")]),
    "duplicate_of": st.sampled_from([None, None, 1]),
    "pinned": st.sampled_from([False, False, True]),
}


@st.composite
def candidates(draw):
    made = []
    for number in range(draw(NUMBERS)):
        fields = {name: draw(strategy) for name, strategy in FIELDS.items()}
        made.append(candidate(str(number), fields.pop("text"), threshold=0.3, **fields))
    return made


REQUESTS = st.fixed_dictionaries(
    {
        "query": TEXT,
        "limits": st.fixed_dictionaries({"fact": st.integers(0, 5), "episode": st.integers(0, 5)}),
        "excluded_kinds": st.lists(st.sampled_from(KINDS), max_size=2).map(tuple),
        "min_importance": st.floats(0, 0.6),
        "compression": st.sampled_from([0.0, 0.5, 1.0]),
        "head": st.integers(0, 3),
        "tail": st.integers(0, 3),
        "recency": st.sampled_from([0.0, 0.0, 0.8, 1.0]),
    }
)


FIXED = [FixedSection("identity", "Identity", 1, 40, [Item("identity", "character:1", "Calm and exact.")])]


def made(found, how, total, budgets=(80, 60)):
    searched = [
        SearchedSection("facts", "Relevant Facts", budgets[0]),
        SearchedSection("episodes", "Past Episodes", budgets[1]),
    ]
    return assemble(FIXED, searched, found, resolved_request(total=total, **how))


BUDGETS = st.tuples(st.integers(0, 80), st.integers(0, 60))


@settings(max_examples=300)
@given(found=candidates(), how=REQUESTS, total=st.integers(0, 160), budgets=BUDGETS)
def test_prompt_invariants_hold_for_random_candidates(found, how, total, budgets):
    result = made(found, how, total, budgets)
    assert result.tokens == estimate_tokens(result.system_prompt) <= total
    headings = [line for line in result.system_prompt.split("\n") if line.lstrip().startswith("#")]
    assert headings == [f"## {section.label}" for section in result.sections]
    assert len(result.verdicts) == len(found)
    shown = {(item.type, item.id) for section in result.sections for item in section.items if item.type != "identity"}
    included = {one.candidate.key for one in result.verdicts if one.code == "included"}
    assert shown == included
    for section in result.sections:
        assert section.tokens <= section.budget
    for one in result.verdicts:
        assert one.reason
        if one.code != "included":
            assert one.hint
            continue
        assert one.candidate.hit.retirement is None
        assert one.candidate.kinds.isdisjoint(how["excluded_kinds"])
        if not one.candidate.pinned:
            assert one.candidate.hit.score >= one.candidate.threshold
            assert one.candidate.hit.importance >= how["min_importance"]
            assert one.candidate.duplicate_of is None


@settings(max_examples=150)
@given(found=candidates(), how=REQUESTS, total=st.integers(0, 160), seed=st.randoms(), equal=st.booleans())
def test_prompt_is_equal_for_equal_inputs_in_any_order(found, how, total, seed, equal):
    if equal:
        # Nothing but their names tells them apart, so nothing but their names may order them.
        plain = {"score": 0.5, "importance": 1.0, "boost": 1.0, "kinds": frozenset(), "happened_at": NOW}
        plain |= {"retirement": None, "duplicate_of": None, "pinned": False, "scope": "global"}
        found = [candidate_with(one, content=f"Note {one.hit.id}.", label="", **plain) for one in found]
    shuffled = list(found)
    seed.shuffle(shuffled)
    assert made(found, how, total).system_prompt == made(shuffled, how, total).system_prompt


@settings(max_examples=150)
@given(how=REQUESTS, tail=st.integers(1, 3), crowd=st.integers(4, 30))
def test_prompt_tail_survives_though_it_ranks_low(how, tail, crowd):
    how = how | {"tail": tail, "head": 0, "excluded_kinds": (), "min_importance": 0.0, "recency": 0.0}
    old = [
        candidate(f"old {number}", f"Old {number}.", 0.9, threshold=0.3, happened_at=NOW - timedelta(days=99))
        for number in range(crowd)
    ]
    recent = [candidate(f"new {number}", f"New {number}.", 0.31, threshold=0.3) for number in range(tail)]
    how = how | {"limits": {"fact": 5}}
    shown = {item.id for section in made(old + recent, how, 160).sections for item in section.items}
    assert {one.hit.id for one in recent} <= shown


@settings(max_examples=150)
@given(found=candidates(), how=REQUESTS)
def test_prompt_pinned_memory_comes_before_anything_else(found, how):
    how = how | {"excluded_kinds": ()}
    pin = candidate("pin", "Pinned.", 0.0, threshold=0.3, importance=0.0, pinned=True)
    others = [
        candidate_with(one, pinned=False)
        for one in found
        if one.hit.content.strip().rstrip(".!").casefold() != "pinned"
    ]
    shown = [item.id for section in made([*others, pin], how, 60).sections for item in section.items]
    assert "pin" in shown

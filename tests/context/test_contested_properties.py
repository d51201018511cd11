"""What holds for contested facts in every prompt, whatever contests what, the policy and the budget are."""

from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType

from hypothesis import given, settings
from hypothesis import strategies as st

from context.engine.analysis.profiles import ContestedOrder, ContestedPolicy
from context.engine.assembly import ContestedCandidate, FixedSection, Item, SearchedSection, assemble, list_item
from tests.context.engine_inputs import NOW, candidate, resolved_request

ORDERS = list(ContestedOrder)
# Not made anew for each fact: looking a new strategy over takes longer than all else that is done with one.
KEYS = [str(number) for number in range(7)]
PAIRS = [st.lists(st.tuples(st.sampled_from(KEYS[:most]), st.sampled_from(KEYS[:most]))) for most in range(1, 8)]
RARELY = st.sampled_from([False, False, True])
OTHER_CATEGORIES = st.sampled_from(["technical", "concept"])
SCORES = st.sampled_from([0.1, 0.3, 0.5, 0.9])


@st.composite
def memories(draw):
    """Facts, which of them contest each other, which were found and how well, and which are core memory."""
    keys = KEYS[: draw(st.integers(1, 7))]
    pairs = {frozenset(pair) for pair in draw(PAIRS[len(keys) - 1])}
    pairs = {pair for pair in pairs if len(pair) == 2}
    opposed = {pair for pair in pairs if draw(st.booleans())}
    facts, found, core = [], [], []
    for key in keys:
        is_core = draw(RARELY)
        fact = candidate(
            key,
            f"Fact {key} " + "word " * draw(st.integers(0, 12)),
            relevance=0.0,
            category="preference" if is_core else draw(OTHER_CATEGORIES),
            recorded_at=NOW + timedelta(days=draw(st.integers(-3, 0))),
        )
        contested = ContestedCandidate(
            fact,
            frozenset(other for pair in pairs if key in pair for other in pair - {key}),
            NOW + timedelta(days=draw(st.integers(-3, 0))),
            endorsed=draw(RARELY),
            opposed=frozenset(other for pair in opposed if key in pair for other in pair - {key}),
            core_priority=draw(st.integers(0, 3)),
        )
        facts.append(contested)
        if is_core and draw(st.booleans()):
            core.append(Item("fact", key, list_item(fact.hit.content), contested.core_priority))
        elif not is_core and draw(st.booleans()):
            scored = replace(fact.hit, score=draw(SCORES))
            found.append(replace(fact, hit=scored, pinned=draw(RARELY)))
    return facts, found, core


POLICIES = st.builds(
    ContestedPolicy,
    st.sampled_from(ORDERS),
    st.dictionaries(st.sampled_from(["technical", "preference"]), st.sampled_from(ORDERS)).map(MappingProxyType),
)


def shown_by(given_memories, policy, budgets=(300, 200), total=3_000, limit=5, **how):
    facts, found, core = given_memories
    resolved = replace(resolved_request(limits={"fact": limit}, total=total, **how), contested=policy)
    fixed = [FixedSection("user_profile", "User Profile", 1, budgets[1], core)]
    searched = [SearchedSection("facts", "Relevant Facts", budgets[0])]
    result = assemble(fixed, searched, found, resolved, [one for one in facts if one.partners])
    return result, [item for section in result.sections for item in section.items]


def passing(found, core):
    """Ids of the facts that pass the filters by themselves, and of core memory."""
    return {one.hit.id for one in found if one.pinned or one.hit.score >= one.threshold} | {item.id for item in core}


def rank(one):
    return one.endorsed, one.since, one.candidate.hit.recorded_at, one.id


@settings(max_examples=400)
@given(
    memories(),
    POLICIES,
    st.tuples(st.integers(0, 120), st.integers(0, 120)),
    st.integers(0, 200),
    st.integers(0, 5),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from([0.0, 1.0]),
)
def test_contested_facts_are_never_told_as_equals(made, policy, budgets, total, limit, head, tail, compression):
    facts, found, core = made
    result, items = shown_by(made, policy, budgets, total, limit, head=head, tail=tail, compression=compression)
    assert result.tokens <= total
    by_id = {one.id: one for one in facts}
    place = {item.id: number for number, item in enumerate(items)}
    assert len(place) == len(items), "none stands there twice"
    orders = {policy.order, *policy.categories.values()}
    assert {*place} <= passing(found, core), "none that would not stand there by itself"
    for item in items:
        one = by_id[item.id]
        assert ("(contested" in item.text) == bool(one.partners)
        assert item.as_json().get("contested_with", []) == sorted(
            one.partners, key=lambda key: rank(by_id[key]), reverse=True
        )
        if not one.partners or ContestedOrder.BOTH in orders:
            continue
        leaders = [key for key in one.partners if rank(by_id[key]) > rank(one)]
        for key in leaders:
            apart = item.id in {one.id for one in core} and key in {one.hit.id for one in found}
            assert key not in place or apart or place[key] < place[item.id], "who leads stands above in its section"
    ids = [(verdict.candidate.hit.type, verdict.candidate.hit.id) for verdict in result.verdicts]
    assert len(ids) == len(set(ids))
    assert {one.key for one in found} <= set(ids), "each that was found has its verdict"


@settings(max_examples=200)
@given(memories(), st.sampled_from([ContestedOrder.NEWEST_FIRST, ContestedOrder.BOTH]))
def test_contested_facts_hide_none_where_there_is_room(made, order):
    _, found, core = made
    result, items = shown_by(made, ContestedPolicy(order), (3_000, 3_000), 9_000, 20)
    assert passing(found, core) == {item.id for item in items}
    shown = {item.id for item in items}
    core_ids = {item.id for item in core}
    contesting = {key for item in items for key in item.as_json().get("contested_with", [])}
    assert contesting - shown <= {one.candidate.hit.id for one in result.verdicts}, "the log says why one is not there"
    for item in items:
        newer = [one.id for one in made[0] if item.id in one.partners and one.age_key > by_age(made, item.id)]
        people = [one.id for one in made[0] if item.id in one.partners and one.endorsed]
        # What was found changes no mark of core memory.
        beside = core_ids if item.id in core_ids else shown
        assert ("a newer value is under review" in item.text) <= bool(newer and beside.isdisjoint(newer))
        assert ("people's word is left out" in item.text) <= bool(people and shown.isdisjoint(people))
        assert ("people say otherwise" in item.text) <= bool(people and core_ids.isdisjoint(people))


def by_age(made, key):
    return next(one.age_key for one in made[0] if one.id == key)


@settings(max_examples=200)
@given(memories(), st.integers(0, 4))
def test_limit_of_facts_admits_the_preferred_ones_and_as_many_as_without_a_contest(made, limit):
    facts, found, _ = made
    found = [replace(one, pinned=False) for one in found]
    _, items = shown_by((facts, found, []), ContestedPolicy(), (3_000, 3_000), 9_000, limit)
    _, plain = shown_by(([], found, []), ContestedPolicy(), (3_000, 3_000), 9_000, limit)
    assert len(items) == len(plain)
    shown, by_id = {item.id for item in items}, {one.id: one for one in facts}
    for key in shown:
        better = {other for other in by_id[key].partners & passing(found, []) if rank(by_id[other]) > rank(by_id[key])}
        assert better <= shown, "none is hidden by a less preferred one"


@settings(max_examples=200)
@given(memories())
def test_contested_policy_newest_only_hides_only_what_is_led_by_what_it_opposes(made):
    facts, found, core = made
    present = passing(found, core)
    _, all_items = shown_by(made, ContestedPolicy(), (3_000, 3_000), 9_000, 20)
    _, items = shown_by(made, ContestedPolicy(ContestedOrder.NEWEST_ONLY), (3_000, 3_000), 9_000, 20)
    by_id = {one.id: one for one in facts}
    shown = {item.id for item in items}
    for item in all_items:
        one = by_id[item.id]
        if item.id not in shown and item.id in present:
            assert any(rank(by_id[key]) > rank(one) for key in one.opposed)
    for key in shown:
        beside = {item.id for item in core} if key in {item.id for item in core} else shown
        assert not any(rank(by_id[other]) > rank(by_id[key]) for other in by_id[key].opposed & shown & beside)


@settings(max_examples=100)
@given(memories(), POLICIES, st.tuples(st.integers(0, 120), st.integers(0, 120)))
def test_contested_facts_without_a_question_make_the_usual_prompt(made, policy, budgets):
    facts, found, core = made
    settled = [replace(one, partners=frozenset(), opposed=frozenset()) for one in facts]
    result, _ = shown_by((settled, found, core), policy, budgets)
    plain, _ = shown_by(([], found, core), ContestedPolicy(), budgets)
    assert result.system_prompt == plain.system_prompt


def test_contested_older_stands_directly_below_the_newer():
    facts = [
        ContestedCandidate(candidate("a", "Old."), frozenset({"c"}), NOW - timedelta(days=9)),
        ContestedCandidate(candidate("c", "New."), frozenset({"a"}), NOW - timedelta(days=1)),
    ]
    found = [
        candidate("a", "Old.", 0.9),
        candidate("b", "Another fact.", 0.8),
        candidate("c", "New.", 0.3),
    ]
    _, items = shown_by((facts, found, []), ContestedPolicy())
    assert [item.id for item in items] == ["c", "a", "b"]


def test_fact_that_contests_core_memory_is_found_like_any_other():
    core = ContestedCandidate(candidate("a", "Old.", category="preference"), frozenset({"c"}), NOW - timedelta(days=9))
    facts = [core, ContestedCandidate(candidate("c", "New."), frozenset({"a"}), NOW)]
    found = [candidate("b", "Another fact.", 0.8), candidate("c", "New.", 0.3)]
    for limit, expected in ((1, ["a", "b"]), (2, ["a", "b", "c"])):
        result, items = shown_by((facts, found, [Item("fact", "a", "- Old.")]), ContestedPolicy(), limit=limit)
        assert [item.id for item in items] == expected
        verdict = next(one for one in result.verdicts if one.candidate.hit.id == "c")
        assert verdict.code == ("over_limit" if limit == 1 else "included")

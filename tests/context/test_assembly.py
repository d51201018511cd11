"""Assembly of the sections that are always on, as a pure function: budgets, order, and what is listed is shown."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.engine import assembly
from context.engine.assembly import Assembly, FixedSection, Item, list_item
from nousweb.lib.prompt_escaping import fence_block, fence_line
from nousweb.lib.token_estimate import estimate_tokens
from tests.context.engine_inputs import resolved_request

WORDS = st.text(alphabet="abc #-.\n\u2003é👩`", max_size=120)


def fixed(label, budget, items, divisible=False, separator="\n", **more):
    return FixedSection(label.lower(), label, 1, budget, items, divisible=divisible, separator=separator, **more)


def assemble(sections: list[FixedSection], total_budget: int) -> Assembly:
    return assembly.assemble(sections, [], [], resolved_request(total=total_budget))


@st.composite
def fixed_sections(draw):
    made = []
    for number in range(draw(st.integers(0, 4))):
        divisible = draw(st.booleans())
        texts = draw(st.lists(WORDS, max_size=6))
        items = [
            Item(
                "piece",
                f"{number}.{place}",
                f"### Piece\n{fence_block(text, level=3)}" if divisible else f"- {fence_line(text)}",
                draw(st.integers(0, 2)),
            )
            for place, text in enumerate(texts)
        ]
        separator = "\n\n" if divisible else "\n"
        made.append(fixed(f"Label {number}", draw(st.integers(-1, 60)), items, divisible, separator))
    return made


@settings(max_examples=400)
@given(given_sections=fixed_sections(), total=st.integers(-1, 120))
def test_assembly_keeps_every_budget_and_lists_what_it_shows(given_sections, total):
    result = assemble(given_sections, total_budget=total)
    assert result.tokens == estimate_tokens(result.system_prompt)
    assert result.tokens <= max(total, 0)
    by_label = {candidate.label: candidate for candidate in given_sections}
    labels = [section.label for section in result.sections]
    assert labels == [candidate.label for candidate in given_sections if candidate.label in labels], "order is fixed"
    assert result.system_prompt == "\n\n".join(section.text for section in result.sections)
    headings = [line for line in result.system_prompt.split("\n") if line.startswith(("# ", "## "))]
    assert headings == [f"## {label}" for label in labels]
    for section in result.sections:
        candidate = by_label[section.label]
        assert section.tokens == estimate_tokens(section.text)
        if section.tokens > candidate.budget:
            assert any(item.priority <= candidate.growth for item in candidate.items), "nothing else may grow"
        assert section.items
        shown = candidate.separator.join(item.text for item in section.items)
        assert section.text == f"## {section.label}\n{shown}"
        offered = {item.id: item.text for item in candidate.items}
        places = [list(offered).index(item.id) for item in section.items]
        assert places == sorted(set(places)), "each at most once, in its own order"
        cut = [item for item in section.items if item.text != offered[item.id]]
        assert len(cut) <= (1 if candidate.divisible else 0)
        assert section.truncated == bool(cut or len(section.items) < len(candidate.items))
    told = {one.label: one for one in result.truncations}
    for candidate in given_sections:
        sent = next((section for section in result.sections if section.label == candidate.label), None)
        whole = sent is not None and [item.text for item in sent.items] == [item.text for item in candidate.items]
        assert (candidate.label in told) == bool(candidate.items and not whole), "what is left out is named"
        if one := told.get(candidate.label):
            assert one.tokens == (sent.tokens if sent else 0)
            assert one.tokens_left_out == max(1, one.tokens_whole - one.tokens)
            shown = {item.id: item.text for item in sent.items} if sent else {}
            assert [left.id for left in one.left_out] == [
                item.id for item in candidate.items if shown.get(item.id) != item.text
            ]


def growing(draw, label, tier, *, binding, growth):
    texts = draw(st.lists(WORDS, min_size=1, max_size=6))
    items = [Item("piece", f"{label} {place}", f"- {fence_line(text)}", draw(st.integers(0, 3)))
             for place, text in enumerate(texts)]  # fmt: skip
    return FixedSection(label.lower(), label, tier, draw(st.integers(1, 40)), items, growth=growth, binding=binding)


@st.composite
def prompts(draw):
    """An identity, what else people decided, and the session."""
    texts = draw(st.lists(WORDS, min_size=1, max_size=5))
    pieces = [Item("identity", f"{place}", f"### Piece\n{fence_block(text, level=3)}", place)
              for place, text in enumerate(texts)]  # fmt: skip
    identity = FixedSection(
        "identity", "Identity", 1, draw(st.integers(1, 60)), pieces, divisible=True, separator="\n\n", binding=0
    )
    return [
        identity,
        growing(draw, "Profile", 1, binding=0, growth=1),
        growing(draw, "Session", 2, binding=-1, growth=9),
    ]


def length_of(section, priority=9):
    texts = [item.text for item in section.items if item.priority <= priority]
    return len(f"## {section.label}\n") + len(section.separator.join(texts)) if texts else 0


def sent_of(result, section):
    return next((one for one in result.sections if one.key == section.key), None)


def tokens_of(result, section):
    found = sent_of(result, section)
    return found.tokens if found else 0


@settings(max_examples=400)
@given(given_sections=prompts(), total=st.integers(0, 500))
def test_identity_is_whole_whenever_it_fits_beside_what_others_are_promised(given_sections, total):
    identity, profile, session = given_sections
    result = assemble(given_sections, total_budget=total)
    assert result.tokens <= total
    # What is guaranteed to the session stays free, so that the identity is the same for every question.
    promised = [min(4 * profile.budget, length_of(profile)), 4 * session.budget]
    # Rules of people come before the rest of an identity.
    promised[0] = max(promised[0], length_of(profile, 0))
    if length_of(identity) + sum(promised) + 6 <= 4 * total:
        sent = sent_of(result, identity)
        assert sent is not None
        assert [item.text for item in sent.items] == [item.text for item in identity.items]
        assert not sent.truncated


@settings(max_examples=400)
@given(given_sections=prompts(), total=st.integers(0, 400), more=st.integers(0, 200))
def test_identity_of_a_larger_total_is_never_smaller(given_sections, total, more):
    identity = given_sections[0]
    small, large = (assemble(given_sections, total_budget=size) for size in (total, total + more))
    assert tokens_of(small, identity) <= tokens_of(large, identity)


@settings(max_examples=300)
@given(given_sections=prompts(), total=st.integers(0, 500))
def test_words_of_agents_have_no_more_than_the_budget(given_sections, total):
    _, profile, _ = given_sections
    sent = sent_of(assemble(given_sections, total_budget=total), profile)
    agents = {item.id for item in profile.items if item.priority > profile.growth}
    if sent is not None and agents & {item.id for item in sent.items}:
        assert sent.tokens <= profile.budget


def test_boundaries_come_first_when_the_total_is_too_small():
    pieces = [Item("identity", name, f"### {name}\n{name} text {'x' * 200}.", place)
              for name, place in (("Character", 1), ("Boundaries", 0))]  # fmt: skip
    identity = FixedSection("identity", "Identity", 1, 20, pieces, divisible=True, separator="\n\n", binding=0)
    result = assemble([identity], 70)
    assert result.sections[0].items[-1].text == pieces[1].text
    assert [one.id for one in result.truncations[0].left_out] == ["Character"]


def test_closed_section_stays_closed_and_is_named():
    result = assemble([fixed("Identity", 0, [Item("identity", "a", "### A\nText.")])], 500)
    assert result.sections == ()
    assert [(one.key, one.tokens, one.tokens_left_out) for one in result.truncations] == [("identity", 0, 6)]


def test_assembly_of_nothing_is_empty():
    assert assemble([], total_budget=100).system_prompt == ""
    assert assemble([fixed("Facts", 100, [])], total_budget=100).sections == ()


def test_section_too_long_ends_within_its_budget():
    items = [Item("identity", "character:1", "### Character\n" + "word " * 20_000)]
    section = assemble([fixed("Identity", 100, items, divisible=True, growth=-1)], total_budget=3000).sections[0]
    assert section.tokens <= 100
    assert section.truncated


def test_total_budget_holds_whatever_sections_add_up_to():
    facts = [Item("fact", str(number), f"- fact number {number}") for number in range(100)]
    made = [fixed(f"Label {number}", 200, facts, growth=-1) for number in range(5)]
    result = assemble(made, total_budget=450)
    assert 400 < result.tokens <= 450
    assert [section.label for section in result.sections] == ["Label 0", "Label 1", "Label 2"]


def test_small_item_fits_behind_one_that_is_too_large():
    items = [Item("fact", "large", "- " + "x" * 400), Item("fact", "small", "- tea")]
    section = assemble([fixed("Facts", 20, items, growth=-1)], total_budget=100).sections[0]
    assert [item.id for item in section.items] == ["small"]
    assert section.truncated


def test_important_items_are_chosen_first_and_shown_in_their_place():
    items = [Item("a", "first", "- " + "x" * 30, 2), Item("a", "second", "- " + "y" * 30, 1)]
    section = assemble([fixed("Facts", 12, items, growth=-1)], total_budget=100).sections[0]
    assert [item.id for item in section.items] == ["second"]


def test_code_block_cut_open_does_not_swallow_the_next_section():
    code = Item("identity", "protocols:1", "### Protocols\n```py\n" + "x = 1\n" * 200 + "```")
    identity = fixed("Identity", 60, [code], divisible=True, growth=-1)
    result = assemble([identity, fixed("User Profile", 50, [Item("fact", "1", "- tea")])], total_budget=500)
    assert result.sections[0].truncated
    assert result.sections[0].text.count("```") == 2
    assert [section.label for section in result.sections] == ["Identity", "User Profile"]


@pytest.mark.parametrize(
    ("text", "label", "line"),
    [
        ("Lives in Berlin.", "Tim", "- [Tim] Lives in Berlin."),
        ("Tim lives in Berlin.", "Tim", "- [Tim] Tim lives in Berlin."),
        ("Timothy lives in Berlin.", "Tim", "- [Tim] Timothy lives in Berlin."),
        ("The train was late.", "", "- The train was late."),
    ],
)
def test_list_item_begins_with_its_label(text, label, line):
    assert list_item(text, label) == line

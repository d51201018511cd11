"""Assembly of the sections that are always on, as a pure function: budgets, order, and what is listed is shown."""

from hypothesis import given, settings
from hypothesis import strategies as st

from context.engine import assembly
from context.engine.assembly import Assembly, FixedSection, Item
from nousweb.lib.fencing import fence_block, fence_line
from nousweb.lib.token_estimate import estimate_tokens
from tests.context.engine_inputs import resolved_request

WORDS = st.text(alphabet="abc #-.\n\u2003é👩`", max_size=120)


def fixed(label, budget, items, divisible=False, separator="\n"):
    return FixedSection(label.lower(), label, 1, budget, items, divisible=divisible, separator=separator)


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
        assert section.tokens == estimate_tokens(section.text) <= candidate.budget
        assert section.items
        shown = candidate.separator.join(item.text for item in section.items)
        assert section.text == f"## {section.label}\n{shown}"
        offered = {item.id: item.text for item in candidate.items}
        places = [list(offered).index(item.id) for item in section.items]
        assert places == sorted(set(places)), "each at most once, in its own order"
        cut = [item for item in section.items if item.text != offered[item.id]]
        assert len(cut) <= (1 if candidate.divisible else 0)
        assert section.truncated == bool(cut or len(section.items) < len(candidate.items))


def test_assembly_of_nothing_is_empty():
    assert assemble([], total_budget=100).system_prompt == ""
    assert assemble([fixed("Facts", 100, [])], total_budget=100).sections == ()


def test_section_too_long_ends_within_its_budget():
    items = [Item("identity", "character:1", "### Character\n" + "word " * 20_000)]
    section = assemble([fixed("Identity", 100, items, divisible=True)], total_budget=3000).sections[0]
    assert section.tokens <= 100
    assert section.truncated


def test_total_budget_holds_whatever_sections_add_up_to():
    facts = [Item("fact", str(number), f"- fact number {number}") for number in range(100)]
    made = [fixed(f"Label {number}", 200, facts) for number in range(5)]
    result = assemble(made, total_budget=450)
    assert 400 < result.tokens <= 450
    assert [section.label for section in result.sections] == ["Label 0", "Label 1", "Label 2"]


def test_small_item_fits_behind_one_that_is_too_large():
    items = [Item("fact", "large", "- " + "x" * 400), Item("fact", "small", "- tea")]
    section = assemble([fixed("Facts", 20, items)], total_budget=100).sections[0]
    assert [item.id for item in section.items] == ["small"]
    assert section.truncated


def test_important_items_are_chosen_first_and_shown_in_their_place():
    items = [Item("a", "first", "- " + "x" * 30, 2), Item("a", "second", "- " + "y" * 30, 1)]
    section = assemble([fixed("Facts", 12, items)], total_budget=100).sections[0]
    assert [item.id for item in section.items] == ["second"]


def test_code_block_cut_open_does_not_swallow_the_next_section():
    code = Item("identity", "protocols:1", "### Protocols\n```py\n" + "x = 1\n" * 200 + "```")
    identity = fixed("Identity", 60, [code], divisible=True)
    result = assemble([identity, fixed("User Profile", 50, [Item("fact", "1", "- tea")])], total_budget=500)
    assert result.sections[0].truncated
    assert result.sections[0].text.count("```") == 2
    assert [section.label for section in result.sections] == ["Identity", "User Profile"]

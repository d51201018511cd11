"""How sections become a prompt."""

import pytest

from identity.policy.sections import Section, assemble_prompt
from nousweb.lib.errors import Invalid


@pytest.mark.parametrize("sections", [{}, {"character": ""}, {"values": " \n\t", "protocols": ""}])
def test_prompt_of_no_text_is_empty(sections):
    assert assemble_prompt(sections) == ""


def test_prompt_order_is_fixed_without_empty_sections():
    sections = {name: f"Text of {name}." for name in reversed(Section.values)} | {"values": "  "}
    assert assemble_prompt(sections) == (
        "## Character\nText of character.\n\n"
        "## Protocols\nText of protocols.\n\n"
        "## Preferences\nText of preferences.\n\n"
        "## Boundaries\nText of boundaries.\n\n"
        "## Environment\nText of environment."
    )


@pytest.mark.parametrize("name", ["user_profile", "", "Character", "CHARACTER", "character "])
def test_prompt_of_an_unknown_section_is_refused_by_name(name):
    with pytest.raises(Invalid) as refused:
        assemble_prompt({"character": "x", name: "y"})
    assert repr(name) in refused.value.detail
    assert refused.value.field == "section"


def test_prompt_level_is_chosen():
    assert assemble_prompt({"values": "Truth.\n### Why\nIt holds."}, level=3) == (
        "### Values\nTruth.\n#### Why\nIt holds."
    )

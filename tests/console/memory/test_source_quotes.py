"""Evidence is the source's own words: the sentence that says it, marked in what stands around it."""

import pytest

from memory.models import Event, Fact
from nousweb.console.templatetags.console import source_quote

TOLD = "Good morning! I moved my office to Lisbon last week. The coffee there is better.\nAnyway, about the bill."


def quote(content: str, told: str = TOLD) -> tuple[str, str, str] | None:
    found = source_quote(Fact(content=content, source_event=Event(content=told)))
    return (found["before"], found["said"], found["after"]) if found else None


def test_sentence_that_says_it_is_marked_where_it_stands() -> None:
    found = quote("Works from an office in Lisbon.")
    assert found is not None
    assert found[1] == "I moved my office to Lisbon last week."
    assert "".join(found) == TOLD


def test_long_source_is_cut_around_the_sentence() -> None:
    found = quote("The office is in Lisbon.", "word " * 200 + "end. " + TOLD + " filler" * 200)
    assert found is not None
    assert found[0].startswith("…")
    assert found[2].endswith("…")
    assert "Lisbon" in found[1]
    assert len("".join(found)) < 450


def test_fact_of_words_without_content_is_found_by_them() -> None:
    found = quote("She is you.", "Look at the picture. She is you, twenty years ago. He is not.")
    assert found is not None
    assert found[1] == "She is you, twenty years ago."
    assert quote("She is you.", "Look at the picture.") is None


@pytest.mark.parametrize("told", ["Nothing alike.", ""])
def test_source_that_shares_no_word_is_no_evidence(told: str) -> None:
    assert quote("Lives near harbour.", told) is None
    assert source_quote(Fact(content="Lives near harbour.")) is None

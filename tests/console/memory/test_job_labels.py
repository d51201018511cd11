"""Background jobs in words: each has a name in words, and its result is a line of words."""

from memory.lifecycle.handlers import handlers
from memory.lifecycle.job_words import HANDLER_LABELS, handler_label, result_text


def test_handler_labels_cover_every_handler():
    assert set(handlers()) == set(HANDLER_LABELS)


def test_handler_label_of_an_unknown_handler_has_no_underscores():
    assert handler_label("of_an_old_version") == "Of an old version"


def test_result_text_names_counts_and_outcomes_in_words():
    assert result_text({"action": "queued", "superseded": 0, "asked": 2}) == "stored, review opened, 2 reviews opened"
    assert result_text({"superseded": 0, "asked": []}) == "0 replaced, 0 reviews opened"
    assert result_text({"facts": {"stored": 2, "quarantined": 1}, "flagged": ["a", "b"]}) == (
        "facts: 2 stored, 1 quarantined, 2 flagged"
    )
    assert result_text({}) == ""

"""Background jobs on pages: each has a name in words, and its result is a line of words."""

from memory.lifecycle.handlers import handlers
from nousweb.console.memory.views.background_jobs import HANDLER_LABELS, handler_label, result_text


def test_handler_labels_cover_every_handler():
    assert set(handlers()) == set(HANDLER_LABELS)


def test_handler_label_of_an_unknown_handler_has_no_underscores():
    assert handler_label("of_an_old_version") == "Of an old version"


def test_result_text_names_counts_and_outcomes_in_words():
    assert result_text({"action": "queued", "superseded": 0, "asked": 2}) == "stored, review opened, reviews opened: 2"
    assert result_text({"superseded": 0, "asked": []}) == "superseded: 0, reviews opened: 0"
    assert result_text({"facts": {"stored": 2, "quarantined": 1}, "flagged": ["a", "b"]}) == (
        "facts: 2 stored, 1 quarantined, flagged: 2"
    )
    assert result_text({}) == ""

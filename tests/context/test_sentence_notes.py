"""What a memory says as still to come and the answer as done, or the other way: only where that is certain."""

import pytest

from context.feedback.sentence_notes import sentence_notes

NEXT = (
    "Finding: order_events holds 410 GB without partitions. Next step tonight (2026-11-28): extend the volume by"
    " 100 GB; this week: partition by month."
)
EXTENDED = "The volume was extended by 100 GB."


@pytest.mark.parametrize(
    ("memory", "answer", "kind"),
    [
        (NEXT, "Disk of orders-1 reached 91 %; the volume was extended by 100 GB.", "coming"),
        (
            "The ledger export is planned to move to the archive.",
            "The ledger export has moved to the archive.",
            "coming",
        ),
        ("Kim will extend the volume by 100 GB tomorrow.", "We have already extended the volume by 100 GB.", "coming"),
        ("Order events will be partitioned by month.", "Order events have been partitioned by month.", "coming"),
        ("Keller will replace the boiler of the cellar.", "Keller replaced the boiler of the cellar.", "coming"),
        (EXTENDED, "Next step: extend the volume by 100 GB.", "done"),
        (NEXT, "The volume will be extended by 100 GB.", ""),
        (NEXT, "The volume was not extended by 100 GB.", ""),
        (NEXT, "The volume should have been extended by 100 GB.", ""),
        (NEXT, "The volume of mail was extended by 100 GB.", ""),
        (f"{NEXT} {EXTENDED}", "The volume was extended by 100 GB, says the log.", ""),
        ("The volume may be extended by 100 GB.", EXTENDED, ""),
        ("If the disk fills up, we will extend the volume by 100 GB.", EXTENDED, ""),
        ("The volume will be extended by 100 GB whenever it is full.", EXTENDED, ""),
        ("Will moved the ledger export to the archive.", "The ledger export was moved to the archive.", ""),
        ("Deploys of checkout are planned for Friday.", "Deploys of checkout were planned for Friday.", ""),
        ("Kim plans to move to the Berlin office.", "Kim has planned to move to the Berlin office.", ""),
        ("The extended volume holds 100 GB.", "The volume will be extended by 100 GB.", ""),
    ],
)
def test_note_tells_what_is_done_from_what_is_still_to_come(memory: str, answer: str, kind: str) -> None:
    notes = sentence_notes(answer, {}, {1: memory})
    kinds = {note.kind for found in notes.values() for note in found}
    assert kind in kinds if kind else not kinds & {"coming", "done"}


@pytest.mark.parametrize(
    ("memory", "answer", "kind"),
    [
        (
            "Charlie restarted the worker of the export at noon.",
            "Kim restarted the worker of the export at noon.",
            "changed",
        ),
        ("Charlie restarted the worker of the export.", "Kim watched the worker of the export.", ""),
        ("The export has been slow for 4 days.", "The export has been slow for seven days.", "changed"),
        ("It was the 4th export of the ledger.", "It was the 5th export of the ledger.", "changed"),
        ("The export has been slow for 4 days.", "The export has been slow for four days.", "same"),
        ("The export has been slow for 2 hours.", "The export has been slow for 120 minutes.", ""),
        ("The ledger needs a dozen workers at noon.", "The ledger needs 12 workers at noon.", "same"),
        ("The ledger needs 24 workers at noon.", "The ledger needs two dozen workers at noon.", ""),
        ("The worker is currently writing the ledger.", "The worker is not currently writing the ledger.", "changed"),
        ("The worker is writing the ledger at noon.", "The worker does not write the export at noon.", ""),
        ("The worker of the export was restarted at noon.", "Kim restarted the worker of the export at noon.", ""),
        ("Bob is not on call this week.", "Bob was on call this week.", ""),
        ("The index of orders takes 2GB.", "The index of orders takes 2048MB.", ""),
        ("The project costs $5M.", "The project costs $5,000,000.", ""),
        ("The new index is 3x faster.", "The new index is three times faster.", ""),
        ("The export waits 90s for mail.", "The export waits 60s for mail.", "changed"),
        ("Alice prefers dark mode in the editor", "Alice prefers dark mode in the editor", "same"),
        ("- **Event A**: Drawing an Ace on the first draw.", "- **Event B**: Drawing an Ace on the first draw.", ""),
        ("### Step 1: Install Flask on the server", "### Step 1: Install Quart on the server", ""),
        ('render_template("login.html").', 'render_template("index.html").', ""),
        (
            f"Suppose a game of two dice. {'Each of them is thrown in turn. ' * 8}The chance of a six is 11 in 36.",
            "The chance of a six is 1 in 36.",
            "",
        ),
    ],
)
def test_note_tells_what_is_exchanged_or_denied_in_an_equal_statement(memory: str, answer: str, kind: str) -> None:
    assert [note.kind for found in sentence_notes(answer, {}, {1: memory}).values() for note in found] == [kind]


def test_note_tells_no_other_number_where_another_memory_has_it() -> None:
    memories = {1: "The export took 5 minutes.", 2: "Kim says that on Monday the export took 7 minutes at last."}
    notes = sentence_notes("The export took 7 minutes.", {}, memories)
    assert {note.kind for found in notes.values() for note in found} == {""}

"""The console's single-key shortcuts: one registry for buttons, script and help.

A key has one meaning on all pages. Templates name a shortcut and never write a key: `{% key "approve" %}` is on the
element that it presses, `{% kbd "approve" %}` where it is printed.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shortcut:
    """A key, named like `KeyboardEvent.key`, and its meaning wherever it exists."""

    key: str
    meaning: str


SHORTCUTS: dict[str, Shortcut] = {
    "next": Shortcut("j", "Next"),
    "previous": Shortcut("k", "Previous"),
    "open": Shortcut("Enter", "Open the selected item"),
    "select": Shortcut("x", "Tick the item"),
    "select_all": Shortcut("X", "Tick all on this page"),
    "help": Shortcut("?", "This help"),
    "search": Shortcut("/", "Search"),
    "palette": Shortcut("Ctrl K", "Search everything, or go anywhere"),
    "send": Shortcut("Ctrl Enter", "Send the form of the field"),
    "leave": Shortcut("Escape", "Leave the field"),
    "inbox": Shortcut("g", "Go to the inbox"),
    "start": Shortcut("w", "Start reviewing"),
    "approve": Shortcut("a", "Approve, or keep as it is"),
    "reject": Shortcut("r", "Reject, or revert an automatic change"),
    "undo": Shortcut("u", "Undo the last decision or change"),
    "decided": Shortcut("U", "Latest decisions, to undo one"),
    "held": Shortcut("H", "Reviews that are held back"),
    "comment": Shortcut("c", "Comment on the decision"),
    "edit": Shortcut("e", "Edit"),
    "past": Shortcut("T", "Choose a moment of the past"),
    "now": Shortcut("N", "Go back to now"),
    "layout": Shortcut("v", "Switch the layout of the difference"),
    "merge": Shortcut("m", "Merge into one"),
    "new": Shortcut("n", "Add"),
    "history": Shortcut("h", "History"),
    "inspect": Shortcut("o", "Open in the inspector"),
    "impact": Shortcut("b", "Show the impact"),
    "try": Shortcut("t", "Try it"),
    "run": Shortcut("q", "Run it again now"),
    "compare": Shortcut("d", "Show the difference"),
    "swap": Shortcut("f", "Swap the two sides"),
    "pin": Shortcut("p", "Pin, or remove the pin"),
    "copy": Shortcut("y", "Make a copy"),
    "close": Shortcut("z", "Close it"),
    "supersede": Shortcut("s", "Replace"),
    "split": Shortcut("l", "Split into two"),
    "restore": Shortcut("i", "Reactivate"),
    "discuss": Shortcut("C", "Comment for colleagues"),
    "mine": Shortcut("M", "Choose whose items are shown"),
    "assign": Shortcut("A", "Assign it"),
    "snooze": Shortcut("Z", "Snooze it"),
    "skip": Shortcut("S", "Skip it"),
    "opinion": Shortcut("O", "Ask for a second opinion"),
    "right": Shortcut("+", "State that it is right"),
    "wrong": Shortcut("-", "State that it is wrong"),
    **{key: Shortcut(key, f"Choose answer {key}") for key in "123456"},
}

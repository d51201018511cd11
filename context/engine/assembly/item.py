"""One line of a prompt, which is all that a memory can be there, with the mark of a contested fact."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Literal

from memory.models.project_scope import carried_keys
from nousweb.lib.fencing import fence_label, fence_line
from nousweb.lib.lookalikes import lookalike_fold
from nousweb.lib.token_estimate import estimate_tokens

_MARK_START = re.compile(r"[^\w\\]+(?:contested|people's word|an agent's word)\b", re.IGNORECASE)
"""How the mark of a contested fact begins, with which no text of a memory may."""
_LONGEST_START = 60


@dataclass(frozen=True, slots=True)
class Contest:
    """What a prompt says of a fact about which a question is open.

    `contested` is its age beside those that contest it, `contested_with` their ids, `mark` the words in its line. It is
    shown only when the fact with the id `beneath` is, if that is not empty. Facts of one `group` are shown together, by
    `rank`. `is_brought`: it is there only for those that it leads.
    """

    contested: Literal["newer", "older"]
    contested_with: tuple[str, ...]
    mark: str
    beneath: str = ""
    group: str = ""
    rank: int = 0
    is_brought: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of a section, already safe to stand in a prompt (see nousweb.lib.fencing).

    When a budget is short, items of a lower `priority` are chosen first; they are shown in their own order.
    """

    type: str
    id: str
    text: str
    priority: int = 0
    contest: Contest | None = None
    project: str = ""
    task: str = ""

    def as_json(self) -> dict[str, Any]:
        """The item as it is logged; with the keys that it carries, and of a contested fact with what contests it."""
        shown: dict[str, Any] = {"type": self.type, "id": self.id, "text": self.text}
        shown |= {"tokens": estimate_tokens(self.text), **carried_keys(self)}
        if self.contest is None:
            return shown
        return {**shown, "contested": self.contest.contested, "contested_with": list(self.contest.contested_with)}


def _reads_like_mark(line: str) -> bool:
    """Whether a line begins as a mark does, in whatever letters and brackets that look like its own."""
    start = lookalike_fold(unicodedata.normalize("NFKC", line[:_LONGEST_START])).replace("’", "'")
    return _MARK_START.match(start) is not None


def list_item(text: str, label: str = "", mark: str = "") -> str:
    """A memory as one line of a prompt, which it cannot leave; `label` says whom or when it is about.

    A line that begins with those words says so itself. `mark` is ours, in front of all, and no text can pass for one.
    """
    line = fence_line(text)
    said, rest = line[: len(label)].casefold() == label.casefold(), line[len(label) : len(label) + 1]
    label = "" if said and not rest.isalnum() else label
    if not line[:1].isalnum() and _reads_like_mark(line):
        line = f"\\{line}"
    words = [f"({mark})"] if mark else []
    if label:
        words.append(fence_label(label))
    if line:
        words.append(line)
    return f"- {' '.join(words)}"

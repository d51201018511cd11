"""A memory as an item of a prompt, with the mark of a contested fact."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Literal

from memory.models import Trust
from memory.models.project_scope import carried_keys
from nousweb.lib.lookalikes import lookalike_fold
from nousweb.lib.prompt_escaping import fence_item, fence_label, joined_item
from nousweb.lib.token_estimate import estimate_tokens

_MARK_START = re.compile(r"[^\w\\]+(?:contested|people's word|an agent's word|older\W+undecided)\b", re.IGNORECASE)
"""The beginning of the mark of a contested fact. No memory's text may begin like this."""
_LONGEST_START = 60


@dataclass(frozen=True, slots=True)
class ContestAnnotation:
    """The annotation of a contested fact in a prompt.

    `contested` is its age compared to the facts that contest it, `contested_with` their ids, both empty if nobody was
    asked about any of them; `mark` are the words in its line. If `preferred_id` is not empty, the fact with that id is
    shown above it, if it has room. Facts of one `group` are shown together, by `rank`.
    """

    contested: Literal["newer", "older", ""]
    contested_with: tuple[str, ...]
    mark: str
    preferred_id: str = ""
    group: str = ""
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a section, already fenced for a prompt (see nousweb.lib.prompt_escaping).

    If a budget is short, items of a lower `priority` are chosen first; they are shown in their own order. An item with
    a trust class in `screened_as` is screened once more before it is sent.
    """

    type: str
    id: str
    text: str
    priority: int = 0
    contest: ContestAnnotation | None = None
    project: str = ""
    task: str = ""
    screened_as: str = ""

    def as_json(self) -> dict[str, Any]:
        """The item as it is logged, with its project keys and, for a contested fact, the facts that contest it."""
        shown: dict[str, Any] = {"type": self.type, "id": self.id, "text": self.text}
        shown |= {"tokens": estimate_tokens(self.text), **carried_keys(self)}
        if self.contest is None or not self.contest.contested:
            return shown
        return {**shown, "contested": self.contest.contested, "contested_with": list(self.contest.contested_with)}


def screening_class(trust: str) -> str:
    """The class by which a text of this trust class is screened; "" for people's words."""
    return "" if trust == Trust.PERSON else trust


def _reads_like_mark(line: str) -> bool:
    """Whether a line begins like a mark, including lookalike letters and brackets."""
    start = lookalike_fold(unicodedata.normalize("NFKC", line[:_LONGEST_START])).replace("’", "'")
    return _MARK_START.match(start) is not None


def list_item(text: str, label: str = "", mark: str = "") -> str:
    """A memory as a list item of a prompt, which its lines cannot leave. `label` is its subject or date. Source: seed
    008, "Expected Context Assembly".

    `mark` comes first; a text that looks like a mark is escaped.
    """
    item = fence_item(text)
    if not item[:1].isalnum() and _reads_like_mark(item.partition("\n")[0]):
        item = f"\\{item}"
    words = ["-"]
    if mark:
        words.append(f"({mark})")
    if label:
        words.append(fence_label(label))
    return joined_item(" ".join(words), item) if item or len(words) == 1 else " ".join(words)

"""Compare two prompts: their texts, and the memories that were added, removed, moved or treated differently."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from context.engine.context_record import ContextRecord
from nousweb.console.context.labels import VERDICTS
from nousweb.console.context.links import memory_item_url
from nousweb.lib.textdiff import TextDiff, diff_texts

Key = tuple[str, str]
CHANGES: Mapping[str, tuple[str, str]] = {
    "added": ("added", "only in B"),
    "removed": ("removed", "only in A"),
    "verdict": ("warn", "verdict changed"),
    "text": ("accent", "text changed"),
    "moved": ("neutral", "moved"),
}


@dataclass(frozen=True, slots=True)
class RunPosition:
    """The position of an item on one side: in the prompt, among the candidates, or nowhere."""

    section: str = ""
    number: int = 0
    text: str = ""
    tokens: int = 0
    verdict: str = ""
    kind: str = ""
    score: float | None = None

    @property
    def shown(self) -> bool:
        return self.number > 0


@dataclass(frozen=True, slots=True)
class ItemChange:
    """One item that the two sides treat differently."""

    type: str
    id: str
    text: str
    change: str
    a: RunPosition
    b: RunPosition
    url: str

    @property
    def kind(self) -> str:
        return CHANGES[self.change][0]

    @property
    def word(self) -> str:
        return CHANGES[self.change][1]


@dataclass(frozen=True, slots=True)
class RunComparison:
    diff: TextDiff
    items: tuple[ItemChange, ...]
    same: int
    tokens_change: int


def compare_runs(slug: str, a: ContextRecord, b: ContextRecord) -> RunComparison:
    """The differences between two contexts of an agent, from `a` to `b`.

    An item has moved if its order among the items that both show is different.
    """
    positions_a, positions_b = _positions(a), _positions(b)
    both = [
        key for key, position in positions_a.items() if position.shown and positions_b.get(key, RunPosition()).shown
    ]
    order_b = {key: number for number, key in enumerate(sorted(both, key=lambda key: positions_b[key].number))}
    moved = {
        key
        for number, key in enumerate(sorted(both, key=lambda key: positions_a[key].number))
        if order_b[key] != number
    }
    items: list[ItemChange] = []
    same = 0
    for key in dict.fromkeys([*positions_a, *positions_b]):
        one, other = positions_a.get(key, RunPosition()), positions_b.get(key, RunPosition())
        change = _change(one, other, moved=key in moved)
        if not change:
            same += one.shown and other.shown
            continue
        text = other.text or one.text
        items.append(ItemChange(*key, text, change, one, other, memory_item_url(slug, *key)))
    order = list(CHANGES)
    items.sort(key=lambda item: order.index(item.change))
    return RunComparison(diff_texts(a.system_prompt, b.system_prompt), tuple(items), same, b.tokens - a.tokens)


def _change(a: RunPosition, b: RunPosition, *, moved: bool) -> str:
    if a.shown != b.shown:
        return "added" if b.shown else "removed"
    if a.shown and a.text != b.text:
        return "text"
    if a.shown:
        return "moved" if moved else ""
    return "verdict" if a.verdict and b.verdict and a.verdict != b.verdict else ""


def _positions(record: ContextRecord) -> dict[Key, RunPosition]:
    verdicts: dict[Key, Mapping[str, Any]] = {(one["type"], one["id"]): one for one in record.candidates}
    positions: dict[Key, RunPosition] = {}
    number = 0
    for section in record.sections:
        for item in section["items"]:
            number += 1
            key = item["type"], item["id"]
            score = verdicts[key]["score"] if key in verdicts else None
            kind, word = VERDICTS["included"]
            positions[key] = RunPosition(
                section["label"], number, item.get("text", ""), item.get("tokens", 0), word, kind, score
            )
    for key, one in verdicts.items():
        if key not in positions:
            kind, word = VERDICTS.get(one["verdict"], ("neutral", one["verdict"]))
            positions[key] = RunPosition("", 0, one["text"], one["tokens"], word, kind, one["score"])
    return positions

"""The blocks of a prompt, one for each section, from the most stable to the most volatile.

Together they are the prompt, byte for byte. A break between two sections belongs to the later one, so that no block
depends on what follows it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from context.engine.assembly.prompt_section import SECTION_BREAK, SEPARATORS, section_text
from identity.policy.changes import CHANGE_KINDS, blocks_touched

Stability = Literal["stable", "session", "volatile"]
STABILITY: Mapping[int, Stability] = {1: "stable", 2: "session", 3: "volatile"}
"""By tier: independent of the request; of the session and its input; what was searched."""
REQUEST = "request"
"""In `changed_by`, beside kinds of changes: another input, frame or setting of the request."""


@dataclass(frozen=True, slots=True)
class Block:
    """`id` is the key of its section; `changed_by` are the kinds of changes that may change it."""

    id: str
    label: str
    text: str
    stability: Stability

    @property
    def changed_by(self) -> tuple[str, ...]:
        return _kinds_of(self.id) if self.stability == "stable" else (REQUEST, *_kinds_of(self.id))

    def as_json(self) -> dict[str, Any]:
        """The block as the API returns it."""
        digest = hashlib.sha256(self.text.encode()).hexdigest()
        return {
            "id": self.id,
            "text": self.text,
            "sha256": digest,
            "stability": self.stability,
            "changed_by": self.changed_by,
        }


@cache
def _kinds_of(block: str) -> tuple[str, ...]:
    return tuple(kind for kind in CHANGE_KINDS if block in blocks_touched(kind))


def prompt_blocks(prompt: str, sections: Sequence[Mapping[str, Any]]) -> list[Block]:
    """The blocks of a prompt from its logged sections (`Section.as_json`)."""
    blocks: list[Block] = []
    start = 0
    for section in sections:
        items = ((item["text"], item.get("source", "")) for item in section["items"])
        lead = SECTION_BREAK if blocks else ""
        end = start + len(lead + section_text(section["label"], items, SEPARATORS.get(section["key"], "\n")))
        blocks.append(Block(section["key"], section["label"], prompt[start:end], STABILITY[section["tier"]]))
        start = end
    return blocks

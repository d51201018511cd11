"""Rows of an agent's recalls within a turn, for the page of the run."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from context.models import ContextRecall, ContextRun
from memory.selectors.memory_expansion import Relation
from memory.types import MEMORY_TYPES
from nousweb.console.context.links import memory_item_url

RELATIONS: Mapping[Relation, str] = {
    "before": "before it",
    "after": "after it",
    "part": "part of it",
    "episode": "its episode",
    "source": "its source",
    "replaces": "fact that it replaced",
    "replaced_by": "fact that replaced it",
}


@dataclass(frozen=True, slots=True)
class RecalledItem:
    """One returned memory; `note` is its score, or its relation to the expanded memory."""

    url: str
    text: str
    type: str
    note: str


@dataclass(frozen=True, slots=True)
class RecallRow:
    """One recall: its request, time and results."""

    asked: str
    at: datetime
    by: str
    expands: bool
    items: list[RecalledItem]


def recall_rows(slug: str, run: ContextRun) -> list[RecallRow]:
    """The recalls of a run in the order in which they were made."""
    return [_row(slug, recall) for recall in run.recalls.all()]


def _row(slug: str, recall: ContextRecall) -> RecallRow:
    expands = recall.action == ContextRecall.Action.EXPAND
    items = [
        RecalledItem(
            memory_item_url(slug, item["type"], item["id"]), item["text"], MEMORY_TYPES[item["type"]].name, _note(item)
        )
        for item in recall.items
    ]
    asked = items[0].text if expands and items else str(recall.request.get("query", ""))
    return RecallRow(asked, recall.created_at, recall.principal_name, expands, items[1:] if expands else items)


def _note(item: Mapping[str, Any]) -> str:
    return RELATIONS.get(item.get("relation", ""), "") if "relation" in item else f"{item['score']:.2f}"

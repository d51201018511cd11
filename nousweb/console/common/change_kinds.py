"""The kinds of change in words, and as the choices of a form."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from identity.policy.changes import CHANGE_KINDS

NOUNS = {"working": "working memory"}


def kind_choices(kinds: Collection[str], *, whole_groups: bool) -> list[Any]:
    """These kinds by group; with `whole_groups` also each group as a whole, as "fact.*"."""
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for kind in CHANGE_KINDS:
        if kind in kinds:
            groups[kind.partition(".")[0]].append((kind, kind_title(kind)))
    return [
        (
            _noun(group),
            [(f"{group}.*", f"All of {_noun(group).lower()}"), *choices]
            if whole_groups and len(choices) > 1
            else choices,
        )
        for group, choices in groups.items()
    ]


def kind_title(kind: str) -> str:
    """A kind in words: "Fact superseded"."""
    group, _, happened = kind.partition(".")
    return f"{_noun(group)} {happened}"


def change_details(kind: str, details: Mapping[str, Any]) -> str:
    """The details of a change in words, without ids, for which there are links."""
    if kind == "events.recorded":
        count = details.get("count", 1)
        return f"{count} events" if count != 1 else ""
    shown = {name: str(value) for name, value in details.items() if not _is_key(value)}
    return ", ".join(f"{name.replace('_', ' ')} {value.replace('_', ' ')}" for name, value in shown.items())


def _is_key(value: object) -> bool:
    try:
        return bool(UUID(str(value)))
    except ValueError:
        return False


def _noun(group: str) -> str:
    return NOUNS.get(group, group).capitalize()

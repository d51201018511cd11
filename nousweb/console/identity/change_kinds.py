"""The kinds of change in words, and as the choices of a form."""

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from identity.policy.changes import CHANGE_KINDS

NOUNS = {"working": "working memory"}


def kind_choices(kinds: Collection[str], *, whole_groups: bool) -> list[Any]:
    """These kinds by what they are about; with `whole_groups` also all of each, as "fact.*"."""
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


def _noun(group: str) -> str:
    return NOUNS.get(group, group).capitalize()

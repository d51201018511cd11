"""What is being erased, what erasing it came to, and what each app erases of its own."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import models

from identity.models import Agent, AuditEvent
from memory.models import Document, Fact, FactChange, ItemType
from nousweb.lib.characters import plain_text
from nousweb.lib.fencing import escape_markup, fence_line

NEEDLE_CHARACTERS = 60
"""So much of a text's beginning is looked for in what may quote it, since quotations may be cut."""
SHORTEST_NEEDLE = 8
"""A shorter text says nothing of where it came from; rows that quote it are found by the id alone.

The audit trail is blanked by longer texts only, which the owner of the tables decides.
"""
SHORTEST_STRING, MAX_STRINGS = 20, 200
"""Of a document the strings in its value are looked for that have so many characters, the longest of them."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found in large tables before anybody had to wait: keys of rows in which one of `needles` occurs.

    Rows of transactions from `since` on, a transaction's id, are to be looked at again.
    """

    needles: list[str]
    since: str
    keys: Mapping[type[models.Model], list[Any]]


@dataclass(frozen=True, slots=True)
class Erasure:
    """What is being erased: facts and documents of an agent with the texts they ever held, those of a `project` with
    all else that carries its key, or with none of these the whole agent."""

    agent: Agent
    fact_ids: tuple[UUID, ...] = ()
    texts: tuple[str, ...] = ()
    looked: Looked | None = None
    project: str = ""
    document_ids: tuple[UUID, ...] = ()

    @property
    def of_agent(self) -> bool:
        return not self.items and not self.project

    @property
    def items(self) -> dict[str, list[str]]:
        """The ids of what is being erased, by type of memory."""
        ids = {ItemType.FACT: self.fact_ids, ItemType.DOCUMENT: self.document_ids}
        return {str(kind): list(map(str, found)) for kind, found in ids.items() if found}

    @property
    def needles(self) -> list[str]:
        """What to look for in other rows as they are written in JSON: ids, and the beginnings of texts.

        An agent may quote a text as a prompt showed it, too.
        """
        spelled = dict.fromkeys(spelling for text in self.texts for spelling in spellings_of(text))
        texts = (json.dumps(text[:NEEDLE_CHARACTERS], ensure_ascii=False)[1:-1] for text in spelled)
        found = dict.fromkeys(text for text in texts if len(text) >= SHORTEST_NEEDLE)
        return [*map(str, (*self.fact_ids, *self.document_ids)), *found]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an erasure came to: rows erased or blanked by table, and rows by table that still quote a text.

    `still_quoted` counts what is somebody else's to change: the log itself, memories of their own, the identity, and
    what the audit trail says of decisions.
    """

    rows: dict[str, int]
    still_quoted: dict[str, int] = field(default_factory=dict)


Eraser = Callable[[Erasure], Mapping[str, int]]
erasers: list[Eraser] = []
"""Each erases what its app keeps of an Erasure, inside its transaction, and returns how many rows by table.

Rows that refer to the agent by a foreign key go with a whole agent by themselves.
"""
large_tables: list[type[models.Model]] = [AuditEvent]
"""Those that are read through before the agent is held, so that nobody waits for it; see `quoting_keys`."""


def erasure_of(
    agent: Agent,
    facts: Sequence[Fact],
    documents: Sequence[Document] = (),
    *,
    looked: Looked | None = None,
    project: str = "",
) -> Erasure:
    """What erasing these would have to look for. Of a document all versions are given."""
    # Whatever an edit replaced was content too.
    texts = {fact.content for fact in facts}
    changes = FactChange.objects.filter(fact__in=facts)
    texts |= {change.before["content"] for change in changes if isinstance(change.before.get("content"), str)}
    strings: set[str] = set()
    for document in documents:
        strings |= {document.text, *_strings_of(document.value)}
    longest = sorted((text for text in strings if len(text) >= SHORTEST_STRING), key=lambda text: (-len(text), text))
    texts.update(longest[:MAX_STRINGS])
    fact_ids, document_ids = (tuple(row.pk for row in rows) for rows in (facts, documents))
    return Erasure(agent, fact_ids, tuple(sorted(texts)), looked, project, document_ids)


def _strings_of(value: Any) -> Iterator[str]:
    """Every string within a value of known depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings_of(one)


def spellings_of(text: str) -> tuple[str, ...]:
    """`text` as it is, on one line without what does not show, and as a line of a prompt, whole or within one."""
    line = " ".join(plain_text(text).split())
    return text, line, escape_markup(line), fence_line(text)

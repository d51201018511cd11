"""Find the documents that quote facts to be erased, or name their subject: they are offered for erasure too."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from identity.models import Agent
from memory.models import Document, Fact
from memory.services.erasure.quotes import rows_quoting
from memory.services.erasure.scope import erasure_of

MIN_NAME_CHARACTERS = 3
"""Shorter aliases are not searched: they occur in too many texts."""
MAX_OFFERED = 200


@dataclass(frozen=True, slots=True)
class QuotingDocument:
    """The last version of a document. `quotes`: a version quotes an erased fact; else it only names the subject."""

    document: Document
    quotes: bool


def documents_quoting(
    agent: Agent, facts: Sequence[Fact], spellings: Iterable[str] = (), *, personas: Collection[str]
) -> list[QuotingDocument]:
    """Documents of which a version quotes one of the facts, then those that only contain one of `spellings`."""
    rows = Document.objects.filter(agent=agent, persona__in=personas)
    quoting = set(
        _document_keys(rows_quoting(Document, erasure_of(agent, facts)).filter(persona__in=personas)) if facts else ()
    )
    names = [rf"\y{re.escape(one)}\y" for one in dict.fromkeys(spellings) if len(one) >= MIN_NAME_CHARACTERS]
    condition = "concat_ws(' ', namespace::text, key, text, value::text) ~* ANY(%s)"
    naming = set(_document_keys(rows.extra(where=[condition], params=[names])) if names else ())  # noqa: S610
    found = sorted(quoting | naming, key=lambda key: (key not in quoting, key))[:MAX_OFFERED]
    addresses = [address for _, address in found]
    last = {
        (row.persona, row.address): row
        for row in rows.filter(Q(address__in=addresses)).select_related("agent").order_by("version")
    }
    return [QuotingDocument(last[key], key in quoting) for key in found]


def _document_keys(rows: Any) -> list[tuple[str, str]]:
    """Persona and address of each document of which `rows` are versions."""
    return list(rows.order_by().values_list("persona", "address").distinct())

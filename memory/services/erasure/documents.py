"""Erase a document with all of its versions."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q

from identity.models import Agent, AuditEvent
from identity.principal import Principal
from identity.services.agent_lock import agent_lock_exclusive
from identity.services.change_feed import feed_change_draft, feed_changes_record
from memory.models import Document, Fact, ItemType
from memory.services.erasure.quotes import quoting_keys, rows_quoting, scan_tables, working_memory_erase
from memory.services.erasure.scope import Erasure, Receipt, erasure_of
from memory.services.erasure.transaction import (
    ERASE,
    erasers_run,
    erasing,
    owner_erase,
    reason_check,
    receipt_describe,
)
from memory.services.search_index.writer import index_remove
from nousweb.lib import NotFound


@erasing
def document_erase(*, document: Document, by: Principal, reason: str) -> tuple[Receipt, Erasure]:
    """Erase a document with all of its versions. Other memories that contain parts of it stay.

    `reason` is stored in the receipt, so it must not repeat the erased text. Raises NotAllowed, Invalid, or NotFound if
    the document no longer exists.
    """
    by.require(ERASE, document.agent)
    reason = reason_check(reason)
    quote_scan = scan_tables(document.agent, [], versions_of(document.agent, [document.pk]))
    agent = agent_lock_exclusive(document.agent)
    # Read again: a version may have been written before the agent was locked.
    versions = versions_of(agent, [document.pk])
    erasure = erasure_of(agent, [], versions, quote_scan=quote_scan)
    rows = erasers_run(erasure)
    rows["workingmemory"] = working_memory_erase(erasure)
    quoting = quoting_keys(AuditEvent, erasure)
    return Receipt(documents_remove(versions, quoting=quoting, by=by, reason=reason, rows=rows)), erasure


def versions_of(agent: Agent, documents: Collection[UUID]) -> list[Document]:
    """All versions of these documents; each id may be that of any version. Raises NotFound."""
    named = Document.objects.filter(agent=agent, pk__in=documents)
    keys = dict(named.values_list("pk", "address"))
    if missing := set(documents) - keys.keys():
        raise NotFound(f"There is no such document: {min(map(str, missing))}.")
    found = Document.objects.filter(agent=agent, address__in=set(keys.values())).select_related("agent")
    wanted = set(named.values_list("persona", "address"))
    return [row for row in found.order_by("persona", "address", "version") if (row.persona, row.address) in wanted]


def documents_remove(
    versions: Sequence[Document],
    *,
    quoting: Sequence[int],
    by: Principal,
    reason: str,
    rows: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Delete whole documents of a locked agent, with a receipt for each; returns counts by table, with `rows` added."""
    chains: dict[tuple[str, str], list[Document]] = defaultdict(list)
    for version in versions:
        chains[version.persona, version.address].append(version)
    feed_changes_record(
        feed_change_draft("document.erased", row.agent, row.persona, "document", row.pk) for row in versions
    )
    total = {} if chains else dict(rows or {})
    for place, ((persona, _), chain) in enumerate(chains.items()):
        index_remove(chain[0].agent_id, persona, ItemType.DOCUMENT, [str(row.pk) for row in chain])
        last = chain[-1]
        entry = receipt_describe(
            by=by, action="document.erase", target=last, agent=last.agent, reason=reason, label="A document"
        )
        done = owner_erase(
            "nous_erase_documents(%s, %s::uuid[], %s::bigint[], %s::jsonb)",
            [last.agent_id, [row.pk for row in chain], list(quoting)],
            entry=entry,
            rows={**(dict(rows or {}) if place == 0 else {}), "searchitem": len(chain)},
        )
        for name, count in done.items():
            total[name] = total.get(name, 0) + count
    return total


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

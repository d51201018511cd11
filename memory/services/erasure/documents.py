"""Erase a document with all of its versions."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from identity.models import Agent, AuditEvent
from identity.principal import Principal
from identity.services.agent_lock import agent_lock_exclusive
from identity.services.change_feed import feed_change_draft, feed_changes_record
from memory.models import Document, ItemType
from memory.services.erasure.owner_functions import documents_delete, receipt_describe
from memory.services.erasure.quotes import quoting_keys, scan_tables, working_memory_erase
from memory.services.erasure.scope import Erasure, Receipt, erasure_of
from memory.services.erasure.transaction import ERASE, erasers_run, erasing, reason_check
from memory.services.search_index.writer import index_remove
from nousweb.lib.errors import NotFound


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
        done = documents_delete(
            agent=last.agent,
            document_ids=[row.pk for row in chain],
            quoting=quoting,
            entry=entry,
            rows={**(dict(rows or {}) if place == 0 else {}), "searchitem": len(chain)},
        )
        for name, count in done.items():
            total[name] = total.get(name, 0) + count
    return total

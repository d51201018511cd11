"""Permanent erasure of a fact, a document, an event, everything about a subject, a project, a user, or a whole agent.

The erased text is removed from every table and from quotes in the audit trail. A receipt remains there: the kind
of item, the numbers of rows, who erased it and why, without the text. The product's role cannot delete from
append-only tables: functions of the tables' owner delete and blank rows there, and write the receipt
(memory/services/erasure/steps.py).

An erasure takes the agent's lock exclusively (identity/services/agent_lock.py), so that nothing that was read before it
is written after it.

Other apps register functions for their own tables (memory/registrations.py).
"""

from memory.services.erasure.memories import (
    QuotingMemory,
    agent_erase,
    document_erase,
    documents_quoting,
    event_erase,
    fact_erase,
    facts_about,
    ids_by_type,
    memories_quoting,
    project_erase,
    subject_erase,
    user_erase,
)
from memory.services.erasure.steps import (
    ERASE,
    MAX_REASON_CHARACTERS,
    Erasure,
    Receipt,
    quoting_keys,
    reanalyze_tables,
)

__all__ = [
    "ERASE",
    "MAX_REASON_CHARACTERS",
    "Erasure",
    "QuotingMemory",
    "Receipt",
    "agent_erase",
    "document_erase",
    "documents_quoting",
    "event_erase",
    "fact_erase",
    "facts_about",
    "ids_by_type",
    "memories_quoting",
    "project_erase",
    "quoting_keys",
    "reanalyze_tables",
    "subject_erase",
    "user_erase",
]

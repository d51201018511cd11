"""Erasing for good: a fact, everything about a subject, a document, everything of a project, or a whole agent.

What is erased is gone from every table, and from what the audit trail quotes; a receipt stays there that says
what kind of thing, how many rows, who and why, and not what it said. What only grows is out of the running product's
reach: the owner of the tables deletes and blanks there, and writes the receipt (memory/services/owner_erasure.py).

Whoever writes for the agent is waited for, or waits (identity/services/agent_lock.py), so that nothing which was read
before the erasure is written after it.

Other apps erase what they keep through `erasers`, so that memory depends on none of them.
"""

from memory.services.erasure.agents import agent_erase
from memory.services.erasure.documents import QuotingDocument, document_erase, documents_quoting
from memory.services.erasure.facts import fact_erase, facts_about, subject_erase
from memory.services.erasure.planner_samples import samples_renew
from memory.services.erasure.projects import project_counts, project_erase
from memory.services.erasure.quoting import quoting_keys
from memory.services.erasure.scope import Erasure, Receipt, erasers, large_tables
from memory.services.erasure.transaction import ERASE, MAX_REASON_CHARACTERS

__all__ = [
    "ERASE",
    "MAX_REASON_CHARACTERS",
    "Erasure",
    "QuotingDocument",
    "Receipt",
    "agent_erase",
    "document_erase",
    "documents_quoting",
    "erasers",
    "fact_erase",
    "facts_about",
    "large_tables",
    "project_counts",
    "project_erase",
    "quoting_keys",
    "samples_renew",
    "subject_erase",
]

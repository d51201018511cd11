"""The tables that Citus distributes by their agent, for `manage.py distribute`.

Citus (https://github.com/citusdata/citus) is PostgreSQL whose tables are spread over several servers in parts. A unique
key of a distributed table, and a foreign key between two of them, must contain the column by which they are
distributed. Keys that do not are replaced, or dropped: docs/operations.md, "Citus", explains the consequences.
"""

from django.apps import apps

from identity.models import AgentRow

COLUMN = "agent_id"

COLOCATED_WITH = "memory_event"
"""The table that is distributed first: the rows of an agent in all others lie on the same server."""


def distributed_tables() -> tuple[str, ...]:
    """The tables whose rows belong to one agent, its memory, its prompts, its identity and its changes: those of every
    `AgentRow`. COLOCATED_WITH is the first."""
    names = {model._meta.db_table for model in apps.get_models() if issubclass(model, AgentRow)}
    return (COLOCATED_WITH, *sorted(names - {COLOCATED_WITH}))


REFERENCE = ("identity_agent", "memory_embeddingmodel", "context_contextprofile", "context_contextprofileversion")
"""Small tables that statements read together with those: each server has a copy. All others stay on the coordinator:
accounts, sessions, tokens, webhooks, the queue and its jobs, the inbox, the audit trail
and the seals."""

PARTITIONED = ("memory_searchitem", "memory_searchpassage")
CASCADES = {
    f"memory_searchpassage_{persona}": (
        f"FOREIGN KEY (agent_id, persona, row_id) REFERENCES memory_searchitem_{persona} (agent_id, persona, id)"
        " ON DELETE CASCADE"
    )
    for persona in ("actor", "subconscious")
}
"""Foreign keys between distributed tables that delete rows, with the agent in them; of the partitions, since Citus
makes none between tables that have some."""

SEALED = {
    "identity_identityversion": "identityversion",
    "memory_event": "event",
    "memory_factchange": "factchange",
    "memory_judgecall": "judgecall",
}
"""Distributed tables whose rows are sealed, and how seals call them (`HOLES` in
memory/migrations/0001_initial.py)."""

SETTINGS = {
    "citus.enable_unsafe_triggers": "on",
    "citus.multi_shard_modify_mode": "sequential",
}
"""Settings of the database on the coordinator. Triggers of append-only tables read no other row, so that they are safe
on parts of a table. One connection to each server makes a statement on all parts safe beside one on a reference table.
"""

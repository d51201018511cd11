"""The append-only tables of memory whose rows are sealed, and what of their rows may change."""

from identity.policy.sealed_tables import SealedTable

SEALED_TABLES = (
    SealedTable(
        "event",
        "memory.Event",
        "Event",
        by_chain=True,
        counters_label="memory.EventSequence",
        open_columns={"user": "people say whose an event is, where the agent begins to serve many users"},
    ),
    SealedTable(
        "factchange",
        "memory.FactChange",
        "Change of a fact",
        persona="coalesce(f.persona, 'actor')",
        join="LEFT JOIN memory_fact f ON f.id = t.fact_id AND f.agent_id = t.agent_id",
        condition="EXISTS (SELECT 1 FROM memory_fact f WHERE f.id = t.fact_id AND f.agent_id = t.agent_id)",
        open_columns={"agent_id": "that of its fact: a row that says another agent counts as missing"},
        blanks=("evidence", "other_id", "reason"),
    ),
    SealedTable("judgecall", "memory.JudgeCall", "Call of the judge", clock_column="created_at"),
)

"""The physical tables of the search's index, of which a statement names those of one view and no other."""

from memory.persona import PersonaMemory
from nousweb.lib.distribution import is_distributed

STATEMENTS_KEPT = 256
"""Texts of statements that are kept, by agent and by what is asked for."""

PERSONA_OF_TABLE = {
    "memory_searchitem_actor": "actor",
    "memory_searchitem_subconscious": "subconscious",
}
PASSAGES_OF_TABLE = {
    "memory_searchitem_actor": "memory_searchpassage_actor",
    "memory_searchitem_subconscious": "memory_searchpassage_subconscious",
}


def agent_unindexed() -> str:
    """The agent, written so that no index is read for it; Citus finds the part of a table by the plain column alone."""
    return "agent_id" if is_distributed() else "agent_id + 0"


def source_of(view: PersonaMemory, columns: str, condition: str, *, agent: str = "agent_id") -> str:
    """A subquery over the physical tables of the view and no other; all arguments are our own text."""
    parts = [
        f"SELECT {columns} FROM {table} WHERE persona = '{PERSONA_OF_TABLE[table]}' AND {agent} = {int(view.agent.pk)}"  # noqa: S608
        f" AND {condition}"
        for table in view.search_tables
    ]
    return "(" + " UNION ALL ".join(parts) + ")"


def holders_of(view: PersonaMemory, columns: str, condition: str) -> str:
    """`source_of` for a condition on words. Their keys name the agent already; so written, the planner does not read
    the index of all the agent's items beside that of the words."""
    return source_of(view, columns, condition, agent=agent_unindexed())

"""Messages: what a person says, not asks. A memory that matters to one may share hardly a word with it.

Among short remarks the cosine to a message says little: a few remarks are near to everything ("hubs"; Radovanović,
Nanopoulos and Ivanović, "Hubs in Space", 2010). What an item has in common with the usual item of its collection is
therefore taken off: the query's vector is moved away from the mean vector of the collection, which is the same as
subtracting from each cosine the item's own mean cosine, and lets the vector index be used as it is.
"""

from functools import lru_cache

import numpy as np

from identity.models import Agent
from memory.embedding.protocol import Vectors
from memory.persona import VIEWS, PersonaMemory
from memory.search.fusion import Counts
from memory.search.index_tables import source_of
from nousweb.lib.prepared_statements import rows_prepared

MOVED = 1.2
"""How far the query is moved, in mean vectors; 1.0 to 1.6 differ by less than .03 of recall@10."""
USUAL_ITEMS = 200
"""The latest so many items are the usual ones; 50 and 1,000 give the same."""
KEPT = 1_024
"""Mean vectors that a process keeps."""


def moved_query(
    view: PersonaMemory, counts: Counts, vector: Vectors, users: tuple[str, ...] | None = None
) -> Vectors | None:
    """The query's vector, moved away from the mean vector of the collection, or of its items of these `users`; None for
    an empty collection."""
    mean_read = _mean_kept if counts.items >= USUAL_ITEMS else _mean_kept.__wrapped__
    mean = mean_read(view.persona, int(view.agent.pk), counts.model, counts.items // USUAL_ITEMS, users)
    return None if mean is None else np.asarray(vector - MOVED * mean, np.float32)


@lru_cache(maxsize=KEPT)
def _mean_kept(
    persona: str, agent: int, model: str, grown: int, users: tuple[str, ...] | None = None
) -> Vectors | None:
    """The mean vector of the latest items; read again when the collection has `grown` by as many. That of fewer items
    is not kept, since it would tell much of one that is erased."""
    own = "" if users is None else " AND user_key = ANY(%(users)s::text[])"
    usual = source_of(VIEWS[persona](Agent(pk=agent)), "id, embedding", f"model = %(model)s AND active{own}")
    statement = (
        "SELECT avg(embedding)::real[] FROM"  # noqa: S608
        f" (SELECT embedding FROM {usual} AS usual ORDER BY id DESC LIMIT {USUAL_ITEMS}) AS latest"
    )
    [(mean,)] = rows_prepared(statement, {"model": model} | ({} if users is None else {"users": list(users)}))
    return None if mean is None else np.asarray(mean, np.float32)

"""What the clock keeps in order in the search index: vectors and languages of new rows, counts of large collections."""

from memory.search.index_statistics import statistics_refresh
from memory.services.indexing import embed_pending_rows, requeue_stale_embeddings
from memory.services.languages import languages_detect

MANY_EMBEDDED = 1_000
"""After so many a collection may have grown large, and is counted at once: until then each search counts it."""


def new_rows_embed() -> int:
    """Give pending rows of the search index their vectors, and agents their languages; returns how many got one."""
    made = embed_pending_rows()
    if made:
        languages_detect()
    if made >= MANY_EMBEDDED:
        statistics_refresh()
    return made


def collections_refresh() -> int:
    """Renew the counts and the vector indexes of large collections; returns how many changed."""
    requeue_stale_embeddings()
    return statistics_refresh()

"""Scheduled maintenance of the search index: vectors and languages of new rows, counts of large collections."""

from memory.search.query_word_counts import statistics_refresh
from memory.services.search_index.agent_languages import languages_detect
from memory.services.search_index.row_embedding import embed_pending_rows, requeue_stale_embeddings

MANY_EMBEDDED = 1_000
"""After this many new rows a collection may be large, and is counted at once; otherwise each search counts it."""


def new_rows_embed() -> int:
    """Embed pending rows, and detect the languages of agents; returns how many rows were embedded."""
    made = embed_pending_rows()
    if made:
        languages_detect()
    if made >= MANY_EMBEDDED:
        statistics_refresh()
    return made


def collections_refresh() -> int:
    """Refresh the counts and the vector indexes of large collections; returns how many changed."""
    requeue_stale_embeddings()
    return statistics_refresh()

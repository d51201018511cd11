"""What the worker runs for memory. Thin: each calls a service."""

from identity.principal import Principal
from memory.search.statistics import statistics_refresh
from memory.services.indexing import embeddings_make, index_retry, strangers_adopt
from memory.services.loops import loops_close_idle, loops_summarise
from memory.services.reembedding import reembed_continue


def derive_from_events(loop_ids: list[int]) -> int:
    """Summarise these closed loops, whose events have just arrived; returns how many needed it."""
    return loops_summarise(loop_ids)


def close_idle_loops() -> int:
    """Close loops that have gone idle and summarise them; returns how many."""
    return loops_summarise(loops_close_idle())


def embed_pending() -> int:
    """Give pending rows of the search index their vectors; returns how many got one."""
    return embeddings_make()


def retry_failed_embeddings() -> int:
    """Let rows of the search index that failed be tried again; returns how many."""
    return index_retry(agent=None, by=Principal.of_system("schedule"))


def continue_reembedding() -> bool:
    """Go on moving the index to another model, if it is moving; returns whether it is."""
    return reembed_continue() is not None


def refresh_search_statistics() -> int:
    """Renew the counts and the vector indexes of large collections; returns how many changed."""
    strangers_adopt()
    return statistics_refresh()

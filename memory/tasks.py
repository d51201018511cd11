"""What the worker runs for memory. Thin: each calls a service."""

from identity.principal import Principal
from memory.lifecycle import runner, schedule_control
from memory.lifecycle.activities import activities_heal
from memory.services.derived_backfill import derived_backfill
from memory.services.erasure import reanalyze_tables
from memory.services.index_upkeep import collections_refresh, new_rows_embed
from memory.services.indexing import index_retry
from memory.services.languages import words_reread
from memory.services.loops import loops_close_idle, loops_summarise, summaries_heal
from memory.services.reembedding import reembed_continue
from memory.services.reviews.expiry import reviews_expire
from memory.services.screening import screening_continue


def derive_from_events(loop_ids: list[int]) -> int:
    """Summarise these closed loops, whose events have just arrived; returns how many needed it."""
    return loops_summarise(loop_ids)


def close_idle_loops() -> int:
    """Close loops that have gone idle, and summarise every closed one that needs it; returns how many."""
    loops_close_idle()
    return summaries_heal()


def embed_pending() -> int:
    """Give pending rows of the search index their vectors; returns how many got one."""
    return new_rows_embed()


def reread_words() -> int:
    """Read words again that were read by another language than their agent's; returns how many rows."""
    return words_reread()


def retry_failed_embeddings() -> int:
    """Let rows of the search index that failed be tried again; returns how many."""
    return index_retry(agent=None, by=Principal.of_system("schedule"))


def continue_reembedding() -> bool:
    """Go on moving the index to another model, if it is moving; returns whether it is."""
    return reembed_continue() is not None


def refresh_search_statistics() -> int:
    """Renew the counts and the vector indexes of large collections; returns how many changed."""
    return collections_refresh()


def lifecycle_run(run_id: int) -> str:
    """Run what the lifecycle has queued under this id; returns what came of it."""
    return runner.job_run(run_id)


def sweep_lifecycle() -> int:
    """Tell again of runs that are due: another attempt, a killed worker, a lost message; returns how many."""
    return runner.due_jobs_requeue()


def retry_judgements() -> int:
    """Let the judge in force answer what waited for one; returns how many questions and episodes."""
    return schedule_control.judgements_retry()


def dream() -> int:
    """Queue the dream cycle of every agent, once a day; returns how many runs are new."""
    return schedule_control.dream_queue()


def backfill_layers() -> dict[str, int]:
    """Make what is missing between the log, the long-term entries, the loops' summaries and what the lifecycle did."""
    return {"activities": activities_heal(), **derived_backfill()}


def continue_screening() -> int:
    """Go on reading stored texts by the rules of the gate, where that was asked for; returns how many were read."""
    return screening_continue()


def expire_reviews() -> int:
    """Close questions about memories that nobody answered in time; returns how many."""
    return reviews_expire(by=Principal.of_system("schedule"))


def renew_samples() -> int:
    """Take the planner's samples of tables again that may hold what was erased since; returns how many."""
    return reanalyze_tables()


def purge_runs() -> int:
    """Delete the records of runs that were done long ago, and files of imports that wait no more; returns how many."""
    return schedule_control.purge_finished_jobs()

"""Tasks of the worker for memory. Each only calls a service."""

from identity.principal import Principal
from memory.lifecycle import runner, schedule_control
from memory.lifecycle.activity_log import activities_heal
from memory.services.derived_backfill import derived_backfill
from memory.services.erasure import reanalyze_tables
from memory.services.loops import loops_close_idle, loops_summarise, summaries_heal
from memory.services.quarantine.screening import screening_continue
from memory.services.reviews.blind_samples import undecided_sample
from memory.services.reviews.states import reviews_expire
from memory.services.search_index.agent_languages import words_reread
from memory.services.search_index.maintenance import collections_refresh, new_rows_embed
from memory.services.search_index.reembedding import reembed_continue
from memory.services.search_index.row_embedding import index_retry


def derive_from_events(loop_ids: list[int]) -> int:
    """Summarise these closed loops, whose events have just been stored; returns how many needed it."""
    return loops_summarise(loop_ids)


def close_idle_loops() -> int:
    """Close idle loops, and summarise every closed loop that needs it; returns how many."""
    loops_close_idle()
    return summaries_heal()


def embed_pending() -> int:
    """Embed pending rows of the search index; returns how many."""
    return new_rows_embed()


def reread_words() -> int:
    """Index rows again whose words were stemmed for another language than their agent's; returns how many."""
    return words_reread()


def retry_failed_embeddings() -> int:
    """Retry failed rows of the search index; returns how many."""
    return index_retry(agent=None, by=Principal.of_system("schedule"))


def continue_reembedding() -> bool:
    """Continue a running change of the embedding model; returns whether there is one."""
    return reembed_continue() is not None


def refresh_search_statistics() -> int:
    """Refresh the counts and the vector indexes of large collections; returns how many changed."""
    return collections_refresh()


def lifecycle_run(run_id: int) -> str:
    """Run the queued job with this id; returns its new status."""
    return runner.job_run(run_id)


def sweep_lifecycle() -> int:
    """Requeue due jobs: another attempt, a killed worker, a lost message; returns how many."""
    return runner.due_jobs_requeue()


def retry_judgements() -> int:
    """Queue reviews and episodes that wait for the configured judge; returns how many."""
    return schedule_control.judgements_retry()


def dream() -> int:
    """Queue the dream cycle (daily maintenance) of every agent, once a day; returns how many jobs are new."""
    return schedule_control.dream_queue()


def backfill_layers() -> dict[str, int]:
    """Create missing derived data: long-term entries, summaries of loops, and logged activities of jobs."""
    return {"activities": activities_heal(), **derived_backfill()}


def continue_screening() -> int:
    """Continue a requested screening of stored texts; returns how many were scanned."""
    return screening_continue()


def expire_reviews() -> int:
    """Expire reviews that were not resolved in time, and show reviewers a share of the undecided ones; returns how many
    expired."""
    undecided_sample()
    return reviews_expire(by=Principal.of_system("schedule"))


def renew_samples() -> int:
    """Analyze tables again whose planner statistics may contain erased text; returns how many."""
    return reanalyze_tables()


def purge_runs() -> int:
    """Delete old finished jobs, and files of old imports and exports; returns how many."""
    return schedule_control.purge_finished_jobs()

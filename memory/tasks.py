"""Tasks of the worker for memory. Each only calls a service."""

from identity.principal import Principal
from memory.lifecycle import runner
from memory.lifecycle.runner import activities_heal
from memory.services.erasure import reanalyze_tables
from memory.services.erasure.memories import expired_purge
from memory.services.loops import derived_backfill, loops_close_idle, loops_summarise, summaries_heal
from memory.services.quarantine.screening import screening_continue
from memory.services.reviews.blind_samples import undecided_sample
from memory.services.reviews.states import reviews_expire
from memory.services.search_index.reembedding import collections_refresh, new_rows_embed, reembed_continue, words_reread
from memory.services.search_index.row_embedding import index_retry
from memory.transfer.file_runs import runs_expire
from nousweb.lib.background import task


@task()
def derive_from_events(loop_ids: list[int]) -> int:
    """Summarise closed loops, whose events have just been stored."""
    return loops_summarise(loop_ids)


@task(minutes=1)
def close_idle_loops() -> int:
    """Close idle loops."""
    loops_close_idle()
    return summaries_heal()


@task(minutes=1)
def embed_pending() -> int:
    """Embed pending memories."""
    return new_rows_embed()


@task(minutes=10)
def reread_words() -> int:
    """Index words again for changed languages."""
    return words_reread()


@task(minutes=60)
def retry_failed_embeddings() -> int:
    """Retry failed embeddings."""
    return index_retry(agent=None, by=Principal.of_system("schedule"))


@task(minutes=1)
def continue_reembedding() -> bool:
    """Continue re-embedding for another model."""
    return reembed_continue() is not None


@task(minutes=10)
def refresh_search_statistics() -> int:
    """Refresh counts of large collections."""
    return collections_refresh()


@task()
def lifecycle_run(run_id: int) -> str:
    """Run a queued job."""
    return runner.job_run(run_id)


@task(minutes=1)
def sweep_lifecycle() -> int:
    """Requeue due jobs."""
    return runner.due_jobs_requeue()


@task(minutes=10)
def retry_judgements() -> int:
    """Retry pending judgements."""
    return runner.judgements_retry()


@task(minutes=60)
def dream() -> int:
    """Queue daily maintenance: staleness, core facts, compaction, flags."""
    return runner.dream_queue()


@task(minutes=60)
def backfill_layers() -> dict[str, int]:
    """Fill gaps in derived memories."""
    return {"activities": activities_heal(), **derived_backfill()}


@task(minutes=1)
def continue_screening() -> int:
    """Continue screening stored memories."""
    return screening_continue()


@task(minutes=10)
def expire_reviews() -> int:
    """Expire old reviews."""
    undecided_sample()
    return reviews_expire(by=Principal.of_system("schedule"))


@task(minutes=10)
def purge_expired() -> int:
    """Erase expired memories after their retention."""
    return expired_purge(by=Principal.of_system("schedule"))


@task(minutes=1)
def renew_samples() -> int:
    """Renew table statistics after an erasure."""
    return reanalyze_tables()


@task(minutes=24 * 60)
def purge_runs() -> int:
    """Delete old job records and expired files."""
    return runner.purge_done_jobs() + runs_expire()

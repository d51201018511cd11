"""Tasks of the worker for memory: services with a label, and the minutes between two runs of those with a schedule."""

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

BY = Principal.of_system("schedule")


def _idle_loops_close() -> int:
    loops_close_idle()
    return summaries_heal()


def _reviews_expire() -> int:
    undecided_sample()
    return reviews_expire(by=BY)


derive_from_events = task(
    "memory.tasks.derive_from_events", "Summarise closed loops, whose events have just been stored", loops_summarise
)
close_idle_loops = task("memory.tasks.close_idle_loops", "Close idle loops", _idle_loops_close, minutes=1)
embed_pending = task("memory.tasks.embed_pending", "Embed pending memories", new_rows_embed, minutes=1)
reread_words = task("memory.tasks.reread_words", "Index words again for changed languages", words_reread, minutes=10)
retry_failed_embeddings = task(
    "memory.tasks.retry_failed_embeddings",
    "Retry failed embeddings",
    lambda: index_retry(agent=None, by=BY),
    minutes=60,
)
continue_reembedding = task(
    "memory.tasks.continue_reembedding",
    "Continue re-embedding for another model",
    lambda: reembed_continue() is not None,
    minutes=1,
)
refresh_search_statistics = task(
    "memory.tasks.refresh_search_statistics", "Refresh counts of large collections", collections_refresh, minutes=10
)
lifecycle_run = task("memory.tasks.lifecycle_run", "Run a queued job", runner.job_run)
sweep_lifecycle = task("memory.tasks.sweep_lifecycle", "Requeue due jobs", runner.due_jobs_requeue, minutes=1)
retry_judgements = task(
    "memory.tasks.retry_judgements", "Retry pending judgements", runner.judgements_retry, minutes=10
)
dream = task(
    "memory.tasks.dream",
    "Queue daily maintenance: staleness, core facts, compaction, flags",
    runner.dream_queue,
    minutes=60,
)
backfill_layers = task(
    "memory.tasks.backfill_layers",
    "Fill gaps in derived memories",
    lambda: {"activities": activities_heal(), **derived_backfill()},
    minutes=60,
)
continue_screening = task(
    "memory.tasks.continue_screening", "Continue screening stored memories", screening_continue, minutes=1
)
expire_reviews = task("memory.tasks.expire_reviews", "Expire old reviews", _reviews_expire, minutes=10)
purge_expired = task(
    "memory.tasks.purge_expired",
    "Erase expired memories after their retention",
    lambda: expired_purge(by=BY),
    minutes=10,
)
renew_samples = task(
    "memory.tasks.renew_samples", "Renew table statistics after an erasure", reanalyze_tables, minutes=1
)
purge_runs = task(
    "memory.tasks.purge_runs",
    "Delete old job records and expired files",
    lambda: runner.purge_done_jobs() + runs_expire(),
    minutes=24 * 60,
)

"""Periodic tasks of the worker, as data."""

SCHEDULES: dict[str, tuple[str, int]] = {
    "Expire proposals nobody decided": ("identity.tasks.expire_proposals", 60),
    "Seal what was recorded": ("identity.tasks.seal_log", 1),
    "Check the log against its seals": ("identity.tasks.verify_log", 1),
    "Close loops that have gone idle": ("memory.tasks.close_idle_loops", 1),
    "Give pending memories their vectors": ("memory.tasks.embed_pending", 1),
    "Go on moving the index to another model": ("memory.tasks.continue_reembedding", 1),
    "Read words again by the language of each agent": ("memory.tasks.reread_words", 10),
    "Renew the counts of large collections": ("memory.tasks.refresh_search_statistics", 10),
    "Try failed embeddings again": ("memory.tasks.retry_failed_embeddings", 60),
    "Tell again of lifecycle runs that are due": ("memory.tasks.sweep_lifecycle", 1),
    "Ask the judge about what waited for one": ("memory.tasks.retry_judgements", 10),
    "Dream: staleness, core facts, compaction, flags": ("memory.tasks.dream", 60),
    "Fill gaps in derived memories": ("memory.tasks.backfill_layers", 60),
    "Go on reading stored texts by the rules of the gate": ("memory.tasks.continue_screening", 1),
    "Expire questions nobody answered": ("memory.tasks.expire_reviews", 10),
    "Sample tables again after an erasure": ("memory.tasks.renew_samples", 1),
    "Delete records of runs done long ago": ("memory.tasks.purge_runs", 24 * 60),
    "Place what waits in a long inbox": ("nousweb.console.tasks.keep_inbox_ranks", 2),
    "Count large memories for their pages": ("nousweb.console.tasks.keep_figures", 15),
    "Count the tokens of prompts exactly": ("context.tasks.count_tokens", 1),
    "Tell people of what concerns them": ("context.tasks.notify_people", 1),
    "Delete changes past their retention": ("identity.tasks.purge_changes", 60),
    "Delete sessions of people that have ended": ("identity.tasks.purge_sessions", 24 * 60),
    "Delete what is left of connections by OAuth": ("identity.tasks.purge_oauth", 60),
    "Delete context runs past their retention": ("context.tasks.purge_context_runs", 24 * 60),
}
"""Name to the task's dotted path and its period in minutes. The daily e-mail has its hour in
`context/services/email_digest.py`."""
SCHEDULE_LABELS: dict[str, str] = {
    "identity.tasks.expire_proposals": "Expire old proposals",
    "identity.tasks.seal_log": "Seal new records",
    "identity.tasks.verify_log": "Verify the seals of the log",
    "memory.tasks.close_idle_loops": "Close idle loops",
    "memory.tasks.embed_pending": "Embed pending memories",
    "memory.tasks.continue_reembedding": "Continue re-embedding for another model",
    "memory.tasks.reread_words": "Index words again for changed languages",
    "memory.tasks.refresh_search_statistics": "Refresh counts of large collections",
    "memory.tasks.retry_failed_embeddings": "Retry failed embeddings",
    "memory.tasks.sweep_lifecycle": "Requeue due jobs",
    "memory.tasks.retry_judgements": "Retry pending judgements",
    "memory.tasks.dream": "Queue daily maintenance: staleness, core facts, compaction, flags",
    "memory.tasks.backfill_layers": "Fill gaps in derived memories",
    "memory.tasks.continue_screening": "Continue screening stored memories",
    "memory.tasks.expire_reviews": "Expire old reviews",
    "memory.tasks.renew_samples": "Renew table statistics after an erasure",
    "memory.tasks.purge_runs": "Delete old job records and expired files",
    "nousweb.console.tasks.keep_inbox_ranks": "Rank items of long inboxes",
    "nousweb.console.tasks.keep_figures": "Count large memories for the console",
    "context.tasks.count_tokens": "Count prompt tokens exactly",
    "context.tasks.notify_people": "Send notifications",
    "identity.tasks.purge_changes": "Delete changes past their retention",
    "identity.tasks.purge_sessions": "Delete ended sessions of people",
    "identity.tasks.purge_oauth": "Delete expired OAuth data",
    "context.tasks.purge_context_runs": "Delete context runs past their retention",
}
"""What pages call each schedule, by its task: the names above are keys of stored rows, and stay."""


def schedules_sync() -> None:
    """Create missing schedules and delete those that are no longer declared; pauses of others stay."""
    from django_q.models import Schedule

    for name, (path, minutes) in SCHEDULES.items():
        Schedule.objects.get_or_create(
            name=name,
            defaults={"func": path, "schedule_type": Schedule.MINUTES, "minutes": minutes, "repeats": -1},
        )
    Schedule.objects.filter(func__regex=r"^(identity|memory|context|nousweb\.console)\.").exclude(
        name__in=SCHEDULES
    ).delete()

"""Rules of the lifecycle, declared as data."""

from dataclasses import replace
from datetime import timedelta

from nousweb.lib.lease import LeasePolicy

JOB_LEASE = LeasePolicy(
    lease=timedelta(seconds=20),
    renew_every=timedelta(seconds=5),
    max_attempts=5,
    backoff_initial=timedelta(seconds=15),
    backoff_max=timedelta(hours=1),
)
"""A sign of life that comes late, or one database error, costs a worker no job."""
EMBEDDING_LEASE = replace(JOB_LEASE, max_attempts=8, backoff_max=timedelta(minutes=15))
LOST_AFTER = timedelta(seconds=30)
"""A queued run that nobody took up for so long, though no message waits, has lost its message, and gets another."""
LOST_IN_BACKLOG = timedelta(minutes=5)
"""The same while messages wait, of which one may be its own; a second one does no harm, but makes the queue longer."""
REQUEUE_EVERY = timedelta(seconds=5)
"""How often each worker looks for runs that are due, beside its tasks; the clock of the schedules ticks in minutes."""
REQUEUE_BATCH = 500
KEEP_DONE_JOBS = timedelta(days=90)
ASK_WITHIN_SECONDS = 15.0
"""After so long in one run no other question to the judge begins: one may take 100 s, a task is ended at 120 s."""

LOW_CONFIDENCE = 0.5
"""An extracted fact less sure than this is shown to people."""

STALE_AFTER = timedelta(days=180)
STALE_CONFIDENCE_STEP = 0.1
STALE_CONFIDENCE_FLOOR = 0.3
NEVER_STALE = ("rule", "preference", "person", "concept")
"""What people are and want does not fade by not being mentioned. Source: the pitfalls of earlier systems, 12."""

CORE_CONFIRMATIONS = 5
CORE_IMPORTANCE = 0.9

COMPACT_EPISODES = ((timedelta(days=30), 80), (timedelta(days=90), 40))
"""From which age on, by how many words of its summary search reads an episode; the summary itself is kept."""

PROCEDURE_MIN_USES = 5
PROCEDURE_FLAGS = ((0.4, "ineffective"), (0.8, "effective"))
"""Flagged "ineffective" up to the first share of successes, "effective" from the second on."""

CENSOR_MIN_ACTIVATIONS = 5
CENSOR_FALSE_SHARE = 0.5
"""A censor with more false positives than this share of its activations is retired. Source: seed 009.1, phase 2."""

COMPACTION_FACTS = 10
"""A subject with more active facts than this is proposed for compaction."""
COMPACTION_LISTED = 30

ESCALATES_TO = {"warn": "block"}
"""The one step that a censor may rise by itself; to absolute only a person lifts it. Source: seed 009.1, part 4."""

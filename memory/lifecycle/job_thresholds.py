"""Constants of the jobs of the memory lifecycle."""

from datetime import timedelta

LOW_CONFIDENCE = 0.5
"""An extracted fact with a lower confidence opens a review."""

STALE_AFTER = timedelta(days=180)
STALE_CONFIDENCE_STEP = 0.1
STALE_CONFIDENCE_FLOOR = 0.3
NEVER_STALE = ("rule", "preference", "person", "concept")
"""Facts of these categories do not become stale. Source: the pitfalls of earlier systems, 12."""

CORE_CONFIRMATIONS = 5
CORE_IMPORTANCE = 0.9

PROCEDURE_MIN_USES = 5
PROCEDURE_FLAGS = ((0.4, "ineffective"), (0.8, "effective"))
"""Flagged "ineffective" up to the first share of successes, "effective" from the second on."""

CENSOR_MIN_ACTIVATIONS = 5
CENSOR_FALSE_SHARE = 0.5
"""A censor with more false positives than this share of its activations is retired. Source: seed 009.1, phase 2."""

COMPACTION_FACTS = 10
"""A subject with more active facts than this is proposed for compaction."""
COMPACTION_LISTED = 30

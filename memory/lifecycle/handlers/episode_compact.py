"""Compact old episodes: search reads a shorter part of their summaries."""

from typing import Any

from memory.lifecycle.handler import Handler
from memory.models import Job
from memory.services.episode_compaction import episodes_compact


def _apply(job: Job, prepared: None) -> dict[str, Any]:
    return {"looked_at": episodes_compact(agent=job.agent)}


EPISODE_COMPACT = Handler(apply=_apply, activity="dream")

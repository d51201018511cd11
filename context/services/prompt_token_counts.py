"""Count the tokens of prompts after they were sent."""

from datetime import timedelta

import structlog
from django.conf import settings

from context.models import ContextRun
from context.services.anthropic_token_counter import CountFailed, counts_exactly, tokens_count
from nousweb.lib import clock

logger = structlog.get_logger(__name__)

AT_ONCE = 100
TRIED_FOR = timedelta(hours=6)
"""A prompt that could not be counted within this time keeps its estimate."""


def context_runs_count() -> int:
    """Count the latest logged prompts that have only an estimate, at most AT_ONCE; returns how many were counted.

    It stops at the first failure that would meet the next prompt too: the next round tries again.
    """
    if not counts_exactly():
        return 0
    waiting = ContextRun.objects.filter(counted_tokens=None, created_at__gte=clock.now() - TRIED_FOR)
    done = 0
    for key, prompt in waiting.order_by("-created_at", "-id").values_list("pk", "system_prompt")[:AT_ONCE]:
        try:
            counted = tokens_count(prompt)
        except CountFailed as failed:
            logger.warning("context.count_failed", run_id=str(key), error=str(failed))
            if failed.again:
                break
            continue
        done += ContextRun.objects.filter(pk=key).update(
            counted_tokens=counted, counted_by=settings.COUNTER_MODEL[:100]
        )
    return done

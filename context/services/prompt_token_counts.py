"""Count the tokens of prompts after they were sent."""

import hashlib
from datetime import timedelta

import structlog
from django.conf import settings
from django.core.cache import cache

from context.models import ContextRun
from memory.judge.endpoint import MAX_TOKENS_COUNTED, EndpointFailed, EndpointRefused
from memory.judge.model_judge import anthropic_endpoint, model_provider
from nousweb.lib import clock

NOTHING = "."
"""The shortest message: the endpoint does not count a system prompt alone, so the tokens of this are subtracted."""
CACHE_SECONDS = 3_600


class CountFailed(Exception):
    """A prompt could not be counted. `again`: it may be counted later, and no others should be tried now."""

    def __init__(self, message: str, *, again: bool) -> None:
        super().__init__(message)
        self.again = again


def counts_exactly() -> bool:
    """Whether the settings name an endpoint that counts; OpenAI's protocol has no counts, so estimates stay."""
    return bool(settings.COUNTER == "anthropic") and model_provider() == "anthropic"


def tokens_count(prompt: str) -> int:
    """Tokens of a system prompt for COUNTER_MODEL. Raises CountFailed."""
    if not prompt:
        return 0
    model = settings.COUNTER_MODEL
    return _counted(model, prompt) - _counted(model, "")


def _counted(model: str, prompt: str) -> int:
    key = f"counted:{model}:{hashlib.sha256(prompt.encode()).hexdigest()}"
    return int(cache.get_or_set(key, lambda: _count_request(model, prompt), CACHE_SECONDS) or 0)


def _count_request(model: str, prompt: str) -> int:
    try:
        counted = anthropic_endpoint().tokens_count(
            model=model, system=prompt, text=NOTHING, timeout=settings.COUNTER_TIMEOUT_SECONDS
        )
    except EndpointRefused as refused:
        # Only a refusal of this very prompt says nothing about the next one.
        raise CountFailed(
            f"The endpoint answered {refused.status}.", again=refused.status not in (400, 413)
        ) from refused
    except EndpointFailed as failed:
        raise CountFailed("The endpoint cannot be reached, or its answer is invalid.", again=True) from failed
    if not isinstance(counted, int) or not 0 <= counted <= MAX_TOKENS_COUNTED:
        raise CountFailed("The endpoint's answer is not a plausible number.", again=True)
    return counted


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

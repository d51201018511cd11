"""Exact token counts from Anthropic's counting endpoint, if the settings name it.

Nothing that an agent waits for asks it: prompts are made by the estimate and counted afterwards.
"""

import hashlib

from django.conf import settings
from django.core.cache import cache

from memory.judge.endpoint import MAX_TOKENS_COUNTED, EndpointFailed, EndpointRefused
from memory.judge.registry import anthropic_endpoint, model_provider

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
    key = f"tokens:{model}:{hashlib.sha256(prompt.encode()).hexdigest()}"
    cached = cache.get(key)
    if cached is None:
        cached = _count_request(model, prompt) - _of_nothing(model)
        cache.set(key, cached, CACHE_SECONDS)
    return int(cached)


def _of_nothing(model: str) -> int:
    key = f"tokens:{model}"
    cached = cache.get(key)
    if cached is None:
        cached = _count_request(model, "")
        cache.set(key, cached, CACHE_SECONDS)
    return int(cached)


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

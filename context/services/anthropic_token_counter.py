"""Exact token counts from Anthropic's counting endpoint, if the settings name it.

Nothing that an agent waits for asks it: prompts are made by the estimate and counted afterwards.
"""

import hashlib

from django.conf import settings
from django.core.cache import cache

from memory.judge.anthropic_client import MAX_TOKENS_COUNTED, anthropic_client

NOTHING = "."
"""The shortest message: the endpoint does not count a system prompt alone, so the tokens of this are subtracted."""
CACHE_SECONDS = 3_600


class CountFailed(Exception):
    """A prompt could not be counted. `again`: it may be counted later, and no others should be tried now."""

    def __init__(self, message: str, *, again: bool) -> None:
        super().__init__(message)
        self.again = again


def counts_exactly() -> bool:
    """Whether the settings name an endpoint that counts."""
    return bool(settings.COUNTER == "anthropic")


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
    # Imported here: the SDK takes long to import, and many an installation counts nothing.
    import anthropic

    client = anthropic_client(settings.COUNTER_TIMEOUT_SECONDS)
    try:
        answer = client.messages.count_tokens(
            model=model,
            system=prompt or anthropic.omit,
            messages=[{"role": "user", "content": NOTHING}],
        )
    except anthropic.APIStatusError as error:
        # Only a refusal of this very prompt says nothing about the next one.
        raise CountFailed(
            f"The endpoint answered {error.status_code}.", again=error.status_code not in (400, 413)
        ) from error
    except (anthropic.APIError, ValueError) as error:
        raise CountFailed("The endpoint cannot be reached, or its answer is invalid.", again=True) from error
    counted = getattr(answer, "input_tokens", None)
    if not isinstance(counted, int) or not 0 <= counted <= MAX_TOKENS_COUNTED:
        raise CountFailed("The endpoint's answer is not a plausible number.", again=True)
    return counted

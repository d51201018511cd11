"""The judge and the model's endpoint of the settings, created once per process."""

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from django.conf import settings

from memory.judge.endpoint import ModelEndpoint
from memory.judge.model_judge import Judge

if TYPE_CHECKING:
    from memory.judge.anthropic import AnthropicEndpoint

BRIEF_TIMEOUT_SECONDS = 10.0
PROVIDERS = ("anthropic", "openai")
"""Each is also the name of its module."""

Endpoint = TypeVar("Endpoint", bound=ModelEndpoint)

_judges: dict[tuple[object, ...], Judge] = {}
_endpoints: dict[tuple[object, ...], Any] = {}
_making = threading.Lock()


def configured_judge(*, waiting: bool = False) -> Judge | None:
    """The judge of the settings, or None if there is none and people resolve all reviews.

    With `waiting`, a request waits for the reply: the judge has a short timeout and no retries. If it fails, the worker
    calls it again.
    """
    if settings.JUDGE == "none":
        return None
    endpoint = model_endpoint()
    timeout = min(settings.JUDGE_TIMEOUT_SECONDS, BRIEF_TIMEOUT_SECONDS) if waiting else settings.JUDGE_TIMEOUT_SECONDS
    retries = 0 if waiting else settings.JUDGE_RETRIES
    made_of = (id(endpoint), settings.JUDGE_MODEL, timeout, retries)
    with _making:
        if made_of not in _judges:
            _judges[made_of] = Judge(endpoint, settings.JUDGE_MODEL, timeout=timeout, retries=retries)
        return _judges[made_of]


def model_provider() -> str:
    """The provider of the settings: the judge's; without a judge, that of the key; "" without a key."""
    if settings.JUDGE != "none":
        return str(settings.JUDGE)
    return "anthropic" if settings.ANTHROPIC_API_KEY else "openai" if settings.OPENAI_API_KEY else ""


def model_endpoint() -> ModelEndpoint:
    """The endpoint of `model_provider`, which must not be ""."""
    if model_provider() == "anthropic":
        return anthropic_endpoint()
    from memory.judge.openai import OpenAIEndpoint

    return _made(OpenAIEndpoint, settings.OPENAI_API_KEY)


def anthropic_endpoint() -> "AnthropicEndpoint":
    """Anthropic's endpoint, which also counts tokens."""
    # An SDK takes long to import, and many an installation has no model.
    from memory.judge.anthropic import AnthropicEndpoint

    return _made(AnthropicEndpoint, settings.ANTHROPIC_API_KEY)


def _made(kind: Callable[[str, str], Endpoint], key: str) -> Endpoint:
    # A connection that a process inherited from its parent belongs to both of them, so each makes its own.
    made_of = (os.getpid(), kind, key, settings.JUDGE_BASE_URL)
    with _making:
        if made_of not in _endpoints:
            _endpoints[made_of] = kind(key, settings.JUDGE_BASE_URL)
        return _endpoints[made_of]

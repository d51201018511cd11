"""The judge of the settings, created once per process."""

import os
import threading

from django.conf import settings

from memory.judge.protocol import Judge

BRIEF_TIMEOUT_SECONDS = 10.0

_made: dict[tuple[object, ...], Judge] = {}
_making = threading.Lock()


def configured_judge(*, waiting: bool = False) -> Judge | None:
    """The judge of the settings, or None if there is none and people resolve all reviews.

    With `waiting`, a request waits for the reply: the judge has a short timeout and no retries. If it fails, the worker
    calls it again.
    """
    if settings.JUDGE == "none":
        return None
    timeout = min(settings.JUDGE_TIMEOUT_SECONDS, BRIEF_TIMEOUT_SECONDS) if waiting else settings.JUDGE_TIMEOUT_SECONDS
    made_of = (
        settings.JUDGE_MODEL,
        settings.ANTHROPIC_API_KEY,
        settings.JUDGE_BASE_URL,
        timeout,
        0 if waiting else settings.JUDGE_RETRIES,
    )
    # A connection that a process inherited from its parent belongs to both of them, so each makes its own.
    mine = (os.getpid(), *made_of)
    with _making:
        if mine not in _made:
            _made[mine] = _make(*made_of)
        return _made[mine]


def _make(model: str, key: str, base_url: str, timeout: float, retries: int) -> Judge:
    # Imported here: the SDK takes long to import and many an installation has no judge.
    from memory.judge.anthropic import AnthropicJudge

    return AnthropicJudge(model, key=key, base_url=base_url, timeout=timeout, retries=retries)

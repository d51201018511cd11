"""Clients of Anthropic's SDK, for everything that asks a model or counts tokens: each request ends in time."""

import os
import threading
from functools import lru_cache
from http.client import HTTPException
from typing import TYPE_CHECKING

from django.conf import settings

from nousweb.lib.http_exchange import http_exchange

if TYPE_CHECKING:
    import anthropic

MAX_TOKENS_COUNTED = 10_000_000
"""A larger number of tokens in an answer counts as this: a server may answer any number."""

_making = threading.Lock()


def anthropic_client(timeout: float) -> "anthropic.Anthropic":
    """The client of this process for the settings; a request takes at most `timeout` seconds, without retries."""
    with _making:
        return anthropic_client_made(settings.ANTHROPIC_API_KEY, settings.JUDGE_BASE_URL, timeout, os.getpid())


@lru_cache(maxsize=8)
def anthropic_client_made(key: str, base_url: str, timeout: float, process: int = 0) -> "anthropic.Anthropic":
    """A client. The SDK's own retries are off, since it sleeps for any time in a server's Retry-After, even a day."""
    # Imported here: the SDK takes long to import, and many an installation has no key.
    import anthropic
    import httpx2

    class Transport(httpx2.BaseTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            headers = {name: value for name, value in request.headers.items() if name not in ("host", "connection")}
            try:
                answer = http_exchange(
                    str(request.url), request.read(), headers, seconds=timeout, method=request.method
                )
            except TimeoutError as error:
                raise httpx2.ReadTimeout(str(error), request=request) from error
            except (OSError, HTTPException, ValueError) as error:
                raise httpx2.ReadError(str(error), request=request) from error
            return httpx2.Response(answer.status, headers=answer.headers, content=answer.body)

    client = httpx2.Client(transport=Transport())
    return anthropic.Anthropic(api_key=key, base_url=base_url, timeout=timeout, max_retries=0, http_client=client)


def tokens_counted(value: object) -> int:
    """A number of tokens in an answer, between 0 and MAX_TOKENS_COUNTED; 0 for anything else."""
    return min(value, MAX_TOKENS_COUNTED) if isinstance(value, int) and value > 0 else 0


def usage_counted(message: object) -> tuple[int, int]:
    """Input tokens of a message, cached ones included, and output tokens."""
    usage = getattr(message, "usage", None)
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    *tokens_in, tokens_out = (tokens_counted(getattr(usage, name, 0)) for name in names)
    return sum(tokens_in), tokens_out

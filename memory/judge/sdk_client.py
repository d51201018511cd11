"""HTTP clients for the SDKs of models, and their errors as ours."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any

import httpx2

from memory.judge.endpoint import EndpointGarbled, EndpointRefused, EndpointTimeout, EndpointUnreachable
from nousweb.lib.http_exchange import TOO_LATE, http_exchange


class _BoundedTransport(httpx2.BaseTransport):
    """Each request ends within its timeout, with an answer of bounded size and depth. `unsent` headers are left out."""

    def __init__(self, unsent: Sequence[str]) -> None:
        self._unsent = ("host", "connection", *unsent)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = {name: value for name, value in request.headers.items() if name not in self._unsent}
        seconds = request.extensions["timeout"]["read"]
        if seconds <= 0:
            raise httpx2.ReadTimeout(TOO_LATE, request=request)
        try:
            answer = http_exchange(str(request.url), request.read(), headers, seconds=seconds, method=request.method)
        except TimeoutError as error:
            raise httpx2.ReadTimeout(str(error), request=request) from error
        except (OSError, HTTPException, ValueError) as error:
            raise httpx2.ReadError(str(error), request=request) from error
        return httpx2.Response(answer.status, headers=answer.headers, content=answer.body)


def bounded_client(unsent: Sequence[str] = ()) -> httpx2.Client:
    """A client for an SDK. The SDK's own retries must be off, since it sleeps as long as a Retry-After says."""
    return httpx2.Client(transport=_BoundedTransport(unsent))


@contextmanager
def errors_translated(sdk: Any) -> Iterator[None]:
    """Raise the errors of `sdk` as EndpointFailed; the SDKs of Anthropic and OpenAI name them alike."""
    try:
        yield
    except sdk.APITimeoutError as error:
        raise EndpointTimeout from error
    except sdk.APIConnectionError as error:
        raise EndpointUnreachable from error
    except sdk.APIStatusError as error:
        retry_after = _retry_after_seconds(error.response.headers.get("retry-after"))
        raise EndpointRefused(error.status_code, retry_after=retry_after, said=str(error)) from error
    except (sdk.APIError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise EndpointGarbled from error


def _retry_after_seconds(retry_after: str | None) -> float | None:
    try:
        return min(max(0.0, float(retry_after or "")), 24 * 3600.0)
    except ValueError:
        return None

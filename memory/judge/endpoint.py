"""What is asked of a model's endpoint, whatever its protocol: requests, replies, errors and HTTP clients."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from http.client import HTTPException
from typing import Any, Protocol

import httpx2

from memory.judge.prompts import Task
from nousweb.lib.http_exchange import TOO_LATE, http_exchange, retry_after_seconds
from nousweb.lib.token_estimate import estimate_tokens


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
        retry_after = retry_after_seconds(error.response.headers.get("retry-after"))
        raise EndpointRefused(error.status_code, retry_after=retry_after, said=_message_of(error)) from error
    except (sdk.APIError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise EndpointGarbled from error


def _message_of(error: Any) -> str:
    """What the server says in an error: its message where it has one, at whatever depth the SDK leaves it."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else body
    message = inner.get("message") if isinstance(inner, dict) else inner
    return message if isinstance(message, str) and message else str(error)


MAX_TOKENS_COUNTED = 10_000_000
"""A larger number of tokens in an answer counts as this: a server may answer any number."""


class Stop(StrEnum):
    """Why a reply ended."""

    END = "end"
    CUT = "cut"
    REFUSED = "refused"
    TOO_LONG = "too_long"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """`messages`: pairs of role ("user", "assistant") and text. `timeout`: seconds for all of it. With a `task` the
    reply is the task's answer, else text."""

    model: str
    system: str
    messages: Sequence[tuple[str, str]]
    max_tokens: int
    timeout: float
    task: Task | None = None


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A reply; nothing in it is checked. `answer`: the JSON value for the task, None if there is none."""

    stop: Stop
    tokens_in: int
    tokens_out: int
    model: str
    reply_id: str
    text: str = ""
    answer: Any = None


class ModelEndpoint(Protocol):
    """Safe to call from many threads."""

    kind: str

    def send(self, request: ModelRequest) -> ModelReply:
        """Send one request. Raises EndpointFailed."""
        ...


class EndpointFailed(Exception):
    """There is no reply."""


class EndpointTimeout(EndpointFailed):
    """There was no reply in time."""


class EndpointUnreachable(EndpointFailed):
    """There was no connection, or it broke."""


class EndpointGarbled(EndpointFailed):
    """The reply is something else than a message."""


class EndpointRefused(EndpointFailed):
    """An HTTP error. `said` is the server's text, untrusted."""

    def __init__(self, status: int, *, retry_after: float | None, said: str) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.retry_after = retry_after
        self.said = said


def tokens_counted(value: object) -> int:
    """A number of tokens in an answer, between 0 and MAX_TOKENS_COUNTED; 0 for anything else."""
    return min(value, MAX_TOKENS_COUNTED) if isinstance(value, int) and value > 0 else 0


def reply_made(
    request: ModelRequest, raw: Any, *, stop: Stop, text: str, answer: Any, used: tuple[int, int]
) -> ModelReply:
    """The reply for an SDK's object. Tokens `used` that the server does not report are estimated."""
    asked = [request.system, *(content for _, content in request.messages)]
    return ModelReply(
        stop=stop,
        tokens_in=used[0] or sum(map(estimate_tokens, asked)),
        tokens_out=used[1] or estimate_tokens(text or str(answer or "")),
        model=str(getattr(raw, "model", None) or request.model)[:100],
        reply_id=str(getattr(raw, "id", None) or "")[:100],
        text=text,
        answer=answer,
    )

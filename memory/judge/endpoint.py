"""What is asked of a model's endpoint, whatever its protocol: requests, replies and errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from memory.judge.prompts import Task
from nousweb.lib.token_estimate import estimate_tokens

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

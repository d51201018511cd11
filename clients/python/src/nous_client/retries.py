"""Sending of calls: tries, waiting times, and the meaning of answers. The same for both clients, which do the sending.

`Attempts` is asked after each try: it returns the seconds to wait before the next one, or raises the error for the
caller.
"""

import os
import random
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx2
from pydantic import BaseModel, ValidationError

from nous_client.calls import Call
from nous_client.errors import NousError, Unreachable, refusal

Answer = TypeVar("Answer", bound=BaseModel)

AGAIN = frozenset({429, 503})
"""The server says that nothing has changed and when to come back."""
LONGEST_WAIT = 60.0
"""Seconds; a call that the server asks to wait longer raises instead."""


@dataclass(frozen=True)
class Settings:
    """The server's address, the token, and the patience of the client.

    `timeout` is in seconds; `retries` is how often a call is sent again after the first try.
    """

    url: str
    token: str
    timeout: float
    retries: int

    @classmethod
    def of(cls, url: str | None, token: str | None, timeout: float, retries: int) -> "Settings":
        """As given, or else from NOUS_URL and NOUS_TOKEN. Raises NousError without a token."""
        url = url or os.environ.get("NOUS_URL") or "http://127.0.0.1:8000"
        token = token or os.environ.get("NOUS_TOKEN", "")
        if not token:
            raise NousError("Give a token, or set NOUS_TOKEN to one.")
        return cls(url.rstrip("/"), token, timeout, retries)

    @property
    def client_arguments(self) -> dict[str, Any]:
        """The arguments of the HTTP client."""
        return {
            "base_url": f"{self.url}/api/",
            "headers": {"Authorization": f"Bearer {self.token}", "User-Agent": "nous-client/0.1.0"},
            "timeout": self.timeout,
        }


def request_of(call: Call[Any]) -> dict[str, Any]:
    """`call` as arguments of the HTTP client."""
    query = {name: str(value).lower() if isinstance(value, bool) else value for name, value in call.query.items()}
    return {"method": call.method, "url": call.path, "params": query, "json": call.body}


@dataclass
class Attempts:
    """The tries of one call."""

    call: Call[Any]
    retries: int
    made: int = field(default=0, init=False)

    def after_answer(self, response: httpx2.Response) -> float | None:
        """Seconds until the next try; None where the answer is the last word."""
        self.made += 1
        if response.status_code not in AGAIN or self.made > self.retries:
            return None
        wait = _seconds(response.headers.get("Retry-After"), self._backoff())
        return wait if wait <= LONGEST_WAIT else None

    def after_failure(self, error: httpx2.TransportError) -> float:
        """Seconds until the next try. Raises Unreachable after the last one, or where a second try could do harm."""
        self.made += 1
        sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
        if self.made > self.retries or (sent and not self.call.repeatable):
            raise Unreachable(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from error
        return self._backoff()

    def _backoff(self) -> float:
        """Doubling from a quarter of a second; spread, so that many clients don't come back at once."""
        return float(min(0.25 * 2 ** (self.made - 1), 8.0) * random.uniform(0.5, 1.0))  # noqa: S311


def answer_of(call: Call[Answer], response: httpx2.Response) -> Answer:
    """The answer to `call`. Raises Refused for a refusal, NousError for a response that is none of this API."""
    if response.status_code >= 400:
        try:
            problem = response.json()
        except ValueError:
            problem = {}
        raise refusal(response.status_code, problem if isinstance(problem, dict) else {})
    try:
        return call.answer.model_validate_json(response.content or b"null")
    except ValidationError as error:
        raise NousError(f"The answer of {call.path} is not that of a Nous Web server: {error}") from error


def _seconds(stated: str | None, otherwise: float) -> float:
    try:
        return max(float(stated or ""), 0.0)
    except ValueError:
        return otherwise

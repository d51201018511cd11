"""One call as raw as a web server would hand it over, what came of it, and how to make it again."""

import io
import logging
import os
import random
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

from django.http import HttpResponse
from django.test import Client

from tests.http import wsgi_application

SHOWN = 2_000
"""Characters of a body that a report shows."""
LINES_SHOWN = 16
"""The last lines of a traceback that a report shows."""


def seed_of(default: int) -> int:
    """The seed of this run: FUZZ_SEED, or always the same."""
    return int(os.environ.get("FUZZ_SEED", default))


@dataclass(frozen=True, slots=True)
class Call:
    """A request. `path` is bytes after unquoting, as WSGI has it; `kind` says what sort of call it is."""

    kind: str
    who: str
    method: str
    path: bytes
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = "application/json"

    def __str__(self) -> str:
        shown = self.body if len(self.body) <= SHOWN else self.body[:SHOWN] + b"... of %d bytes" % len(self.body)
        return (
            f"{self.method} {self.path!r} ?{self.query[:SHOWN]!r} as {self.who}\n"
            f"    headers {dict(self.headers)!r:.3000}\n    {self.content_type!r} {shown!r}"
        )

    def send(self, client: Client, extra: Mapping[str, str] | None = None) -> HttpResponse:
        """Make the call through the whole middleware stack; `extra` are headers that the caller always sends."""
        environ = {
            "REQUEST_METHOD": self.method,
            "PATH_INFO": self.path.decode("latin-1"),
            "QUERY_STRING": self.query.encode("utf-8", "surrogatepass").decode("latin-1"),
            # Ends where the body ends, as a connection does, whatever length is stated.
            "wsgi.input": io.BytesIO(self.body),
            "CONTENT_LENGTH": str(len(self.body)),
            "CONTENT_TYPE": self.content_type.encode().decode("latin-1"),
            "SERVER_NAME": "testserver",
        }
        for name, text in {**(extra or {}), **self.headers}.items():
            key = name.upper().replace("-", "_")
            # As a web server hands headers over: bytes, read as Latin-1.
            environ[key if key == "CONTENT_LENGTH" else f"HTTP_{key}"] = text.encode("utf-8", "surrogatepass").decode(
                "latin-1"
            )
        return client.request(**environ)


class Log(logging.Handler):
    """Keeps the last traceback that was logged while it is installed."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said = ""

    def emit(self, record: logging.LogRecord) -> None:
        if sys.exc_info()[0] is not None:
            self.said = traceback.format_exc()
        elif record.exc_info and record.exc_info[0]:
            self.said = "".join(traceback.format_exception(*record.exc_info))


class Fuzzer:
    """Sends calls, counts them by kind and status, and keeps one finding for each place that broke."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.statuses: Counter[int] = Counter()
        self.kinds: Counter[str] = Counter()
        self.findings: dict[str, str] = {}
        self.log = Log()
        self.sent = 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Let every traceback that the product logs be part of a finding."""
        root = logging.getLogger()
        others = root.handlers[:]
        root.handlers = [self.log]
        try:
            # The test client makes Django's own requests, the product those of its WSGI handler.
            with mock.patch("django.test.client.WSGIRequest", wsgi_application().request_class):
                yield
        finally:
            root.handlers = others

    def send(self, call: Call, client: Client, extra: Mapping[str, str] | None = None) -> HttpResponse:
        """Make the call; what the product lets escape counts as an answer of 500."""
        self.log.said = ""
        self.sent += 1
        self.kinds[call.kind] += 1
        try:
            answer = call.send(client, extra)
        except Exception:
            answer = HttpResponse(status=500)
            self.log.said = traceback.format_exc()
        client.exc_info = None
        self.statuses[answer.status_code] += 1
        if answer.status_code >= 500:
            self._keep(call, f"{answer.status_code}", self.log.said)
        elif answer.status_code >= 400 and call.path.startswith(b"/api/") and call.method != "HEAD":
            stated = answer.get("Content-Type", "")
            if stated != "application/problem+json":
                self._keep(call, f"{answer.status_code} as {stated!r}, no problem document", "")
        return answer

    def _keep(self, call: Call, what: str, said: str) -> None:
        lines = [line for line in said.strip().splitlines() if line.strip()]
        frames = [line.strip() for line in lines if line.lstrip().startswith("File ") and "site-packages" not in line]
        place = f"{what} {frames[-1] if frames else ''} {lines[-1][:80] if lines else ''}"
        last = "\n".join(f"    {line}" for line in lines[-LINES_SHOWN:])
        if place not in self.findings:
            self.findings[place] = f"call {self.sent} of seed {self.seed}: {what}\n  {call}\n{last}"
            # At once, for whoever watches a long run with -s.
            print(self.findings[place])

    def report(self) -> str:
        kinds = ", ".join(f"{name} {count:,}" for name, count in sorted(self.kinds.items()))
        statuses = ", ".join(f"{status}: {count:,}" for status, count in sorted(self.statuses.items()))
        return f"{self.sent:,} calls of seed {self.seed} ({kinds}) answered {statuses}"

    def check(self) -> None:
        """Fail, with what makes each call again, when anything answered 5xx."""
        print(self.report())
        assert not self.findings, f"{self.report()}\n\n" + "\n\n".join(self.findings.values())

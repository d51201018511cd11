"""What the client does when a server is away, busy or silent: one that plays these parts takes its place here."""

import httpx2
import pytest
from nous_client import Nous, TooManyRequests, Unavailable, Unreachable

FACT = {"action": "stored", "fact": None, "review": None, "superseded": []}


class Script(httpx2.BaseTransport):
    """Answers with its steps in order: a status, a status with Retry-After, or an error of the transport."""

    def __init__(self, *steps):
        self.steps = list(steps)
        self.bodies = []

    def handle_request(self, request):
        self.bodies.append(request.read())
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        status, headers = step if isinstance(step, tuple) else (step, {})
        body = {"events": []} if status < 400 else {"code": "busy", "detail": "Later."}
        return httpx2.Response(status, headers=headers, json=body)


@pytest.fixture
def waits(monkeypatch):
    found = []
    monkeypatch.setattr("nous_client.client.time.sleep", found.append)
    return found


def client(script, **more):
    return Nous("http://nowhere.example", "nous_x", transport=script, **more)


@pytest.mark.parametrize("status", [429, 503])
def test_busy_server_is_asked_again_when_it_says(waits, status):
    script = Script((status, {"Retry-After": "7"}), 200)
    client(script).log_events([{"kind": "error", "content": "x"}])
    assert waits == [7.0]


def test_same_key_is_sent_again(waits):
    script = Script(httpx2.ReadTimeout("silent"), 503, 200)
    client(script).log_events([{"kind": "error", "content": "x"}])
    assert len(set(script.bodies)) == 1
    assert b'"key":' in script.bodies[0]
    assert len(waits) == 2
    assert all(0 < wait <= 8 for wait in waits)


def test_lost_answer_of_what_must_not_be_done_twice_is_an_error(waits):
    script = Script(httpx2.ReadTimeout("silent"), 200)
    with pytest.raises(Unreachable, match="ReadTimeout"):
        client(script).open_episode("Release")
    assert len(script.bodies) == 1


def test_call_that_never_left_is_sent_again(waits):
    script = Script(httpx2.ConnectError("refused"), (503, {}), 422)
    with pytest.raises(Exception, match="Later"):
        client(script).open_episode("Release")
    assert len(script.bodies) == 3


def test_tries_end(waits):
    with pytest.raises(Unavailable):
        client(Script(*[503] * 5), retries=2).identity()
    assert len(waits) == 2
    with pytest.raises(TooManyRequests):
        client(Script((429, {"Retry-After": "3600"}), 200)).identity()
    with pytest.raises(Unreachable):
        client(Script(*[httpx2.ConnectError("refused")] * 9), retries=3).identity()
    assert len(waits) == 5

"""The web server before the application: what is let in, in which order, and what is answered without it."""

import http.client
import json
import os
import queue
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nousweb.lib.caller_identity import caller_accepted, caller_of, caller_refused
from nousweb.runtime.web_worker.admission import Admission, LastWaiterQueue, WarmThreadPool
from nousweb.runtime.web_worker.connection import Limits, RequestRejected, head_of
from tests.product import Product, product_running, until

LIMITS = Limits(
    threads=4, connections=100, concurrency=2, queue=3, token_rate=0, address_rate=0, trust_proxy=False,
    large_bytes=1000, large_at_once=1, queue_bytes=5000,
)  # fmt: skip


@dataclass(eq=False)
class Item:
    caller: str
    size: int = 0


def taken(admission: Admission) -> list[str]:
    found = []
    while (item := admission.take()) is not None:
        found.append(item.caller)
    return found


def test_threads_that_were_busy_last_are_asked_first() -> None:
    pool, together = WarmThreadPool(8), threading.Barrier(8)
    assert len({one.result(10) for one in [pool.submit(_thread_once, together) for _ in range(8)]}) == 8
    # One that has just answered may not wait yet when the next request comes.
    one_by_one = {pool.submit(threading.get_ident).result(10) for _ in range(100)}
    assert len(one_by_one) <= 4
    pool.shutdown()
    with pytest.raises(RuntimeError):
        pool.submit(threading.get_ident)


def _thread_once(together: threading.Barrier) -> int:
    together.wait(10)
    return threading.get_ident()


def test_waiting_requests_keep_their_order() -> None:
    waiting = LastWaiterQueue()
    for number in range(3):
        waiting.put(number)
    assert [waiting.get(), waiting.get_nowait(), waiting.get()] == [0, 1, 2]
    with pytest.raises(queue.Empty):
        waiting.get_nowait()


def test_admission_gives_callers_turns_and_none_all_threads() -> None:
    admission = Admission(LIMITS)
    assert [admission.offer(Item("greedy")) for _ in range(5)] == [True, True, True, False, False]
    assert admission.offer(Item("modest"))
    assert taken(admission) == ["greedy", "modest", "greedy"]


def test_admission_gives_a_free_thread_to_who_waits() -> None:
    admission = Admission(LIMITS)
    first = [Item("greedy") for _ in range(3)]
    assert all(admission.offer(item) for item in first)
    assert taken(admission) == ["greedy", "greedy"]
    admission.done(first[0])
    assert taken(admission) == ["greedy"]
    assert admission.busy == 2


def test_admission_reads_large_bodies_one_at_a_time_beside_small_ones() -> None:
    admission = Admission(LIMITS)
    large = [Item("one", 1000), Item("two", 1000)]
    for item in large:
        assert admission.offer(item)
    assert admission.offer(Item("three"))
    assert taken(admission) == ["one", "three"]
    admission.done(large[0])
    assert taken(admission) == ["two"]


def test_admission_bounds_the_waiting_bytes_of_a_caller() -> None:
    admission = Admission(LIMITS)
    assert [admission.offer(Item("one", 2000)) for _ in range(3)] == [True, True, False]


def test_admission_rate_refills_with_time() -> None:
    admission = Admission(LIMITS)
    waits = [admission.retry_after("one", 60, 100.0) for _ in range(12)]
    assert waits == [0] * 10 + [1, 1]
    assert admission.retry_after("other", 60, 100.0) == 0
    assert admission.retry_after("one", 60, 103.0) == 0


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    settings = {"NOUS_WEB_CONNECTIONS": "40", "NOUS_TOKEN_QUEUE": "5", "NOUS_TOKEN_CONCURRENCY": "1"}
    settings |= {"NOUS_EMBEDDER": "local", "NOUS_EMBED_MODEL": ""}
    with product_running("front", **settings) as running:
        running.web()
        until("ready", lambda: running.call("GET", "/events")[0] == 200)
        yield running


def test_application_is_loaded_before_the_fork_without_a_connection_that_processes_would_share(
    product: Product,
) -> None:
    process = Path(f"/proc/{product.programs[0].pid}")
    if not process.is_dir():
        pytest.skip("This system has no /proc.")
    files = [os.readlink(file) for file in (process / "fd").iterdir()]
    assert sum(file.startswith("socket:") for file in files) == 1, "only that which listens"
    maps = (process / "maps").read_text()
    assert "pydantic" in maps
    assert "onnxruntime" in maps, "the model, which each worker would load for itself"


def served_beside(product: Product, **variables: str) -> int:
    """The process of another web server on the same data, as soon as it answers."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    program = product.start("-m", "gunicorn", "-c", "python:nousweb.runtime.gunicorn", NOUS_PORT=str(port), **variables)

    def status() -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("GET", "/login/")
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    until("serving", lambda: program.poll() is not None or status() == 200)
    assert program.poll() is None
    return program.pid


def test_server_starts_where_the_library_of_the_model_does_not(product: Product, tmp_path: Path) -> None:
    (tmp_path / "onnxruntime.py").write_text("raise RuntimeError('This processor lacks an instruction.')")
    tmp_path.chmod(0o755)
    served_beside(product, PYTHONPATH=str(tmp_path))
    log = (product.folder / "programs.log").read_text()
    assert log.count("model_not_loaded") == 1
    assert "This processor lacks an instruction." in log


def test_model_whose_threads_no_fork_would_keep_is_loaded_by_each_worker(product: Product) -> None:
    pid = served_beside(product, NOUS_EMBED_THREADS="2")
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if not children.is_file():
        pytest.skip("This system has no /proc.")
    assert "onnxruntime" not in Path(f"/proc/{pid}/maps").read_text()
    (worker,) = children.read_text().split()
    until("loaded", lambda: "onnxruntime" in Path(f"/proc/{worker}/maps").read_text(), patience=30)


def talk(product: Product, *parts: bytes) -> bytes:
    """What comes back for some bytes."""
    with socket.create_connection(("127.0.0.1", product.port), timeout=60) as one:
        for part in parts:
            one.sendall(part)
        answer = b""
        while data := one.recv(65536):
            answer += data
        return answer


def refused(answer: bytes, status: int, code: str) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode()), answer[:500]
    assert b"application/problem+json" in head
    problem = json.loads(body)
    assert (problem["status"], problem["code"]) == (status, code)


def authorized(product: Product, more: str) -> bytes:
    return (
        f"POST /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {product.token}\r\n"
        f"Content-Type: application/json\r\n{more}\r\n"
    ).encode()


EVENT = b'{"events": [{"kind": "user_input", "content": "Hello.", "loop_id": "loop"}]}'


def test_requests_in_pieces_or_together_are_answered_in_order(product: Product) -> None:
    probe = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    event = authorized(product, f"Content-Length: {len(EVENT)}\r\n") + EVENT
    for parts in ([probe + event + last], [bytes([byte]) for byte in probe + event + last]):
        answer = talk(product, *parts)
        assert re.findall(rb"HTTP/1\.1 (\d+) ", answer) == [b"200", b"201", b"302"]


def test_body_announced_is_asked_for(product: Product) -> None:
    head = authorized(product, f"Content-Length: {len(EVENT)}\r\nExpect: 100-continue\r\nConnection: close\r\n")
    with socket.create_connection(("127.0.0.1", product.port), timeout=60) as one:
        one.sendall(head)
        assert one.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        one.sendall(EVENT)
        assert one.recv(1000).startswith(b"HTTP/1.1 201 ")


def test_body_without_a_length_or_too_long_is_refused_without_a_thread(product: Product) -> None:
    refused(talk(product, authorized(product, "Transfer-Encoding: chunked\r\n")), 411, "length_required")
    refused(talk(product, authorized(product, "Content-Length: 8388609\r\n"), b"x" * 500_000), 413, "too_large")
    refused(talk(product, b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 70_000), 431, "head_too_large")


def test_header_that_takes_too_long_is_answered_408(product: Product) -> None:
    refused(talk(product, b"GET /healthz HTTP/1.1\r\nHost: loc"), 408, "too_slow")


def test_connections_over_the_limit_close_the_longest_idle(product: Product) -> None:
    idle = [socket.create_connection(("127.0.0.1", product.port), timeout=60) for _ in range(60)]
    try:
        assert talk(product, b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        assert idle[0].recv(1) == b""
        idle[-1].sendall(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert idle[-1].recv(1000).startswith(b"HTTP/1.1 200 ")
    finally:
        for one in idle:
            one.close()


def test_token_with_too_many_waiting_requests_gets_429_and_loses_nothing(product: Product) -> None:
    events = [{"kind": "user_input", "content": f"Event {n}.", "loop_id": "many", "key": str(n)} for n in range(300)]
    body = json.dumps({"events": events}).encode()
    answers: list[http.client.HTTPResponse] = []

    def send() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", product.port, timeout=60)
        headers = {"Authorization": f"Bearer {product.token}", "Content-Type": "application/json"}
        connection.request("POST", "/api/events", body, headers)
        answers.append(connection.getresponse())

    threads = [threading.Thread(target=send) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = sorted({answer.status for answer in answers})
    assert statuses == [201, 429]
    refusals = [answer for answer in answers if answer.status == 429]
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in refusals)
    refused_text = json.loads(refusals[0].read())
    assert (refused_text["status"], refused_text["code"]) == (429, "too_many_requests")
    assert product.rows("SELECT count(*) FROM memory_event WHERE loop_id = 'many'") == [(300,)]


def test_answer_that_nobody_takes_holds_no_thread(product: Product) -> None:
    content = "x" * 150_000
    for number in range(8):
        body = {"events": [{"kind": "user_input", "content": content, "loop_id": f"large-{number}"}]}
        assert product.call("POST", "/events", body)[0] == 201
    ask = f"GET /api/events?limit=200 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {product.token}\r\n\r\n"
    deaf = []
    try:
        for _ in range(5):
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(("127.0.0.1", product.port))
            one.sendall(ask.encode())
            deaf.append(one)
        # The token has one thread, which must have come back from each of them.
        until("a thread is free", lambda: product.call("GET", "/events?limit=1")[0] == 200)
    finally:
        for one in deaf:
            one.close()


def test_rate_holds_for_a_token_and_for_an_address() -> None:
    with product_running("rates", NOUS_TOKEN_RATE="60", NOUS_ADDRESS_RATE="120", NOUS_TRUST_PROXY="1") as running:
        running.web()
        # The first call comes from an address; from then on the token is known.
        until("ready", lambda: running.call("GET", "/events")[0] == 200)
        by_token = [running.call("GET", "/events")[0] for _ in range(16)]
        assert by_token[:10] == [200] * 10
        assert 429 in by_token
        one, other = (
            f"GET /login/ HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 6.6.6.6, {address}\r\n"
            "Connection: close\r\n\r\n".encode()
            for address in ("192.0.2.1", "192.0.2.2")
        )
        statuses = [talk(running, one).split()[1] for _ in range(30)]
        assert statuses[:15] == [b"200"] * 15
        assert b"429" in statuses
        assert talk(running, other).split()[1] == b"200"
        assert talk(running, b"GET /healthz HTTP/1.0\r\n\r\n").split()[1] == b"200"


@pytest.mark.parametrize(
    "lengths",
    [
        ["Content-Length: 0000000000000016"], ["Content-Length: 99999999999999999999"], ["content-length: +16"],
        ["Content-Length: 0", "Content-Length: 16"], ["Content-Length : 16"], ["Content-Length:\v16"],
        [" Content-Length: 16"], ["Content-Length: 16, 16"], ["Content-Length:"],
    ],
)  # fmt: skip
def test_content_length_read_differently_by_two_readers_is_refused(lengths: list[str]) -> None:
    """What follows would be another request to one of them."""
    head = "\r\n".join(["POST /api/events HTTP/1.1", "Host: localhost", *lengths, "", ""]).encode()
    with pytest.raises(RequestRejected) as refused:
        head_of(bytearray(head + b"GET /smuggled HTTP/1.1"), LIMITS, 1_000_000)
    assert refused.value.status == 400


def test_request_smuggled_in_a_body_is_answered_once(product: Product) -> None:
    inner = b"GET /login/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", product.port), timeout=30) as client:
        length = str(len(inner)).zfill(16).encode()
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + length + b"\r\n\r\n" + inner)
        answer = b""
        while part := client.recv(65_536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_caller_is_the_same_token_in_any_spelling_of_its_header() -> None:
    caller_accepted("Bearer nous_secret")
    spellings = [b"Bearer nous_secret", b"bearer nous_secret", b"BEARER  nous_secret ", b"bEaReR nous_secret"]
    assert len({caller_of(one, "10.0.0.1") for one in spellings}) == 1
    assert caller_of(spellings[0], "10.0.0.1")[1]
    caller_refused("bearer nous_secret")
    assert caller_of(spellings[0], "10.0.0.1") == ("10.0.0.1", False)

"""Raw bytes at the real server: whatever its parser is sent, it answers below 500 or hangs up, and serves the next.

ATTACK_SCALE=full sends 1,000 requests; FUZZ_SEED=n others. A finding is printed as the bytes that make it again.
"""

import http.client
import random
import re
import socket
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.product import Product, product_running, until
from tests.security.fuzzing import hostile
from tests.security.fuzzing.calls import seed_of
from tests.security.scale import scaled

REQUESTS = scaled(60, 1_000)
SECONDS = 30
IDLE_SECONDS = 0.5
PATHS = (
    b"/", b"/healthz", b"/login/", b"/api/facts", b"/api/context", b"/api/events?limit=1", b"/static/favicon.svg", b"*",
    b"/\xff\xfe", b"/%00", b"//", b"/a b", b"http://evil.example/", b"/" + b"a" * 9_000, b"", b"/api/facts?q=%ff",
    b"/\r\n",
)  # fmt: skip
VERSIONS = (b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/9.9", b"http/1.1", b"HTTP/1.1.1", b"", b"PRI")
LINES = (
    b"Content-Length: 5\r\nContent-Length: 6", b"Content-Length: 5, 5", b"Content-Length: +5", b"Content-Length: 0x5",
    b"Content-Length: 99999999999999999999", b"Transfer-Encoding: chunked\r\nContent-Length: 5",
    b"Transfer-Encoding: xchunked", b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding : chunked",
    b"Transfer-Encoding: identity", b" folded: x", b"X: a\r\n b", b"no colon", b": empty", b"X\x00: y", b"X: \x00",
    b"X: \xff",
    b"\xff: x", b"X: " + b"y" * 9_000, b"\r\n".join(b"H%d: x" % n for n in range(200)), b"X_Y: z",
    b"Host: a\r\nHost: b",
    b"Expect: 100-continue", b"Upgrade: h2c\r\nConnection: Upgrade", b"Connection: close, keep-alive",
    b"Range: bytes=0-1",
    b"Content-Type: application/json; charset=hex", b"Content-Type: a; charset*=nothing''x",
    b"Content-Type: \xff;\xfe=",
)  # fmt: skip
CHUNKS = (
    b"5\r\nhello\r\n0\r\n\r\n",
    b"zz\r\n",
    b"-1\r\n",
    b"FFFFFFFFFFFFFFFFF\r\nx",
    b"5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
    b"5\r\nhel",
)


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    # Called from one address, as fast as it answers: its rate is somebody else's test.
    with product_running("fuzz", NOUS_ADDRESS_RATE="0", NOUS_TOKEN_RATE="0") as running:
        running.web()
        until("the server answers", lambda: alive(running))
        yield running


def alive(product: Product) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", product.port, timeout=SECONDS)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def request_of(rng: random.Random, token: str) -> bytes:
    """A request that is right in most places."""
    method = rng.choice((b"GET", b"POST", rng.choice(hostile.METHODS).encode(), b"", b"G\x00T", b"\xff"))
    version = rng.choice((b"HTTP/1.1", b"HTTP/1.1", rng.choice(VERSIONS)))
    lines = [method + b" " + rng.choice(PATHS) + b" " + version]
    if rng.random() < 0.9:
        lines.append(b"Host: localhost")
    if rng.random() < 0.6:
        lines.append(b"Authorization: Bearer " + token.encode())
    for name in rng.sample(sorted(hostile.HEADERS), rng.randint(0, 3)):
        lines.append(f"{name}: {rng.choice(hostile.HEADERS[name])}".encode("utf-8", "surrogatepass"))
    lines += rng.sample(LINES, rng.choice((0, 0, 1, 1, 2)))
    body = rng.choice((b"", rng.choice(hostile.BODIES), rng.choice(CHUNKS)))
    if rng.random() < 0.6:
        lines.append(b"Content-Length: %d" % (len(body) + rng.choice((0, 0, 0, 1, -1))))
    end = rng.choice((b"\r\n",) * 9 + (b"\n",))
    raw = end.join(lines) + end * 2 + body
    if rng.random() < 0.1:
        raw = raw[: rng.randrange(len(raw) + 1)]
    if rng.random() < 0.1 and raw:
        place = rng.randrange(len(raw))
        raw = raw[:place] + bytes([rng.randrange(256)]) + raw[place + 1 :]
    return raw


def answer_to(product: Product, raw: bytes) -> bytes:
    """What comes back. Who is not answered for a while says that no more will come, and then waits for the end."""
    with socket.create_connection(("127.0.0.1", product.port), timeout=IDLE_SECONDS) as connection:
        received = b""
        try:
            connection.sendall(raw)
            while part := connection.recv(65_536):
                received += part
        except TimeoutError:
            if not received:
                return rest_of(connection)
        except OSError:
            # It may hang up before it has read everything.
            pass
        return received


def rest_of(connection: socket.socket) -> bytes:
    """What comes back once this side has sent all."""
    received = b""
    connection.settimeout(SECONDS)
    try:
        connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(65_536):
            received += part
    except TimeoutError:
        return b"TIMEOUT " + received
    except OSError:
        pass
    return received


def test_fuzz_of_raw_bytes_gives_no_5xx_and_the_next_request_is_served(product):
    rng = random.Random(seed_of(1))
    statuses: Counter[str] = Counter()
    findings = []
    for number in range(REQUESTS):
        raw = request_of(rng, product.token)
        answer = answer_to(product, raw)
        found = [int(status) for status in re.findall(rb"^HTTP/1\.[01] (\d{3})", answer, re.MULTILINE)]
        statuses[str(found[0]) if found else answer[:7].decode("latin-1") or "hung up"] += 1
        if any(status >= 500 for status in found) or b"Traceback" in answer or answer.startswith(b"TIMEOUT"):
            findings.append(f"request {number} of seed {seed_of(1)}: {raw[:3_000]!r}\n    answered {answer[:300]!r}")
        if number % 50 == 49:
            assert alive(product), f"after request {number}: {raw[:3_000]!r}"
    print(f"{REQUESTS:,} requests: {dict(sorted(statuses.items()))}")
    assert not findings, f"{dict(statuses)}\n" + "\n".join(findings[:10])
    assert alive(product)
    assert "Traceback" not in (product.folder / "programs.log").read_text(errors="replace")

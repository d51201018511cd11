"""Messages in a real Redis, which is killed in between and loses them all."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator

import pytest

from tests.product import Product, kill, product_running, until

MACHINES = 5


class RedisServer:
    """A Redis of the test's own that keeps nothing on disk."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL, start_new_session=True)
        until("Redis answers", self.answers)

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        if self.process is not None:
            kill(self.process)
            self.process = None


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    if shutil.which("redis-server") is None:
        missing = "THE TESTS OF REDIS DID NOT RUN: no redis-server is installed (on Debian: apt install redis-server)"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    server = RedisServer()
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def product(redis: RedisServer) -> Iterator[Product]:
    with product_running("redis", NOUS_BROKER=redis.url) as running:
        yield running


def test_redis_broker_death_loses_no_job(product: Product, redis: RedisServer) -> None:
    product.web()
    until("the web server answers", lambda: product.call("GET", "/index")[0] == 200)

    def close(number: int) -> None:
        status, episode = product.call("POST", "/episodes", {"detail": f"Machine {number} was repaired."})
        assert status == 201
        assert product.call("POST", f"/episodes/{episode['id']}/close", {})[0] == 200

    def runs() -> list[tuple[object, ...]]:
        return product.rows(
            "SELECT status, attempts, count(*) FROM memory_job WHERE handler = 'episode_close' GROUP BY 1, 2"
        )

    def indexed() -> list[tuple[object, ...]]:
        return product.rows("SELECT status, count(*) FROM memory_searchitem WHERE item_type = 'episode' GROUP BY 1")

    close(0)
    assert product.rows("SELECT count(*) FROM django_q_ormq") == [(0,)]
    assert runs() == [("queued", 0, 1)]
    product.worker()
    until("the message is taken up", lambda: runs() == [("done", 1, 1)])
    until("the episode can be found", lambda: indexed() == [("ready", 1)])
    redis.kill()
    for number in range(1, MACHINES):
        close(number)
    assert ("queued", 0, MACHINES - 1) in runs()
    # It comes back knowing nothing, so every message is lost.
    redis.start()
    until("the worker has found everything by itself", lambda: runs() == [("done", 1, MACHINES)])
    until("every episode can be found", lambda: indexed() == [("ready", MACHINES)])

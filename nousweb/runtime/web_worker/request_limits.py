"""Limits of what clients may use of a web process, as data. .env.example describes the variables."""

from dataclasses import dataclass

from nousweb.lib.env import flag, read, whole

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """All limits hold for one web process; sizes are in bytes, times in seconds."""

    threads: int
    connections: int
    concurrency: int
    """Threads that one caller (a token, or an address without one) may use at a time."""
    queue: int
    """Requests of one caller that may wait for a thread; the next is rejected."""
    token_rate: int
    """Requests a minute of one token; 0 for no limit."""
    address_rate: int
    """Requests a minute of one address without a known token; 0 for no limit."""
    trust_proxy: bool
    head_seconds: float = 10.0
    head_bytes: int = 64 * 1024
    body_seconds: float = 20.0
    body_bytes_per_second: int = 64 * 1024
    """Minimum rate of a body: it may take `body_seconds`, and its length divided by this rate."""
    keepalive_seconds: float = 5.0
    send_seconds: float = 30.0
    """Maximum time in which a client must have read its response."""
    linger_seconds: float = 2.0
    wait_seconds: float = 30.0
    """Maximum time that a request waits for a thread."""
    large_bytes: int = 256 * 1024
    """Reading a body of this size stops the other threads of a process; `large_at_once` are read at a time."""
    large_at_once: int = 2
    queue_bytes: int = 64 * MEBIBYTE
    """Maximum size of the queued bodies of one caller."""
    held_bytes: int = 256 * MEBIBYTE
    """Maximum size of all received data that no thread processes yet."""

    @property
    def share(self) -> int:
        """Maximum number of threads of one caller: always fewer than all, unless there is only one."""
        return max(1, min(self.concurrency or self.threads // 2, self.threads - 1))


def limits_read(*, threads: int) -> Limits:
    """Read the limits from the environment. Raises BadSetting."""
    return Limits(
        threads=threads,
        connections=read("NOUS_WEB_CONNECTIONS", whole(16, 100_000), 1000),
        concurrency=read("NOUS_TOKEN_CONCURRENCY", whole(0, 64), 0),
        queue=read("NOUS_TOKEN_QUEUE", whole(1, 10_000), 100),
        token_rate=read("NOUS_TOKEN_RATE", whole(0, 10_000_000), 18_000),
        address_rate=read("NOUS_ADDRESS_RATE", whole(0, 10_000_000), 6_000),
        trust_proxy=read("NOUS_TRUST_PROXY", flag, False),
    )

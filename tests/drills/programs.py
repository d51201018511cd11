"""Programs of Debian that a larger installation has beside the product, each in a folder of its own."""

import contextlib
import os
import pwd
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from nousweb.runtime.bootstrap import program_path
from tests.product import PATIENCE, Product, tied


def program_needed(name: str) -> str:
    """Where a program is; the test is skipped, with this reason, where it is not installed."""
    found = program_path(name)
    if found is None:
        pytest.skip(f"{name} is not installed.")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def program_running(*command: str, port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that answers at a port; it is gone afterwards."""
    with log.open("ab") as said:
        program = subprocess.Popen(tied(*command), stdout=said, stderr=said, start_new_session=True)
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert program.poll() is None, log.read_text()[-2_000:]
            assert time.monotonic() < deadline, f"{command[0]} does not answer"
            time.sleep(0.05)
        yield program
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


@contextlib.contextmanager
def pooler_running(product: Product, *, connections: int) -> Iterator[str]:
    """pgbouncer in transaction mode before the product's database, with so many connections to it; its address.

    It runs as whoever the database belongs to, who alone may enter its folder.
    """
    program, port = program_needed("pgbouncer"), free_port()
    folder = product.folder / "pooler"
    folder.mkdir(exist_ok=True)
    owner = pwd.getpwuid(product.server.paths.cluster.stat().st_uid)
    with psycopg.connect(product.url) as direct:
        there = direct.info
        target = f"host={there.host} port={there.port} dbname={there.dbname} user={there.user}"
        name = there.dbname
    (folder / "pgbouncer.ini").write_text(f"""
[databases]
{name} = {target}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
logfile = {folder / "pgbouncer.log"}
""")
    os.chown(folder, owner.pw_uid, owner.pw_gid)
    as_owner = ["-u", owner.pw_name] if os.geteuid() == 0 else []
    with program_running(program, *as_owner, str(folder / "pgbouncer.ini"), port=port, log=folder / "said.log"):
        yield f"postgresql://nous@127.0.0.1:{port}/{name}"


@contextlib.contextmanager
def proxy_running(folder: Path, upstreams: list[int]) -> Iterator[int]:
    """nginx before web servers at some ports of this machine, as docs/operations.md has it; its own port."""
    program, port = program_needed("nginx"), free_port()
    folder.mkdir(exist_ok=True)
    servers = "\n".join(f"server 127.0.0.1:{each} max_fails=0;" for each in upstreams)
    temporary = "\n".join(
        f"{kind}_temp_path {folder / kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(f"""
daemon off;
pid {folder / "pid"};
error_log {folder / "error.log"};
events {{ worker_connections 512; }}
http {{
    access_log off;
    {temporary}
    upstream nous {{
        {servers}
        keepalive 16;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://nous;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_set_header X-Forwarded-Proto $scheme;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_next_upstream error timeout;
            proxy_connect_timeout 2s;
        }}
    }}
}}
""")
    with program_running(program, "-c", str(folder / "nginx.conf"), port=port, log=folder / "said.log"):
        yield port

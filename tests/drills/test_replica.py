"""A streaming replica of the product's database answers reads, and whoever wrote reads what they wrote."""

import http.client
import os
import pwd
import subprocess
import sys
import time
from urllib.parse import urlencode

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.drills.callers import Callers
from tests.drills.programs import free_port
from tests.product import PATIENCE, product_running, until
from tests.security.scale import scaled
from tests.security.test_erasure_under_load import PERSON, worker_done

CALLERS, SECONDS = 4, scaled(8, 15)


def owner_run(product, program, *arguments):
    """One of PostgreSQL's programs, as whoever the database belongs to."""
    owner = pwd.getpwuid(product.server.paths.cluster.stat().st_uid)
    account = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    path = product.server.paths.programs / "bin" / program
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE, **account)
    assert done.returncode == 0, done.stderr[-2_000:]


@pytest.fixture(scope="module")
def product():
    with product_running("replica") as running:
        superuser = running.server._url_of("postgres")
        folder = running.server.paths.cluster.parent / "replica"
        port = free_port()
        with psycopg.connect(running.url) as direct:
            sockets, name = direct.info.host, direct.info.dbname
        owner_run(running, "pg_basebackup", f"--dbname={superuser}", f"--pgdata={folder}", "--checkpoint=fast",
                  "--wal-method=stream", "--write-recovery-conf")  # fmt: skip
        owner_run(running, "pg_ctl", "start", "--wait", f"--pgdata={folder}", f"--log={folder}.log",
                  f"--options=-c port={port} -c unix_socket_directories={sockets} -c listen_addresses=")  # fmt: skip
        try:
            running.replica = make_conninfo(host=sockets, port=port, user="nous", dbname=name)
            running.replica_superuser = make_conninfo(host=sockets, port=port, user="postgres", dbname=name)
            address = f"postgresql://nous@/{name}?{urlencode({'host': sockets, 'port': port})}"
            running.environment |= {"DATABASE_REPLICA_URL": address, "NOUS_DB_KEEP_SECONDS": "600"}
            running.replica_folder = folder
            running.web()
            running.worker()
            until("the web server answers", lambda: running.call("GET", "/index")[0] == 200)
            yield running
        finally:
            owner_run(running, "pg_ctl", "stop", "--mode=immediate", f"--pgdata={folder}")


def read_from(product, path, **headers):
    """Status, what was read, and whether the replica answered."""
    connection = http.client.HTTPConnection("127.0.0.1", product.port, timeout=30)
    connection.request("GET", path, headers=headers or {"Authorization": f"Bearer {product.token}"})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, body, response.headers.get("Nous-Read-From") == "replica"


def replica_do(product, statement):
    with psycopg.connect(product.replica_superuser, autocommit=True) as replica:
        return replica.execute(statement).fetchall()


def test_who_wrote_reads_it_while_the_replica_is_behind(product):
    worker_done(product)
    product.call("POST", "/facts", {"content": "The well is deep.", "subject": "well"})
    until("the replica answers", lambda: read_from(product, "/api/facts?subject=well")[2])
    replica_do(product, "SELECT pg_wal_replay_pause()")
    until("it stands", lambda: replica_do(product, "SELECT pg_get_wal_replay_pause_state()") == [("paused",)])
    made = product.call("POST", "/facts", {"content": "The gate is shut.", "subject": "gate"})
    assert made[0] == 201
    status, body, replica = read_from(product, "/api/facts?subject=gate")
    assert (status, replica) == (200, False)
    assert b"The gate is shut." in body
    replica_do(product, "SELECT pg_wal_replay_resume()")
    until("the replica answers again", lambda: read_from(product, "/api/facts?subject=gate")[2])
    assert b"The gate is shut." in read_from(product, "/api/facts?subject=gate")[1]
    # A token that was revoked opens nothing, however far the replica is.
    replica_do(product, "SELECT pg_wal_replay_pause()")
    until("it stands", lambda: replica_do(product, "SELECT pg_get_wal_replay_pause_state()") == [("paused",)])
    with psycopg.connect(product.url) as primary:
        primary.execute("UPDATE identity_apitoken SET revoked_at = now()")
    assert read_from(product, "/api/facts?subject=gate")[0] == 401
    with psycopg.connect(product.url) as primary:
        primary.execute("UPDATE identity_apitoken SET revoked_at = NULL")
    replica_do(product, "SELECT pg_wal_replay_resume()")


def test_pages_are_read_from_the_replica_and_what_writes_from_the_primary(product):
    session, _ = product.run("-c", PERSON).split()
    pages = ("/", "/agents/", "/agents/ada/", "/inbox/", "/audit/", "/agents/ada/facts/", "/account/", "/lifecycle/")
    until("the replica answers", lambda: read_from(product, "/agents/", Cookie=f"sessionid={session}")[2])
    answers = {page: read_from(product, page, Cookie=f"sessionid={session}") for page in pages}
    found = {page: (status, replica) for page, (status, _, replica) in answers.items()}
    assert {status for status, _ in found.values()} <= {200, 302, 404}, found
    assert [status for status, _ in found.values()].count(200) >= 5, found
    assert found["/account/"] == (200, False)
    assert found["/agents/"] == (200, True)


def test_callers_at_once_read_what_they_wrote_and_no_read_fails_without_the_replica(product, capsys):
    callers, by_replica, reads = Callers(product.port, product.token), 0, 0
    with callers.calling(CALLERS):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for path in ("/api/facts", "/api/events", "/api/recall?q=ferry"):
                status, _, replica = read_from(product, path)
                assert status == 200
                reads, by_replica = reads + 1, by_replica + replica
            # Half-way it goes away and comes back.
            if end - SECONDS / 2 - 1 < time.monotonic() < end - SECONDS / 2:
                owner_run(product, "pg_ctl", "restart", "--wait", "--mode=immediate",
                          f"--pgdata={product.replica_folder}", f"--log={product.replica_folder}.log")  # fmt: skip
    with capsys.disabled():
        sys.stdout.write(
            f"\n{sum(callers.answers.values())} requests by {CALLERS} callers in {SECONDS} s, {len(callers.failures)}"
            f" failed, {len(callers.unread)} did not read what they wrote; of {reads} reads beside them {by_replica} by"
            " the replica\n"
        )
    assert callers.failures == []
    assert callers.unread == []
    until("the replica answers again", lambda: read_from(product, "/api/facts")[2])

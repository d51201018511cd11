"""The embedded server through its whole life, on clusters of its own."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from nousweb.runtime.postgres import EmbeddedServer, Lease, PostgresProblem, check_requirements
from nousweb.runtime.postgres.paths import LONGEST_SOCKET_PATH, SOCKET_NAME
from nousweb.runtime.postgres.server import STOP_SECONDS, SWITCH, DiskGuard
from nousweb.runtime.postgres.shared_server import LONGEST_PAUSE_SECONDS

PROJECT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def servers() -> Iterator[EmbeddedServer]:
    """One cluster for this module, in a path that a shell would trip over."""
    base = Path(tempfile.mkdtemp(prefix="nous-platform-"))
    base.chmod(0o755)
    folder = base / 'it\'s a "$HOME" folder'
    server = EmbeddedServer(folder, fast_unsafe=True, say=lambda line: None)
    yield server
    server.destroy()
    shutil.rmtree(base, ignore_errors=True)


@pytest.fixture
def server(servers: EmbeddedServer) -> Iterator[EmbeddedServer]:
    """The module's server, stopped before and after."""
    servers.stop()
    yield servers
    servers.stop()


def postmaster(server: EmbeddedServer) -> int:
    return int((server.paths.cluster / "postmaster.pid").read_text().split("\n")[0])


def setting(session: psycopg.Connection) -> str:
    row = session.execute(f"SHOW {SWITCH}").fetchone()
    assert row is not None
    return str(row[0])


def wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def refuse_start() -> None:
    raise PostgresProblem("The embedded PostgreSQL did not start: No space left on device.")


def kill_server(server: EmbeddedServer) -> None:
    """Kill the postmaster; return when it is gone and nobody listens.

    A child that it forked just before keeps its listening socket open for a moment.
    """
    pid = postmaster(server)
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while is_alive(pid) or server.running():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


class TestLifecycle:
    def test_server_starts_in_an_awkward_path_with_pgvector_and_without_superuser(self, server: EmbeddedServer) -> None:
        with psycopg.connect(server.start()) as connection:
            row = connection.execute(
                "SELECT current_user, current_database(), current_setting('is_superuser'),"
                " '[1,2]'::vector <-> '[1,3]'::vector, current_setting('listen_addresses')"
            ).fetchone()
        assert row == ("nous", "nous", "off", 1.0, "")
        assert server.start() == server.url

    def test_server_folder_is_private(self, server: EmbeddedServer) -> None:
        server.start()
        assert server.paths.home.stat().st_mode & 0o077 == 0
        assert server.paths.socket_dir.stat().st_mode & 0o077 == 0

    def test_server_keeps_its_data_over_a_restart(self, server: EmbeddedServer) -> None:
        server.start()
        with psycopg.connect(server.owner_url) as connection:
            connection.execute("CREATE TABLE kept (text text)")
        server.stop()
        assert not server.running()
        with psycopg.connect(server.start()) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)

    def test_server_starts_after_it_was_killed(self, server: EmbeddedServer) -> None:
        server.start()
        kill_server(server)
        with psycopg.connect(server.start()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)

    def test_server_starts_while_the_last_child_of_a_killed_one_still_listens(self, server: EmbeddedServer) -> None:
        server.start()
        kill_server(server)
        path = server.paths.socket_dir / SOCKET_NAME
        path.unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as child:
            child.bind(str(path))
            child.listen()
            ending = threading.Timer(0.3, child.close)
            ending.start()
            server.start()
            ending.join()
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)

    @pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
    def test_server_starts_when_its_old_process_number_is_in_use_again(self, server: EmbeddedServer) -> None:
        server.start()
        status = server.paths.cluster / "postmaster.pid"
        lines = status.read_text().split("\n")
        server.stop()
        with subprocess.Popen(["sleep", "60"], **server.paths.as_account()) as stranger:
            try:
                status.write_text("\n".join([str(stranger.pid), *lines[1:]]))
                status.chmod(0o600)
                server.paths.give(status)
                server.start()
                assert stranger.poll() is None
                assert server.running()
            finally:
                stranger.kill()

    def test_server_interrupted_first_start_leaves_nothing_that_looks_finished(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o755)
        server = EmbeddedServer(tmp_path, fast_unsafe=True, say=lambda line: None)
        unfinished = server.paths.home / "data.new"
        unfinished.mkdir()
        (unfinished / "PG_VERSION").write_text("18")
        try:
            assert server.start()
        finally:
            server.destroy()


class TestSharing:
    def test_lease_last_to_leave_stops_the_server(self, server: EmbeddedServer) -> None:
        first, second = Lease(server), Lease(server)
        assert first.join() == second.join()
        first.leave()
        assert server.running()
        second.leave()
        assert not server.running()

    def test_lease_members_that_start_at_once_share_one_server(self, server: EmbeddedServer) -> None:
        members = [Lease(EmbeddedServer(server.data_dir, fast_unsafe=True)) for _ in range(4)]
        threads = [threading.Thread(target=member.join) for member in members]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.running()
        for member in members:
            member.leave()
        assert not server.running()

    def test_lease_of_a_killed_member_ends_and_a_fork_stops_nothing(self, server: EmbeddedServer) -> None:
        member = Lease(server)
        member.join()
        program = (
            "import os; from nousweb.runtime.postgres import ensure_database_url as e;"
            " print(e(), flush=True); os.read(0, 1)"
        )
        environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
        environment["NOUS_DATA_DIR"] = str(server.data_dir)
        other = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=PROJECT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert other.stdout is not None
        assert other.stdout.readline().decode().strip() == server.url
        child = os.fork()
        if child == 0:
            member.leave()
            os._exit(0)
        os.waitpid(child, 0)
        assert server.running()
        other.kill()
        other.communicate()
        member.leave()
        assert not server.running()

    def test_revival_of_a_dead_server(self, server: EmbeddedServer) -> None:
        member = Lease(server)
        member.join()
        assert not member.revive()
        kill_server(server)
        assert member.revive()
        assert server.running()
        member.leave()

    def test_revival_of_a_server_that_dies_repeatedly_pauses_and_goes_on(
        self, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        member = Lease(server)
        member.join()
        pauses = []
        for _ in range(8):
            kill_server(server)
            assert member._pause == 0 or not member.revive(), "a pause is kept"
            member._tried -= member._pause
            assert member.revive()
            pauses.append(member._pause)
        assert pauses[:4] == [1, 2, 4, 8]
        assert pauses[-1] == LONGEST_PAUSE_SECONDS
        kill_server(server)
        monkeypatch.setattr(server, "_launch", refuse_start)
        member._tried -= member._pause
        with pytest.raises(PostgresProblem, match="No space left"):
            member.revive()
        assert not member.revive(), "a failure is paused after too"
        began = time.monotonic()
        member.leave()
        assert time.monotonic() - began < STOP_SECONDS / 2, "nobody waits for the end of what is dead"

    def test_disk_guard_refuses_changes_in_open_sessions_and_accepts_them_again(self, server: EmbeddedServer) -> None:
        url = server.start()
        full, roomy = DiskGuard(server.paths, 1 << 60), DiskGuard(server.paths, 1)
        roomy.refusing = True
        with psycopg.connect(url, autocommit=True) as session:
            for _ in range(2):
                size = (server.paths.cluster / "postgresql.auto.conf").stat().st_size
                assert full.check()
                assert not full.check()
                wait_for(lambda: setting(session) == "on")
                assert (server.paths.cluster / "postgresql.auto.conf").stat().st_size == size, "written in place"
                assert roomy.check()
                wait_for(lambda: setting(session) == "off")
                full.refusing, roomy.refusing = False, True
            # What was refused is accepted after a start.
            assert full.check()
            server.stop()
            with psycopg.connect(server.start()) as later:
                assert setting(later) == "off"

    def test_revival_does_not_replace_a_lost_database_by_an_empty_one(self, server: EmbeddedServer) -> None:
        member = Lease(server)
        member.join()
        kill_server(server)
        cluster, away = server.paths.cluster, server.paths.home / "away"
        cluster.rename(away)
        try:
            with pytest.raises(PostgresProblem, match=r"^The database in .* is gone\.$"):
                member.revive()
            assert not cluster.exists()
        finally:
            away.rename(cluster)
            member.leave()


class TestRefusals:
    def test_start_in_a_path_too_long_for_a_socket_uses_a_short_private_folder(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o755)
        server = EmbeddedServer(tmp_path / ("long" * 25), fast_unsafe=True, say=lambda line: None)
        try:
            folder = server.paths.socket_dir
            assert len(os.fsencode(folder / SOCKET_NAME)) <= LONGEST_SOCKET_PATH
            assert folder.stat().st_mode & 0o077 == 0
        finally:
            server.destroy()

    def test_start_in_a_data_folder_that_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(PostgresProblem, match=r"^The data folder .* cannot be made .*NOUS_DATA_DIR\.$"):
            EmbeddedServer(tmp_path / "file").start()

    def test_start_on_a_full_disk(self, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
        usage = shutil.disk_usage("/")
        target = "nousweb.runtime.postgres.server.shutil.disk_usage"
        monkeypatch.setattr(target, lambda path: usage._replace(free=10**6))
        with pytest.raises(PostgresProblem, match=r"^Only 0 MB are free in "):
            server.start()

    def test_start_of_a_cluster_of_another_major_version(self, server: EmbeddedServer) -> None:
        version = server.paths.cluster / "PG_VERSION"
        server.start()
        server.stop()
        version.write_text("17\n")
        try:
            with pytest.raises(PostgresProblem, match="was made by PostgreSQL 17 and this is 18"):
                server.start()
        finally:
            version.write_text("18\n")

    def test_start_that_fails_names_the_log(self, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(server_settings(), "max_connections", "not-a-number")
        with pytest.raises(PostgresProblem, match=r"did not start: .*max_connections.*\(log: .*\)\.$"):
            server.start()

    def test_external_server_away_keeps_its_password_secret(self) -> None:
        with pytest.raises(PostgresProblem, match=r"^The database named by DATABASE_URL cannot be used") as caught:
            check_requirements("postgresql://someone:hush-hush@127.0.0.1:1/nous")
        assert "hush-hush" not in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("version", "row", "sentence"),
        [
            (140010, ("0.8.0", "0.8.0"), "is PostgreSQL 14, and 15 or newer is needed"),
            (150000, None, "has no pgvector"),
            (150000, (None, "0.7.4"), "has pgvector 0.7.4, and 0.8 or newer is needed: upgrade it there"),
            (160000, ("0.6.0", "0.8.1"), "has pgvector 0.6.0, .* run ALTER EXTENSION vector UPDATE there"),
            (170000, (None, "0.8.0"), None),
            (180000, ("0.10.0", "0.10.0"), None),
        ],
    )
    def test_external_server_requirements(
        self, version: int, row: tuple[str | None, str] | None, sentence: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        target = "nousweb.runtime.postgres.paths.psycopg.connect"
        monkeypatch.setattr(target, lambda *a, **k: Answering(version, row))
        if sentence is None:
            check_requirements("postgresql://db/nous")
        else:
            with pytest.raises(PostgresProblem, match=sentence):
                check_requirements("postgresql://db/nous")


def server_settings() -> dict[str, str]:
    from nousweb.runtime.postgres import server

    return server.SETTINGS


class Answering:
    """A server that cannot be had here: an old one, or one with an old pgvector."""

    def __init__(self, version: int, row: tuple[str | None, str] | None) -> None:
        self.server_version = version
        self.host, self.port = "db", 5432
        self.info = self
        self.row = row

    def __enter__(self) -> "Answering":
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def execute(self, query: str) -> "Answering":
        return self

    def fetchone(self) -> tuple[str | None, str] | None:
        return self.row

"""The wheel in an environment of its own, run by an ordinary user against a PostgreSQL of one's own."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

from nousweb.runtime.postgres import EmbeddedServer
from nousweb.runtime.postgres.paths import SOCKET_NAME
from nousweb.runtime.supervisor import answers
from tests.product import PATIENCE, PROJECT, tied, until

PASSWORDS = {"NOUS_DB_PASSWORD": "secret1", "NOUS_DB_OWNER_PASSWORD": "secret2"}


@pytest.fixture(scope="module")
def folder():
    # Not pytest's own folder, which another account may not enter.
    made = Path(tempfile.mkdtemp(prefix="nous-installed-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def server(folder):
    """A server with the roles and the database that the container's script makes, and nothing else of ours."""
    own = EmbeddedServer(folder / "server", say=lambda line: None)
    (folder / "server").mkdir(mode=0o755)
    own.start()
    with own._connected() as superuser:
        superuser.autocommit = True
        superuser.execute("DROP DATABASE nous")
        superuser.execute("DROP ROLE nous")
        superuser.execute("DROP ROLE nous_owner")
    with own._connected("template1") as superuser:
        superuser.execute("DROP EXTENSION vector")
    psql = f"{own.paths.programs / 'bin'}:{os.environ['PATH']}"
    reached = {"PGHOST": str(own.paths.socket_dir), "PATH": psql, **PASSWORDS}
    script = [PROJECT / "deploy/create_database.sh"]
    made = subprocess.run(script, env=os.environ | reached, check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    yield own
    own.destroy()


@pytest.fixture(scope="module")
def installed(folder):
    """A bare environment with the wheel; what the wheel depends on is taken from where the tests run."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, timeout=PATIENCE)
    environment = folder / "environment"
    uv_venv = [sys.executable, "-m", "uv", "venv", "--offline", "--python", _python_for_all(), str(environment)]
    subprocess.run(uv_venv, check=True, capture_output=True, timeout=PATIENCE)
    (wheel,) = folder.glob("*.whl")
    uv = [sys.executable, "-m", "uv", "pip", "install", "--offline", "--no-deps", "--python", str(environment)]
    # As pip does; who runs the programs may not write here, and each of them would compile the whole package.
    uv.append("--compile-bytecode")
    subprocess.run([*uv, str(wheel)], check=True, capture_output=True, timeout=PATIENCE)
    packages = next(environment.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(_dependencies_for_all(folder))
    return environment / "bin" / "nous"


def _dependencies_for_all(folder):
    """Where the dependencies are, or links to them if others may not enter that folder: a clone in root's home."""
    source = Path(sysconfig.get_path("purelib")).resolve()
    if _open_to_all(source):
        return str(source)
    return shutil.copytree(source, folder / "dependencies", symlinks=True, copy_function=_link_or_copy)


def _link_or_copy(source, target):
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        # Another disk.
        shutil.copy2(source, target, follow_symlinks=False)


def _open_to_all(path):
    return all(os.stat(each).st_mode & 0o001 for each in (path, *path.parents))


def _python_for_all():
    """An interpreter of this version that another account may run: root's own may lie in its private home."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for place in (f"{sys.base_prefix}/bin/{version}", f"/usr/local/bin/{version}", f"/usr/bin/{version}"):
        path = Path(place).resolve()
        if path.exists() and _open_to_all(path):
            return str(path)
    pytest.skip(f"no {version} that an ordinary user may run")


@pytest.fixture(scope="module")
def shell(folder, server, installed):
    """`shell(*words)` runs `nous` as somebody who owns a data folder and nothing else."""
    home = folder / "home"
    home.mkdir()
    user = None
    if os.geteuid() == 0:
        user = pwd.getpwnam("nobody").pw_uid
        os.chown(home, user, -1)
        # The socket is private to the server's account.
        server.paths.socket_dir.chmod(0o755)
        (server.paths.socket_dir / SOCKET_NAME).chmod(0o777)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NOUS_", "DATABASE_", "DJANGO_"))}
    host = str(server.paths.socket_dir).replace("/", "%2F")
    environment = kept | {
        "HOME": str(home),
        "NOUS_DATA_DIR": str(home / "data"),
        "DATABASE_URL": f"postgresql://nous:secret1@/nous?host={host}",
        "DATABASE_OWNER_URL": f"postgresql://nous_owner:secret2@/nous?host={host}",
    }
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        environment["NOUS_PORT"] = str(probe.getsockname()[1])

    def start(*words):
        return subprocess.Popen(
            tied(str(installed), *words) if user is None else [str(installed), *words],
            cwd=home,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            user=user,
        )

    start.ready = f"http://127.0.0.1:{environment['NOUS_PORT']}/readyz"
    return start


def run(shell, *words):
    program = shell(*words)
    said, _ = program.communicate(timeout=PATIENCE)
    return program.returncode, said


def test_installed_wheel_serves_and_the_doctor_finds_nothing_wrong(shell):
    assert run(shell, "migrate", "--verbosity", "0") == (0, "")
    assert run(shell, "createagent", "ada", "--name", "Ada")[0] == 0
    code, token = run(shell, "createtoken", "ada", "--persona", "actor")
    assert code == 0
    assert token.strip().splitlines()[-1].startswith("nous_")
    serve = shell("serve")
    told = []

    def found_healthy():
        told.append(run(shell, "doctor"))
        return told[-1][0] == 0

    try:
        # The doctor takes a second to come: not before there is something to look at.
        until("ready", lambda: serve.poll() is not None or answers(shell.ready, "localhost"))
        until("green", lambda: serve.poll() is not None or found_healthy())
        code, said = told[-1]
        assert code == 0, said
        assert "Everything that is needed works." in said
        assert "WRONG" not in said
    finally:
        serve.terminate()
        serve.communicate(timeout=PATIENCE)

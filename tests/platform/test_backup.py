"""Drills: a backup that is taken while agents write, restored elsewhere; and the state of a release, upgraded."""

import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from psycopg import sql

from identity.services.seals.sealer import log_seal
from nousweb.runtime.backup import backup_restore
from nousweb.runtime.postgres import EmbeddedServer
from tests.database import DATABASE
from tests.factories import make_events, make_fact
from tests.product import PATIENCE, PROJECT

FIXTURES = PROJECT / "tests" / "fixtures"
RELEASE = FIXTURES / "demo_of_0.1.0.dump.xz"
RELEASE_TOKEN = "nous_-xR95jaNuUdglNpuAYAfdhDANyfzJdDjsqWJnlfZxHI"
"""The demo's token of that database, whose agent is there and nowhere else."""
OWN_TABLES = ("identity_", "memory_", "context_", "auth_user", "auth_group")
MADE_AGAIN = ("memory_searchitem", "memory_searchstatistics", "auth_group_permissions")
"""What is derived from the rest, or declared by the code."""

RENEWED = (("context_contextprofileversion", "is_current"), ("identity_apitoken", "last_used_at"))
"""Profiles that came with the code have later versions by now, and the token is used."""


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not pytest's own folder, which the account that runs PostgreSQL for root may not enter.
    made = Path(tempfile.mkdtemp(prefix="nous-backup-"))
    made.chmod(0o755)
    yield made
    EmbeddedServer(made / "elsewhere", say=lambda line: None).destroy()
    shutil.rmtree(made, ignore_errors=True)


def database_url(pytestconfig: pytest.Config, name: str) -> str:
    return urlsplit(pytestconfig.stash[DATABASE].owner_url)._replace(path=f"/{name}").geturl()


def program_run(code: str, *arguments: str, **variables: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NOUS_", "DATABASE_", "DJANGO_"))}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=PROJECT, env=kept | variables, capture_output=True, text=True,
        check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout


@pytest.mark.django_db(transaction=True)
def test_backup_while_writing_goes_on_is_whole_elsewhere(ada, actor, folder, pytestconfig, monkeypatch, capsys):
    make_fact(ada, "The ledger runs at nine.", actor)
    make_events(ada, actor, "Before the first backup.")
    log_seal()
    over, told = threading.Event(), []

    def write() -> None:
        try:
            while not over.is_set():
                told.append(make_events(ada, actor, f"Reading {len(told)} was taken.", key=f"k{len(told)}")[0].pk)
        finally:
            connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        url = database_url(pytestconfig, connection.settings_dict["NAME"])
        monkeypatch.setenv("DATABASE_OWNER_URL", url)
        while not told:
            over.wait(0.01)
        committed = list(told)
        call_command("backup", str(folder / "kept"))
        after = len(told)
    finally:
        over.set()
        writer.join()
    assert after > len(committed), "nothing was written meanwhile"
    said = capsys.readouterr().out
    with pytest.raises(CommandError, match="is there already"):
        call_command("backup", str(folder / "kept"))
    with pytest.raises(CommandError, match="not empty"):
        call_command("restore", str(folder / "kept"))
    (folder / "elsewhere").mkdir()
    (folder / "kept" / "secret_key").write_text("of the backup, " + "x" * 60)
    drill = "import sys; from nousweb.runtime.command_line import main; main(['nous', *sys.argv[1:]])"
    restored = program_run(
        f"{drill}; main(['nous', 'verify'])", "restore", str(folder / "kept"), NOUS_DATA_DIR=str(folder / "elsewhere")
    )
    assert "All records match their seals." in restored
    assert (folder / "elsewhere" / "secret_key").read_text().startswith("of the backup")
    server = EmbeddedServer(folder / "elsewhere", say=lambda line: None)
    with psycopg.connect(server.start()) as there:
        there_are = {row[0] for row in there.execute("SELECT id FROM memory_event WHERE key <> ''")}
        [[lost]] = there.execute(
            "SELECT count(*) FROM memory_event e WHERE NOT EXISTS"
            " (SELECT FROM memory_longtermentry WHERE event_id = e.id)"
        ).fetchall()
    assert set(committed) <= there_are <= set(told)
    assert lost == 0
    with capsys.disabled():
        sys.stdout.write(f"\n{said}{restored}")


@pytest.mark.django_db
def test_state_of_a_release_is_intact_after_its_upgrade(folder, pytestconfig):
    owner = pytestconfig.stash[DATABASE].owner_url
    name = f"release_{os.getpid()}"
    with psycopg.connect(owner, autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        (folder / "release.dump").write_bytes(lzma.decompress(RELEASE.read_bytes()))
        of_owner, data = database_url(pytestconfig, name), folder / "data"
        data.mkdir()
        backup_restore(folder / "release.dump", url=of_owner, data_folder=data, keep_secret=True)
        before = rows_of(of_owner)
        assert {table: len(before[table]) for table in ("memory_fact", "memory_event", "identity_identityversion")} == {
            "memory_fact": 22, "memory_event": 45, "identity_identityversion": 12,
        }  # fmt: skip
        product = urlsplit(pytestconfig.stash[DATABASE].url)._replace(path=f"/{name}").geturl()
        addresses = {"DATABASE_URL": product, "DATABASE_OWNER_URL": of_owner, "NOUS_DATA_DIR": str(data)}
        answer = json.loads(program_run(MIGRATE + UPGRADE, RELEASE_TOKEN, **addresses).splitlines()[-1])
        after, schema = rows_of(of_owner), schema_of(of_owner)
        with psycopg.connect(of_owner, autocommit=True) as there:
            there.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('identity', '0002_other', now())")
        with pytest.raises(AssertionError, match=r"migration identity\.0002_other, which this version does not have"):
            program_run(MIGRATE, **addresses)
    finally:
        with psycopg.connect(owner, autocommit=True) as server:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
    changed = [
        (table, key, column, value, after[table][key][column])
        for table, rows in before.items()
        for key, row in rows.items()
        for column, value in row.items()
        if (table, column) not in RENEWED and column in after[table][key] and after[table][key][column] != value
    ]
    assert changed == []
    assert schema == schema_of(database_url(pytestconfig, connection.settings_dict["NAME"]))
    assert answer["status"] == 200
    assert answer["memories"] > 0


MIGRATE = """
from nousweb.runtime.command_line import main
main(["nous", "migrate", "--verbosity", "0"])
"""
UPGRADE = """
import json, sys
from django.test import Client
asked = {"session_id": "s", "input": "Who is on call in even weeks?", "explain": True}
headers = {"Authorization": f"Bearer {sys.argv[1]}"}
more = {"content_type": "application/json", "headers": headers, "SERVER_NAME": "localhost"}
answer = Client().post("/api/context", json.dumps(asked), **more)
said = answer.json()
print(json.dumps({"status": answer.status_code, "memories": said.get("system_prompt", "").count("even weeks")}))
"""


def schema_of(url: str) -> list[str]:
    """All that is defined in a database, line by line and sorted, without who owns it and who may use it."""
    options = ("--schema-only", "--no-owner", "--no-privileges", "--no-comments", "--restrict-key=same")
    dump = "import sys; from nousweb.runtime.postgres.__main__ import main; sys.exit(main(['pg_dump', *sys.argv[1:]]))"
    kept = os.environ["NOUS_DATA_DIR"]
    text = program_run(dump, *options, DATABASE_URL=url, DATABASE_OWNER_URL=url, NOUS_DATA_DIR=kept)
    # What was dumped and restored has its casts in other places.
    cast = re.compile(r"[()]|::(character varying|text)(\[\])?")
    lines = (cast.sub("", line).strip(" ,") for line in text.splitlines())
    return sorted(line for line in lines if line and not line.startswith("--"))


def rows_of(url: str) -> dict[str, dict[str, dict[str, object]]]:
    """The rows of the product's tables by their key, of those that hold what people and agents wrote."""
    found: dict[str, dict[str, dict[str, object]]] = {}
    with psycopg.connect(url) as there:
        keyed = there.execute(
            "SELECT c.relname, a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid"
            " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]"
            " WHERE i.indisprimary AND c.relnamespace = to_regnamespace(current_schema()) AND c.relkind = 'r'"
        ).fetchall()
        for table, key in keyed:
            if table.startswith(OWN_TABLES) and not table.startswith(MADE_AGAIN):
                rows = there.execute(sql.SQL("SELECT to_jsonb(t) FROM {} t").format(sql.Identifier(table))).fetchall()
                found[table] = {str(row[key]): row for (row,) in rows}
    return found

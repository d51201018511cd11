"""Tests on a Citus cluster, and databases of their own on each of its servers."""

import os
import secrets
from urllib.parse import urlsplit

import psycopg
import pytest

CITUS_URL = os.environ.get("TEST_CITUS_URL", "")
PROCESS = f"_{worker}" if (worker := os.environ.get("PYTEST_XDIST_WORKER")) else ""
SHARDS = 4
"""Parts of each table: with two on each of two servers, a statement that names no agent asks all four."""

OWN_SERVER = "starts a PostgreSQL of its own"
PLANNED = "reads a plan under settings of its transaction, which the servers of the parts do not get"
ANALYZED = "runs ANALYZE, after which Citus reads no copied table in the same transaction"

EXCEPTIONS = {
    "tests/memory/test_many_subjects.py::test_no_statement_about_a_subject_reads_all_of_them": ANALYZED,
    "tests/memory/test_project_erasure.py::test_lists_of_a_project_read_its_index": ANALYZED,
    "tests/memory/test_lock_order.py::test_deadlock_is_retried": (
        "counts the deadlocks of one server: a cluster ends its own by itself, on the servers of the parts"
    ),
    "tests/memory/test_profile_api.py::test_first_of_core_memory_is_found_by_an_index_in_its_order": PLANNED,
    "tests/memory/test_users.py::test_the_page_of_a_user_does_not_read_all_prompts": PLANNED,
    "tests/security/test_seals.py::test_commits_in_another_order_than_they_began_are_no_edits": (
        "the horizon of the log waits for each transaction of the server, those of other tests' databases too"
    ),
    "tests/security/test_seals.py::test_every_edit_of_the_log_is_found": (
        "moves rows to other agents, which Citus refuses by itself"
    ),
    "tests/memory/test_failure_recovery.py": OWN_SERVER,
    "tests/memory/test_redis_broker.py": OWN_SERVER,
    "tests/security/test_erasure_under_load.py": OWN_SERVER,
}
"""Tests that are not run on a cluster, by the beginning of their names, each with the reason."""

on_a_cluster = pytest.mark.skipif(not CITUS_URL, reason="asks a Citus cluster, which TEST_CITUS_URL names")
not_on_a_cluster = pytest.mark.skipif(bool(CITUS_URL), reason="is about PostgreSQL without Citus")


class ClusterDatabase:
    """An empty database on each server of the cluster that the database of `given_url` belongs to, with its extensions;
    `url` is its address on the coordinator."""

    def __init__(self, given_url: str = CITUS_URL) -> None:
        self._given = urlsplit(given_url)
        self.name = f"nous_test_{secrets.token_hex(4)}{PROCESS}"
        self.url = self._given._replace(path=f"/{self.name}").geturl()
        with psycopg.connect(given_url) as given:
            asked = "SELECT nodename, nodeport FROM pg_dist_node ORDER BY groupid"
            self._servers: list[tuple[str, int]] = given.execute(asked).fetchall()
            # One process at a time: who adds a server writes the roles of the cluster on it.
            given.execute("SELECT pg_advisory_xact_lock(hashtext('nous_test'))")
            try:
                self._make()
            except psycopg.Error:
                self.remove()
                raise

    def _make(self) -> None:
        self._each(self._given.path[1:], f"CREATE DATABASE {self.name}")
        self._each(self.name, "CREATE EXTENSION citus", "CREATE EXTENSION vector")
        with psycopg.connect(self.url, autocommit=True) as coordinator:
            coordinator.execute("SELECT citus_set_coordinator_host(%s, %s)", self._servers[0])
            for server in self._servers[1:]:
                coordinator.execute("SELECT citus_add_node(%s, %s)", server)

    def remove(self) -> None:
        """Drop it on each server."""
        self._each(self._given.path[1:], f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)")

    def _each(self, database: str, *orders: str) -> None:
        for host, port in self._servers:
            place = self._given._replace(
                netloc=f"{self._given.netloc.rpartition('@')[0]}@{host}:{port}", path=f"/{database}"
            )
            with psycopg.connect(place.geturl(), autocommit=True) as server:
                for order in ("SET citus.enable_create_database_propagation = off", *orders):
                    server.execute(order.encode())


def exceptions_mark(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On a cluster, leave out what asks no database, and skip the tests of EXCEPTIONS."""
    if not CITUS_URL:
        return
    config.hook.pytest_deselected(items=[item for item in items if not _asks_a_database(item)])
    items[:] = filter(_asks_a_database, items)
    for item in items:
        for name, reason in EXCEPTIONS.items():
            if item.nodeid.startswith(name):
                item.add_marker(pytest.mark.skip(reason=reason))


def _asks_a_database(item: pytest.Item) -> bool:
    return item.get_closest_marker("django_db") is not None or "django_db_setup" in getattr(item, "fixturenames", ())

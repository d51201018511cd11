"""pytest plugin: how a run in several processes (`-n auto --dist loadfile`) shares its work out."""

import os
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

LONGEST = (
    "tests/e2e/test_accessibility.py",
    "tests/docs/test_whole_turn.py",
    "tests/docs/test_connect_page.py",
    "tests/docs/test_snippets.py",
    "tests/platform/test_postgres.py",
    "tests/memory/test_learning_concurrent.py",
    "tests/interfaces/test_conformance.py",
    "tests/platform/test_installed.py",
    "tests/security/test_locked_rows.py",
    "tests/security/test_project_writes.py",
    "tests/security/test_outgoing_calls.py",
    "tests/e2e/test_inspector.py",
    "tests/security/test_change_feed.py",
    "tests/memory/test_failure_recovery.py",
    "tests/memory/test_redis_broker.py",
    "tests/security/test_slow_clients.py",
    "tests/api/test_access_matrix.py",
    "tests/e2e/test_identity_console.py",
    "tests/security/test_database_roles.py",
    "tests/memory/test_killed_workers.py",
    "tests/platform/test_benchmark_cleanup.py",
    "tests/security/test_bad_input.py",
    "tests/security/test_kills.py",
    "tests/platform/test_serve.py",
    "tests/context/test_context_api.py",
    "tests/platform/test_command_line.py",
    "tests/e2e/test_review_console.py",
    "tests/platform/test_outages.py",
    "tests/api/test_openapi.py",
    "tests/memory/test_indexing.py",
    "tests/e2e/test_memory_console.py",
    "tests/platform/test_web_worker.py",
    "tests/security/test_viewers.py",
    "tests/platform/test_demo.py",
    "tests/security/test_erasure_under_load.py",
    "tests/e2e/test_visible_text.py",
    "tests/memory/test_transfer_agents.py",
    "tests/security/test_four_eyes.py",
    "tests/security/test_fuzz_server.py",
    "tests/memory/test_erasure_races.py",
    "tests/context/test_impact.py",
    "tests/context/test_as_of.py",
    "tests/security/test_peoples_word.py",
    "tests/console/identity/test_identity.py",
    "tests/console/context/test_inspector.py",
    "tests/security/test_personas_sealed.py",
    "tests/security/test_censors_fail_closed.py",
    "tests/security/test_admin.py",
    "tests/security/test_tasks.py",
    "tests/context/test_engine_properties.py",
    "tests/e2e/test_oauth.py",
    "tests/security/test_fuzz_console.py",
    "tests/memory/test_isolation_log.py",
    "tests/context/test_behaviour_bisect.py",
    "tests/context/test_expectation_causes.py",
    "tests/context/test_store_properties.py",
    "tests/memory/test_search_passages.py",
    "tests/memory/test_activities.py",
    "tests/security/test_fuzz_api.py",
)
"""Files that take long, in the order in which they begin: one that began last would have a core for itself.

Those that mostly wait, for a time limit or a program, stand between those that need a processor.
"""


TOGETHER = ("tests/docs/",)
"""Folders whose files one process runs one after the other: they share a demo, and to start another takes 20 s."""


def unit_of(name: str) -> str:
    """The unit that one process runs as a whole: the file `name`, or a folder of TOGETHER."""
    return next((folder for folder in TOGETHER if name.startswith(folder)), name)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, but for folders of TOGETHER."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class UnitScheduling(LoadFileScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(super()._split_scope(nodeid))

    return UnitScheduling(config, log)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Two processes more than cores: tests of time limits and of the real programs wait more than they work.

    Each process more imports everything once more and starts a PostgreSQL of its own.
    """
    return (yield) + 2


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, then those with the most tests; the order within a file stays."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    files = [item.nodeid.partition("::")[0] for item in items]
    tests = Counter(files)
    ranks = {name: (LONGEST.index(name) if name in LONGEST else len(LONGEST), -tests[name], name) for name in tests}
    items.sort(key=lambda item: ranks[item.nodeid.partition("::")[0]])

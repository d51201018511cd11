"""pytest plugin: how a run in several processes (`-n auto --dist loadfile`) shares its work out."""

import os
from collections import Counter
from collections.abc import Generator

import pytest

LONGEST = (
    "tests/security/test_database_roles.py",
    "tests/memory/test_failure_recovery.py",
    "tests/security/test_personas_sealed.py",
    "tests/security/test_viewers.py",
    "tests/security/test_locked_rows.py",
    "tests/security/test_slow_clients.py",
    "tests/platform/test_web_worker.py",
    "tests/e2e/test_accessibility.py",
    "tests/security/test_kills.py",
    "tests/memory/test_killed_workers.py",
    "tests/memory/test_redis_broker.py",
    "tests/memory/test_learning_concurrent.py",
    "tests/security/test_erasure_under_load.py",
    "tests/security/test_bad_input.py",
    "tests/platform/test_command_line.py",
    "tests/platform/test_benchmark_cleanup.py",
    "tests/api/test_openapi.py",
    "tests/e2e/test_review_console.py",
    "tests/api/test_access_matrix.py",
    "tests/e2e/test_inspector.py",
    "tests/e2e/test_identity_console.py",
    "tests/platform/test_outages.py",
    "tests/security/test_tasks.py",
    "tests/security/test_repeated_proposals.py",
    "tests/security/test_pages_show_all.py",
)
"""Files that take long, in the order in which they begin: one that began last would have a core for itself."""


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """One process more than there are cores: tests of time limits and of the real programs wait more than they work."""
    return (yield) + 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, then those with the most tests; the order within a file stays."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    files = [item.nodeid.partition("::")[0] for item in items]
    tests = Counter(files)
    ranks = {name: (LONGEST.index(name) if name in LONGEST else len(LONGEST), -tests[name], name) for name in tests}
    items.sort(key=lambda item: ranks[item.nodeid.partition("::")[0]])

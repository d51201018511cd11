"""pytest plugin: how a run in several processes (`-n auto --dist loadfile`) shares its work out."""

import os
from collections import Counter

import pytest

LONGEST = (
    "tests/security/test_kills.py",
    "tests/memory/test_failure_recovery.py",
    "tests/security/test_erasure_under_load.py",
    "tests/e2e/test_accessibility.py",
    "tests/memory/test_learning_concurrent.py",
    "tests/memory/test_killed_workers.py",
    "tests/memory/test_redis_broker.py",
    "tests/security/test_slow_clients.py",
    "tests/platform/test_web_worker.py",
    "tests/api/test_openapi.py",
    "tests/e2e/test_review_console.py",
    "tests/api/test_access_matrix.py",
    "tests/e2e/test_inspector.py",
    "tests/e2e/test_identity_console.py",
)
"""Files that take long, in the order in which they begin: one that began last would have a core for itself."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, then those with the most tests; the order within a file stays."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    files = [item.nodeid.partition("::")[0] for item in items]
    tests = Counter(files)
    ranks = {name: (LONGEST.index(name) if name in LONGEST else len(LONGEST), -tests[name], name) for name in tests}
    items.sort(key=lambda item: ranks[item.nodeid.partition("::")[0]])

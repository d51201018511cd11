"""A running demo, on which one process runs all of this folder: `unit_of` in `tests/parallel.py`."""

from collections.abc import Iterator

import pytest

from tests.docs.demo_server import DemoServer, demo_of_a_reader


@pytest.fixture(scope="package")
def demo() -> Iterator[DemoServer]:
    """Each file leaves in it what it did."""
    with demo_of_a_reader() as running:
        yield running

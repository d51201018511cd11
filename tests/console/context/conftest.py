"""Pages of the context are tested with the squire that the context's own tests have."""

from tests.context.conftest import ada

__all__ = ["ada"]

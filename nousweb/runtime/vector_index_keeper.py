"""Keeps the vector indexes of large collections, which only the owner of the tables may make, beside a supervisor."""

import threading

import structlog
from django.conf import settings
from django.db import Error, connections

from memory.search.vector_indexes import vector_indexes_keep
from nousweb.database.postgres_roles import as_owner

log = structlog.get_logger(__name__)

EVERY_SECONDS = 60.0


def keep_indexes(stop: threading.Event, every: float = EVERY_SECONDS) -> None:
    """Check at intervals until `stop` is set. An error of the database does not end it."""
    while not stop.wait(every):
        try:
            with as_owner():
                vector_indexes_keep()
        except Error as error:
            log.warning("vector_indexes_failed", error=str(error))
        finally:
            connections.close_all()


def index_keeper_start() -> threading.Event:
    """Begin, where this program knows the owner; the answer ends it when it is set. It never delays an exit."""
    stop = threading.Event()
    if settings.DATABASE_OWNER is not None:
        threading.Thread(target=keep_indexes, args=(stop,), name="index-keeper", daemon=True).start()
    return stop

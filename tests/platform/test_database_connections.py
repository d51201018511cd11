"""Connections that are kept between requests: one that still works is used again, one that broke is replaced."""

import select

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

pytestmark = pytest.mark.django_db(transaction=True)


def checked(own):
    """What Django does before the first statement of a request."""
    own.health_check_enabled, own.health_check_done = True, False
    own.close_if_health_check_failed()


def test_connection_that_works_is_used_again_without_a_statement():
    connection.ensure_connection()
    kept = connection.connection
    before = kept.execute("SELECT pg_backend_pid()").fetchone()
    with CaptureQueriesContext(connection) as sent:
        checked(connection)
    assert connection.connection is kept
    assert len(sent) == 0
    assert kept.execute("SELECT pg_backend_pid()").fetchone() == before


def test_connection_that_the_server_ended_is_replaced():
    connection.ensure_connection()
    broken = connection.connection
    broken.execute("SET idle_session_timeout = '20ms'")
    # Nobody here has read yet that it is over.
    assert select.select([broken], [], [], 60)[0]
    assert not broken.closed
    checked(connection)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)
    assert connection.connection is not broken

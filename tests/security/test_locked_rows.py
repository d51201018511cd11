"""A row that somebody holds, or a statement that takes for ever, stops the request that needs it and no other."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from nousweb.database import statement_timeouts
from nousweb.database.statement_timeouts import LIMITS, work, work_of
from tests.platform.test_outages import EVENT, api, ask, refused
from tests.product import Product, product_running, until

FACT = {"subject": "harbour", "content": "The harbour opens at nine.", "category": "concept"}


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    with product_running("locked") as running:
        running.web()
        until("ready", lambda: running.call("GET", "/events")[0] == 200)
        yield running


@contextmanager
def held(product: Product, statement: str) -> Iterator[None]:
    """Somebody has a lock and does not let go."""
    with psycopg.connect(product.url) as connection:
        connection.execute(statement)
        yield
        connection.rollback()


def test_locked_table_is_503_for_its_callers_and_nothing_for_others(product: Product) -> None:
    with held(product, "LOCK TABLE memory_fact IN SHARE ROW EXCLUSIVE MODE"), ThreadPoolExecutor(20) as many:
        # More than there are threads: each of them waits for the lock, none for ever.
        waiting = [many.submit(api, product, "POST", "/facts", FACT) for _ in range(16)]
        assert ask(product, "GET", "/healthz").status == 200
        assert api(product, "GET", "/events").status == 200
        assert api(product, "POST", "/events", EVENT).status == 201
        for one in waiting:
            refused(one.result(), "locked")
    assert api(product, "POST", "/facts", FACT).status == 201


def test_locked_token_row_leaves_reading_alone(product: Product) -> None:
    with held(product, "SELECT 1 FROM identity_apitoken FOR UPDATE"):
        # Reading goes on beside a row that is being changed.
        assert api(product, "GET", "/events").status == 200


def test_endless_statement_is_503(product: Product) -> None:
    with psycopg.connect(product.server.owner_url, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); END $$"
        )
        connection.execute("CREATE TRIGGER dawdle BEFORE INSERT ON memory_event EXECUTE FUNCTION dawdle()")
        try:
            refused(api(product, "POST", "/events", EVENT), "timed_out")
        finally:
            connection.execute("DROP FUNCTION dawdle() CASCADE")
    assert api(product, "POST", "/events", EVENT).status == 201


def test_page_that_needs_a_locked_table_is_503(product: Product) -> None:
    with held(product, "LOCK TABLE django_session IN ACCESS EXCLUSIVE MODE"):
        page = ask(product, "GET", "/agents/", Cookie=f"sessionid={'x' * 32}")
    assert page.status == 503
    assert "holds a record" in page.text


@pytest.mark.django_db(transaction=True)
def test_connection_has_the_time_limits_of_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import connection

    # What this process usually does depends on which programs other tests have loaded into it.
    monkeypatch.setattr(statement_timeouts, "_usual", "command")

    def limits() -> list[str]:
        with connection.cursor() as cursor:
            names = ", ".join(f"current_setting('{name}')" for name in LIMITS["page"].settings)
            cursor.execute(f"SELECT {names}")
            return list(cursor.fetchone())

    connection.close()
    with work("api_read"):
        assert limits() == ["10s", "2s", "1min"]
    connection.health_check_enabled = True
    with work("form"):
        connection.health_check_done = False
        assert limits() == ["1min", "3s", "90s"]
    connection.close()
    assert limits() == ["0", "1min", "0"]


def test_request_is_classified_as_a_kind_of_work() -> None:
    asked = [("GET", "/api/x"), ("POST", "/api/x"), ("GET", "/"), ("POST", "/login/"), ("GET", "/readyz")]
    assert [work_of(*one) for one in asked] == ["api_read", "api_write", "page", "form", "probe"]

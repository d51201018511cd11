"""A database that is away, full, read-only or busy: callers are told to come again, and nothing is a 500."""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.product import Product, product_running, until

EVENT = {"events": [{"kind": "user_input", "content": "Hello.", "loop_id": "loop"}]}


class Answer:
    """What a real server said."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode()

    @property
    def problem(self) -> dict[str, object]:
        assert self.headers["Content-Type"] == "application/problem+json", self.text
        found = json.loads(self.text)
        assert found["status"] == self.status
        return dict(found)


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    with product_running("outages") as running:
        running.web()
        until("ready", lambda: running.call("POST", "/events", EVENT)[0] == 201)
        yield running


def ask(product: Product, method: str, path: str, body: object = None, **headers: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", product.port, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, None if body is None else json.dumps(body), named)
        return Answer(connection.getresponse())
    finally:
        connection.close()


def api(product: Product, method: str, path: str, body: object = None) -> Answer:
    return ask(
        product, method, f"/api{path}", body,
        Authorization=f"Bearer {product.token}", Content_Type="application/json",
    )  # fmt: skip


def refused(answer: Answer, code: str) -> None:
    assert (answer.status, answer.problem["code"]) == (503, code), answer.text
    assert int(answer.headers["Retry-After"]) >= 1


@contextmanager
def as_owner(product: Product) -> Iterator[psycopg.Connection]:
    # The server's superuser, since the tables' owner may not cut the product's connections.
    with product.server._connected("nous") as connection:
        yield connection


@contextmanager
def failing_inserts(product: Product, sqlstate: str) -> Iterator[None]:
    """PostgreSQL itself refuses every new event with this error."""
    with as_owner(product) as connection:
        connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '{sqlstate}'; END $$"
        )
        connection.execute("CREATE TRIGGER refuse BEFORE INSERT ON memory_event EXECUTE FUNCTION refuse()")
        try:
            yield
        finally:
            connection.execute("DROP FUNCTION refuse() CASCADE")


@pytest.mark.parametrize(
    ("sqlstate", "code"),
    [("53100", "disk_full"), ("53300", "exhausted"), ("40P01", "contended"), ("57014", "timed_out")],
)
def test_database_full_or_busy_is_503(product: Product, sqlstate: str, code: str) -> None:
    with failing_inserts(product, sqlstate):
        refused(api(product, "POST", "/events", EVENT), code)
    assert api(product, "POST", "/events", EVENT).status == 201


def test_database_other_errors_stay_500(product: Product) -> None:
    with failing_inserts(product, "42P01"):
        assert api(product, "POST", "/events", EVENT).status == 500


def test_database_read_only_is_503_for_changes_and_reads_go_on(product: Product) -> None:
    name = psycopg.conninfo.conninfo_to_dict(product.url)["dbname"]
    with as_owner(product) as connection:
        try:
            connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
            _cut(connection)
            refused(api(product, "POST", "/events", EVENT), "read_only")
            assert api(product, "GET", "/events").status == 200
        finally:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
            _cut(connection)
    assert api(product, "POST", "/events", EVENT).status == 201


def test_database_away_is_503_everywhere_and_comes_back(product: Product) -> None:
    product.kill_database()
    try:
        refused(api(product, "POST", "/events", EVENT), "database_away")
        refused(api(product, "GET", "/events"), "database_away")
        # A session is looked up before any view is reached.
        page = ask(product, "GET", "/agents/", Cookie=f"sessionid={'x' * 32}")
        part = ask(product, "GET", "/agents/", Cookie=f"sessionid={'x' * 32}", HX_Request="true")
        form = ask(product, "POST", "/api/events", EVENT, Cookie=f"sessionid={'x' * 32}")
        admin = ask(product, "GET", "/admin/", Cookie=f"sessionid={'x' * 32}")
        assert ask(product, "GET", "/healthz").status == 200
        assert ask(product, "GET", "/readyz").status == 503
    finally:
        product.server.start()
    refused(form, "database_away")
    for shown in (page, part, admin):
        assert shown.status == 503
        assert int(shown.headers["Retry-After"]) >= 1
        assert "cannot be reached at the moment" in shown.text
        assert "postgres" not in shown.text.lower()
    assert "<html" in page.text
    assert "<html" not in part.text
    assert api(product, "POST", "/events", EVENT).status == 201


def _cut(connection: psycopg.Connection) -> None:
    connection.execute(
        # It waits until each of them has ended: a request on one that is about to end would see a lost database.
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )

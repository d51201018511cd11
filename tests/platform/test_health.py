"""/healthz and /readyz."""

from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client, override_settings

from nousweb.database.disk_space import ELSEWHERE
from nousweb.monitoring import health
from tests.database import as_the_owner


@pytest.fixture(autouse=True)
def _forget_migrations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_migrated", False)


def test_healthz_needs_no_database(client: Client) -> None:
    response = client.get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


@pytest.mark.django_db
def test_readyz_is_ready_without_a_worker(client: Client) -> None:
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json()["checks"]["database"] == "ok"
    assert response.json()["checks"]["migrations"] == "ok"
    assert "no-cache" in response["Cache-Control"]


@pytest.mark.django_db
def test_readyz_names_missing_migrations(client: Client) -> None:
    with as_the_owner(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'sessions'")
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["failing"] == ["migrations"]


@pytest.mark.django_db
def test_readyz_names_a_lost_database_and_no_secret(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("password of nous@db.example.org was hush-hush")

    monkeypatch.setattr(connection, "cursor", lost)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["failing"] == ["database"]
    assert "hush" not in response.content.decode()
    assert "example" not in response.content.decode()


def test_probes_answer_only_reading_methods(client: Client) -> None:
    assert client.post("/healthz").status_code == 405


@pytest.mark.django_db
@pytest.mark.parametrize("disk", ["data_disk", "database_disk"])
def test_readyz_names_a_disk_that_is_nearly_full(client: Client, disk: str) -> None:
    with override_settings(DISK_FREE_MB=10**9):
        response = client.get("/readyz")
    if response.json()["checks"][disk] == ELSEWHERE:
        pytest.skip("the database of this run is not an embedded one")
    assert response.status_code == 503
    assert disk in response.json()["failing"]
    assert response.json()["checks"][disk].endswith(" MB free")


@pytest.mark.django_db
def test_readyz_names_a_read_only_data_folder(client: Client) -> None:
    with override_settings(DATA_DIR=Path("/proc"), DISK_FREE_MB=0):
        response = client.get("/readyz")
    assert response.json()["failing"] == ["data_disk"]
    assert response.json()["checks"]["data_disk"].startswith("cannot be written to")


@pytest.mark.django_db
def test_readyz_names_a_read_only_database(client: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
    response = client.get("/readyz")
    assert response.json()["failing"] == ["database"]
    assert response.json()["checks"]["database"] == "read-only"

"""/healthz and /readyz."""

from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client

from nousweb import health


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
    with connection.cursor() as cursor:
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


def test_only_reading_methods_are_answered(client: Client) -> None:
    assert client.post("/healthz").status_code == 405

"""/metrics: who may scrape it and what it says."""

from typing import Any

import pytest
from django.db import ProgrammingError
from django.test import Client

from nousweb.lib.recorded_metrics import observe_request
from nousweb.monitoring import gauges

pytestmark = pytest.mark.django_db


def scrape(client: Client, **headers: str) -> str:
    response = client.get("/metrics", headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def test_metrics_count_requests_by_pattern(client: Client) -> None:
    client.get("/healthz")
    text = scrape(client)
    assert 'nous_http_requests_total{method="GET",route="healthz",status="200"}' in text
    assert 'nous_http_request_seconds_bucket{le="0.1",method="GET",route="healthz"}' in text


def test_metrics_of_unknown_addresses_and_methods_share_one_series(client: Client) -> None:
    observe_request("BREW", "", 404, 0.1)
    observe_request("SPILL", "", 404, 0.1)
    assert 'nous_http_requests_total{method="OTHER",route="(none)",status="404"} 2.0' in scrape(client)


@pytest.fixture
def operator(settings: Any) -> dict[str, str]:
    """Headers of whoever has the metrics' token."""
    settings.METRICS_TOKEN = "s3cret"
    return {"Authorization": "Bearer s3cret"}


def test_metrics_gauges_come_from_the_database(client: Client, operator: dict[str, str]) -> None:
    text = scrape(client, **operator)
    for line in (
        "nous_agents 0.0",
        "nous_proposals_pending 0.0",
        "nous_proposals_pending_oldest_seconds 0.0",
        'nous_facts{state="active"} 0.0',
        "nous_context_runs 0.0",
        "nous_queue_jobs 0.0",
        "nous_queue_oldest_seconds 0.0",
    ):
        assert line in text


def test_metrics_for_local_clients_hide_what_agents_have(client: Client) -> None:
    text = scrape(client)
    assert "nous_http_requests_total" in text
    for name in ("nous_agents", "nous_proposals", "nous_facts", "nous_context_", "nous_reviews", "nous_queue"):
        assert name not in text


def test_metrics_missing_table_leaves_out_its_own_gauge_only(
    client: Client, operator: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> dict[gauges.Gauge, gauges.Values]:
        raise ProgrammingError('relation "memory_fact" does not exist')

    monkeypatch.setattr(gauges, "_facts", broken)
    text = scrape(client, **operator)
    assert "nous_facts" not in text
    assert "nous_context_runs" in text


class TestAccess:
    @pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1"])
    def test_metrics_are_open_to_a_local_client(self, client: Client, address: str) -> None:
        assert client.get("/metrics", REMOTE_ADDR=address).status_code == 200

    @pytest.mark.parametrize("address", ["10.0.0.7", "2001:db8::1", ""])
    def test_metrics_are_closed_to_others(self, client: Client, address: str) -> None:
        assert client.get("/metrics", REMOTE_ADDR=address).status_code == 403

    @pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded"])
    def test_metrics_client_behind_a_local_proxy_is_not_local(self, client: Client, header: str) -> None:
        assert client.get("/metrics", headers={header: "10.0.0.7"}).status_code == 403

    def test_metrics_client_behind_a_trusted_proxy_is_never_local(self, client: Client, settings: object) -> None:
        settings.TRUST_PROXY = True  # type: ignore[attr-defined]
        assert client.get("/metrics").status_code == 403

    def test_metrics_token_opens_from_anywhere(self, client: Client, settings: object) -> None:
        settings.METRICS_TOKEN = "s3cret"  # type: ignore[attr-defined]
        right = client.get("/metrics", REMOTE_ADDR="10.0.0.7", headers={"Authorization": "Bearer s3cret"})
        wrong = client.get("/metrics", REMOTE_ADDR="127.0.0.1", headers={"Authorization": "Bearer s3crets"})
        without = client.get("/metrics", REMOTE_ADDR="10.0.0.7")
        assert (right.status_code, wrong.status_code, without.status_code) == (200, 403, 403)

    def test_metrics_empty_token_opens_nothing(self, client: Client) -> None:
        response = client.get("/metrics", REMOTE_ADDR="10.0.0.7", headers={"Authorization": "Bearer "})
        assert response.status_code == 403

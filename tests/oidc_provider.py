"""A real OpenID Connect provider beside the product, with its people."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.late_imports import Late

provider_mock = Late("oidc_provider_mock")

PEOPLE = [
    {"sub": "1", "claims": {"preferred_username": "rosa", "groups": ["agents-reviewers", "everybody"]}},
    {"sub": "2", "claims": {"preferred_username": "sven", "groups": ["everybody"]}},
    {"sub": "4", "claims": {"preferred_username": "olga", "groups": ["agents-reviewers"]}},
]


@pytest.fixture
def provider(settings: Any) -> Iterator[str]:
    """Its address, with the settings that let people log in there."""
    with provider_mock.run_server_in_thread(user_claims=[provider_mock.User(**each) for each in PEOPLE]) as server:
        settings.OIDC_ISSUER = f"http://localhost:{server.server_port}"
        settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = "nous", "secret"
        settings.OIDC_NAME = "Harbour ID"
        settings.OIDC_ROLES = {"agents-reviewers": "Reviewer", "agents-owners": "Owner"}
        yield settings.OIDC_ISSUER

"""Lists on the one list page answer for any page that an address names."""

import pytest
from django.contrib.auth.models import User

from identity.models import Agent
from identity.principal import Principal
from tests.http import browser, markup

LISTS = {
    "/agents/ada/tokens/": "New token",
    "/agents/ada/webhooks/": "No webhooks yet",
    "/clients/": "No clients yet",
    "/people/": "1 account",
    "/agents/ada/imports/": "No imports yet",
    "/agents/ada/context/pins/": "No pins yet",
    "/context/profiles/": "4 profiles",
    "/agents/ada/health/stale/": "No facts yet",
}


@pytest.mark.parametrize("address", LISTS)
def test_list_answers_for_any_page(ada: Agent, actor: Principal, address: str) -> None:
    client = browser(User.objects.create_superuser("owner"))
    for page in ("", "2", "x", "-1", "9" * 30):
        shown = client.get(address, {"page": page})
        assert shown.status_code == 200
        assert LISTS[address] in markup(shown)

"""Lists on the one list page answer for any page that an address names."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from identity.models import Agent
from identity.principal import Principal
from nousweb.lib import clock
from tests.factories import make_fact, make_facts
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


def test_list_answers_for_any_page(ada: Agent, actor: Principal, subtests: pytest.Subtests) -> None:
    client = browser(User.objects.create_superuser("owner"))
    for address in LISTS:
        with subtests.test(address=address):
            for page in ("", "2", "x", "-1", "9" * 30):
                shown = client.get(address, {"page": page})
                assert shown.status_code == 200
                assert LISTS[address] in markup(shown)


def test_moment_is_told_by_its_age_within_a_week_else_by_its_day(ada: Agent, system: Principal, bob: User) -> None:
    now = clock.now()
    for days in (2, 8, 800):
        make_facts(ada, [f"The pier is {days} days old."], system, recorded_at=now - timedelta(days=days))
    shown = markup(browser(bob).get("/agents/ada/facts/"))
    week, years = now - timedelta(days=8), now - timedelta(days=800)
    last_year = "" if week.year == now.year else f" {week.year}"
    for words in ("2 d ago", f"{week.day} {week:%b}{last_year}", f"{years.day} {years:%b} {years.year}"):
        assert f">{words}</time>" in shown
    assert f'title="{week:%Y-%m-%d %H:%M} UTC"' in shown, "the exact time is the tooltip"


def test_page_of_one_thing_has_its_time_with_the_age(ada: Agent, system: Principal, bob: User) -> None:
    fact = make_fact(ada, "The pier is wet.", system)
    at = clock.now() - timedelta(days=2)
    type(fact).objects.filter(pk=fact.pk).update(last_confirmed_at=at, confirmation_count=2)
    shown = markup(browser(bob).get(f"/agents/ada/facts/{fact.pk}/"))
    assert f", {at:%H:%M} (2 d ago)</time>" in shown

"""The rail and its areas: few links, and every page of the console behind them."""

import re

import pytest
from django.contrib.auth.models import Permission, User
from django.http import HttpResponse
from django.urls import reverse
from django.utils.html import strip_tags

from identity.models import Agent, AuditEvent
from identity.principal import Principal
from nousweb.console.common.areas import PLACES
from nousweb.console.common.navigation import RECORDS_SEARCHED
from nousweb.console.inbox.filter import VIEWS
from tests.factories import make_principal, make_proposal, make_token
from tests.http import ApiClient, browser


@pytest.fixture
def owner(db: None) -> User:
    return User.objects.create_superuser("owner")


def test_rail_has_nine_links_at_most_and_leads_to_every_page_in_two_steps(ada: Agent, owner: User, bob: User) -> None:
    for person in (owner, bob):
        client = browser(person)
        rail = client.get("/").context["nav"]["rail"]
        assert len(rail) <= 9
        reached = set()
        for area in rail:
            page = client.get(area["url"], follow=True)
            assert page.status_code == 200, area
            assert [one["label"] for one in page.context["nav"]["rail"] if one["active"]] == [area["label"]]
            reached |= {area["url"], *(tab["url"] for tab in page.context["nav"]["tabs"])}
        # From the list of agents one comes to an agent's own pages.
        reached |= {tab["url"] for tab in client.get(ada.get_absolute_url()).context["nav"]["tabs"]}
        # The palette knows the same places: each has an area, or is a tab.
        places = [place for place in client.get("/").context["nav"]["places"] if "?" not in place[2]]
        by_meaning = reverse("agent_search", args=[ada.slug])
        assert (
            f'href="{by_meaning}?q=tea"'
            in client.get(reverse("agent_facts", args=[ada.slug]), {"q": "tea"}).content.decode()
        )
        reached.add(by_meaning)
        assert {place[2] for place in places} <= reached | {ada.get_absolute_url()}
        people = reverse("people") in {place[2] for place in places}
        assert people == person.is_superuser, "people without the right do not see People"


def heading_of(page: HttpResponse) -> str:
    found = re.search(r"<h1>(.*?)</h1>", page.content.decode(), re.DOTALL)
    return " ".join(found[1].split()) if found else ""


def test_page_is_headed_by_the_words_of_its_tab(ada: Agent, actor: Principal, owner: User) -> None:
    client = browser(owner)
    nav = client.get(ada.get_absolute_url()).context["nav"]
    found = {}
    for _, _, address, _ in nav["places"]:
        page = client.get(address, follow=True)
        if b'class="rail"' in page.content:
            shown = page.context["nav"]
            chosen = [one["label"] for one in (*shown["tabs"], *shown["rail"]) if one["active"]]
            found[address] = (heading_of(page), chosen[0])
            found |= {view["url"]: (heading_of(client.get(view["url"])), view["label"]) for view in shown["views"][1:]}
    assert len(found) > 25
    assert found.pop("/") == ("Nothing waits for review", "Home"), "Home is headed by what it says"
    assert found.pop(reverse("agent_search", args=[ada.slug])) == ("Search", "Memory"), "it has no tab"
    assert {address: pair for address, pair in found.items() if pair[0] != pair[1]} == {}


def test_breadcrumb_of_each_page_of_an_agent_names_all_above_it(ada: Agent, owner: User) -> None:
    client = browser(owner)
    home = client.get(ada.get_absolute_url(), follow=True)
    addresses = {address for *_, address, _ in home.context["nav"]["places"] if address.startswith("/agents/ada/")}
    below = {
        reverse("section_history", args=["ada", "values"]): "Ada / Identity",
        reverse("section_propose", args=["ada", "values"]): "Ada / Identity / Values",
        reverse("agent_context", args=["ada"]): "Ada / Prompts",
        reverse("agent_identity", args=["ada"]): "Ada",
    }
    assert len(addresses) > 20
    for address in sorted(addresses | below.keys()):
        page = client.get(address, follow=True).content.decode()
        items = re.findall(
            r"<li.*?</li>", page.partition('aria-label="Breadcrumb"')[2].partition("</nav>")[0], re.DOTALL
        )
        told = " / ".join(" ".join(strip_tags(item).split()) for item in items)
        assert told.startswith("Ada"), address
        assert told == below.get(address, told)


def test_rail_and_switch_lead_to_the_agent_that_was_looked_at_last(ada: Agent, bruno: Agent, bob: User) -> None:
    client = browser(bob)
    runs = {"ada": reverse("agent_context_runs", args=["ada"]), "bruno": reverse("agent_context_runs", args=["bruno"])}

    def prompts(path: str) -> str:
        return next(area["url"] for area in client.get(path).context["nav"]["rail"] if area["label"] == "Prompts")

    assert prompts("/inbox/") == runs["ada"]
    client.cookies["agent"] = "bruno"
    assert prompts("/inbox/") == runs["bruno"]
    assert prompts("/agents/ada/facts/") == runs["ada"], "the agent of the page goes before"
    client.cookies["agent"] = "nobody"
    assert prompts("/inbox/") == runs["ada"]
    switch = {one["slug"]: one["url"] for one in client.get("/agents/ada/facts/").context["nav"]["agents"]}
    assert switch["bruno"] == "/agents/bruno/facts/"
    impact = client.get("/agents/ada/context/blast/", {"proposal": str(make_proposal(ada, make_principal(ada)).pk)})
    above = {one["slug"]: one["url"] for one in impact.context["nav"]["agents"]}
    assert above["bruno"] == reverse("agent_context", args=["bruno"]), "an impact is of a change of one agent"


def test_new_log_in_has_the_agent_that_called_last(ada: Agent, bruno: Agent, api: ApiClient, bob: User) -> None:
    for agent in (bruno, ada):
        assert api.as_token(make_token(agent)).get("/identity").status_code == 200
        assert browser(bob).get("/").context["nav"]["chosen"] == agent.name


def test_new_log_in_has_the_agent_that_wrote_last_while_none_called(ada: Agent, bruno: Agent, bob: User) -> None:
    for agent in (bruno, ada):
        make_proposal(agent, make_principal(agent))
        assert browser(bob).get("/").context["nav"]["chosen"] == agent.name


def test_new_log_in_looks_through_the_latest_records_alone(ada: Agent, bruno: Agent, bob: User) -> None:
    make_proposal(bruno, make_principal(bruno))
    by = {"author_kind": "person", "author_id": "x", "author_name": "x", "action": "a.b"}
    for number, chosen in ((RECORDS_SEARCHED - 50, bruno), (50, ada)):
        AuditEvent.objects.bulk_create(AuditEvent(agent=ada, **by) for _ in range(number))
        assert browser(bob).get("/").context["nav"]["chosen"] == chosen.name


def test_palette_leads_to_each_part_of_the_inbox(owner: User) -> None:
    client = browser(owner)
    places = {url: label for label, _, url, _ in client.get("/").context["nav"]["places"] if "/inbox/?" in url}
    start = [url for url, label in places.items() if label == "Start reviewing"]
    assert client.get(start[0]).status_code in (200, 302)
    places = {url: label for url, label in places.items() if url not in start}
    for url, label in places.items():
        part = client.get(url).context
        assert [tab["label"] for tab in part["tabs"] if tab["active"]] == ["All" if part["part"].assignee else label]
    assert len(places) == len(VIEWS) + 2, "all but the whole of it, and what is assigned, decided and held back"


def test_tabs_are_the_same_on_each_page_and_lead_to_every_other(ada: Agent, owner: User) -> None:
    """None hides in a menu: what belongs to another page is a view of it."""
    client = browser(owner)
    for name, tab in (("facts", "Facts"), ("users", "Subjects"), ("working", "Events")):
        page = client.get(f"/agents/ada/{name}/").context
        tabs = page["nav"]["tabs"]
        assert [one["label"] for one in tabs if one["active"]] == [tab]
        assert len(tabs) == 8
        views = page.get("layouts") or page["nav"]["views"]
        assert name == "facts" or f"/agents/ada/{name}/" in [one["url"].partition("?")[0] for one in views]
    assert "Censors" in [one["label"] for one in client.get("/agents/ada/settings/").context["nav"]["tabs"]]


@pytest.mark.parametrize(
    ("rights", "name", "tabs", "views"),
    [
        (["view_event"], "events", ["Events"], ["Sessions", "Events"]),
        (["view_workingmemory"], "working", ["Working memory"], []),
        (["view_event", "view_workingmemory"], "working", ["Events"], ["Sessions", "Events", "Working memory"]),
        (["manage_user"], "users", ["Users"], []),
    ],
)
def test_tab_leads_to_the_view_of_its_page_that_one_may_see(
    ada: Agent, rights: list[str], name: str, tabs: list[str], views: list[str]
) -> None:
    person = User.objects.create_user("emil")
    person.user_permissions.set(Permission.objects.filter(codename__in=["view_agent", *rights]))
    page = browser(person).get(f"/agents/ada/{name}/").context
    nav = page["nav"]
    assert [one["label"] for one in nav["tabs"] if one["active"]] == tabs == [one["label"] for one in nav["tabs"]]
    assert browser(person).get(nav["tabs"][0]["url"]).status_code == 200
    assert [one["label"] for one in page.get("layouts", ()) or (nav["views"][1:] and nav["views"])] == views


def test_views_of_a_page_keep_the_persona(ada: Agent, owner: User) -> None:
    nav = browser(owner).get("/agents/ada/facts/?persona=subconscious").context["nav"]
    assert {view["url"].partition("?")[2] for view in nav["views"]} == {"persona=subconscious"}
    assert PLACES["agent_endings"][1].name == "agent_facts"

"""Projects and tasks on the pages of memory and of contexts."""

import pytest
from django.urls import reverse

from memory.models import Fact
from memory.services.decisions import decision_record
from memory.services.episodes import episode_open
from memory.services.procedures import procedure_create
from memory.services.working_memory import working_set
from tests.factories import make_events, make_fact
from tests.http import browser, markup

ATLAS = {"project": "atlas", "task": "fix"}
QUESTION = "Why did the ledger export fail?"


@pytest.fixture
def stored(ada, system):
    """Memories of a task of atlas, of all types."""
    make_events(ada, system, "The ledger export failed.", loop_id="talk", **ATLAS)
    return {
        "agent_fact": make_fact(ada, "The ledger export of atlas failed by a full disk.", system, **ATLAS),
        "agent_decision": decision_record(agent=ada, description="Retry the ledger export.", by=system, **ATLAS),
        "agent_episode": episode_open(agent=ada, title="The ledger export", by=system, **ATLAS),
        "agent_procedure": procedure_create(agent=ada, name="Export the ledger", by=system, **ATLAS),
    }


def test_pages_show_and_filter_by_project_and_task(ada, system, stored, alice):
    client = browser(alice)
    for name, row in stored.items():
        page = markup(client.get(reverse(name, args=["ada", row.pk])))
        assert "<dd>atlas</dd>" in page
        assert "<dd>fix</dd>" in page
    lists = ("agent_facts", "agent_decisions", "agent_episodes", "agent_procedures", "agent_events")
    for name in lists:
        url = reverse(name, args=["ada"])
        assert "project atlas" in markup(client.get(url, {"project": "atlas", "task": "fix"}))
        assert "project atlas" not in markup(client.get(url, {"project": "borealis"}))
    assert "project atlas" in markup(client.get(reverse("agent_loop", args=["ada", "talk"])))
    working_set(agent=ada, session_id="s", by=system, project="atlas")
    assert "project atlas" in markup(client.get(reverse("agent_working", args=["ada"])))


def test_search_page_shows_all_until_a_project_is_named(ada, stored, alice):
    client, url = browser(alice), reverse("agent_search", args=["ada"])
    assert "full disk" in markup(client.get(url, {"q": QUESTION}))
    assert "full disk" in markup(client.get(url, {"q": QUESTION, **ATLAS}))
    assert "full disk" not in markup(client.get(url, {"q": QUESTION, "project": "borealis"}))


def test_forms_set_project_and_task(ada, bob):
    given = {"content": "Tabs.", "category": "concept", "scope": "global", "confidence": "1", "importance": "0.5"}
    client = browser(bob)
    client.post(reverse("agent_fact_add", args=["ada"]), given | ATLAS)
    fact = Fact.objects.get()
    assert (fact.project, fact.task, fact.scope) == ("atlas", "fix", "task")
    given = {"category": "concept", "scope": "task", "project": "borealis", "task": "", "importance": "0.5"}
    url = reverse("agent_fact_change", args=["ada", fact.pk, "edit"])
    assert 'value="atlas"' in markup(client.get(url))
    assert client.post(url, given).status_code == 302
    fact.refresh_from_db()
    assert (fact.project, fact.task, fact.scope) == ("borealis", "", "project")


def test_inspector_asks_for_a_project_and_says_what_belongs_elsewhere(ada, stored, alice):
    client, url = browser(alice), reverse("agent_context", args=["ada"])
    inside = markup(client.get(url, {"input": QUESTION, "tab": "prompt", **ATLAS}))
    assert "fact, project atlas, task fix, ≈" in inside
    asked = {"input": QUESTION, "project": "borealis"}
    assert "Belongs to task fix of project atlas." in markup(client.get(url, {**asked, "tab": "left"}))
    assert "fact, project atlas" not in markup(client.get(url, {**asked, "tab": "prompt"}))

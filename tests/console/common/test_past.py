"""Pages of an agent as of a moment of the past, which the address names."""

import re
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from identity.models import Agent
from identity.principal import Principal
from identity.services.agents import agent_create
from identity.services.proposals import identity_propose
from memory.models import Fact
from memory.services.decisions import decision_record, decision_review
from memory.services.documents import document_put
from memory.services.episodes import episode_close, episode_open
from memory.services.facts import fact_edit, fact_learn, fact_replace
from memory.services.procedures import procedure_create, procedure_update
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.console.common.areas import PLACES
from nousweb.lib import clock
from tests.factories import make_events, make_principal, make_run
from tests.http import browser, markup

MARCH, APRIL, MAY = (datetime(2026, month, 1, 9, tzinfo=UTC) for month in (3, 4, 5))
THEN = "2026-04-01T09:00"
KYIV, LVIV = "The archive of the nightly job is in Kyiv.", "The archive of the nightly job is in Lviv."


@pytest.fixture
def eve(db: None, system: Principal, reviewer: Principal) -> Agent:
    """An agent who learned in March what was changed in May."""
    with clock.at(MARCH):
        agent = agent_create(slug="eve", name="Eve", kind="knight", prompt="You are Eve, calm and exact.", by=system)
        eve = make_principal(agent)
        old = fact_learn(agent=agent, content=KYIV, subject="nightly job", category="technical", by=eve).fact
        moved = fact_learn(agent=agent, content="Exports run at night.", category="technical", by=eve).fact
        decision = decision_record(agent=agent, description="Use Redis for the queue.", by=eve)
        episode = episode_open(agent=agent, title="Moving the archive", by=eve)
        procedure = procedure_create(agent=agent, name="Restart the queue", steps=["Stop it."], by=eve)
        document_put(agent=agent, namespace=["notes"], key="plan", value={"text": "Plan A"}, by=eve)
        make_events(agent, eve, "Where is the archive?", loop_id="march")
        make_run(agent, eve, "Where is the archive?")
    with clock.at(MAY):
        fact_replace(old=old, fields={"content": LVIV, "subject": "nightly job"}, by=reviewer)
        fact_edit(fact=moved, by=reviewer, category="event")
        decision_review(decision=decision, outcome="failure", note="It lost jobs.", by=reviewer)
        decision_record(agent=agent, description="Use PostgreSQL for the queue.", by=eve)
        episode_close(episode=episode, outcome="success", summary="The archive moved to Lviv.", by=reviewer)
        procedure_update(procedure=procedure, active=False, by=reviewer)
        document_put(agent=agent, namespace=["notes"], key="plan", value={"text": "Plan B"}, by=eve)
        make_events(agent, eve, "It moved.", loop_id="may")
        identity_propose(agent=agent, section="character", content="You are Eve, loud.", by=reviewer)
    return agent


def past(client: Client, name: str, *args: object, **query: str) -> str:
    page = client.get(reverse(name, args=["eve", *args]), {"as_of": THEN, **query})
    assert page.status_code == 200, page.content.decode()[-2000:]
    return markup(page)


def test_past_of_each_page_is_what_was_known_then(eve: Agent, charlie: User) -> None:
    client = browser(charlie)
    embed_pending_rows()
    facts = past(client, "agent_facts")
    assert KYIV in facts
    assert LVIV not in facts
    assert "technical" in facts.partition("Exports run at night.")[2].partition("</tr>")[0]
    assert "Exports run at night." in past(client, "agent_facts", category="technical")
    assert "Exports run at night." not in past(client, "agent_facts", category="event")
    old = Fact.objects.get(content=KYIV)
    page = past(client, "agent_fact", old.pk)
    assert ">Active<" in page
    assert LVIV not in page
    assert "replaced it by" not in page
    subject = past(client, "agent_subject", "nightly job")
    assert KYIV in subject
    assert LVIV not in subject
    decisions = past(client, "agent_decisions")
    assert "Use Redis" in decisions
    assert "PostgreSQL" not in decisions
    redis = eve.decisions.get(description__contains="Redis")
    assert "It lost jobs." not in past(client, "agent_decision", redis.pk)
    episode = eve.episodes.get()
    assert "moved to Lviv" not in past(client, "agent_episode", episode.pk)
    assert "Lviv" not in past(client, "agent_episodes")
    assert "Restart the queue" in past(client, "agent_procedures")
    assert ">Retired<" not in past(client, "agent_procedure", eve.procedures.get().pk)
    documents = past(client, "agent_documents")
    assert "Plan A" in documents
    assert "Plan B" not in documents
    first = eve.documents.get(version=1)
    assert "version 2" not in past(client, "agent_document", first.pk).lower()
    assert "It moved." not in past(client, "agent_events", view="events")
    assert "Where is the archive?" in past(client, "agent_events", view="events")
    assert "may" not in re.findall(r"/loops/(\w+)/", past(client, "agent_events"))
    identity = past(client, "agent_identity")
    assert "calm and exact" in identity
    assert "loud" not in identity
    history = past(client, "section_history", "character")
    assert ">Current<" in history
    assert "version 2" not in history.lower()
    hits = past(client, "agent_search", q="Where is the archive of the nightly job?")
    assert KYIV in hits
    assert LVIV not in hits
    asked = {"input": "Where is the archive of the nightly job?", "tab": "prompt"}
    prompt = past(client, "agent_context", **asked)
    assert "calm and exact" in prompt
    assert KYIV in prompt
    assert LVIV not in prompt
    later = client.get(reverse("agent_fact", args=["eve", Fact.objects.get(content=LVIV).pk]), {"as_of": THEN})
    assert later.status_code == 404
    assert "learned of this later, on 2026-05-01" in later.content.decode()


PAGES = sorted(
    name
    for name, (area, page) in PLACES.items()
    if area.of_agent and page is not area.page and name != "agent_webhooks"
)
CHANGING = {
    "agent_consent",
    "agent_context_settings",
    "agent_imports",
    "agent_playground",
    "agent_playground_compare",
    "agent_settings",
    "agent_users",
}
"""Pages that are there to change something."""


def test_past_is_carried_to_every_page_of_the_agent_and_changes_nothing(eve: Agent, charlie: User) -> None:
    client = browser(charlie)
    fact = Fact.objects.get(content=KYIV)
    places = [reverse(name, args=["eve"]) for name in PAGES if name not in CHANGING] + [fact.get_absolute_url()]
    told = 0
    for place in places:
        page = client.get(place, {"as_of": THEN})
        assert page.status_code == 200, place
        html = markup(page)
        addresses = re.findall(r'(?:href|hx-get|hx-post|action)="((?:/agents/eve/|\?)[^"]*)"', html)
        assert addresses
        assert [each for each in addresses if "as_of=" not in each] == [], place
        assert "As of 2026-04-01 09:00 UTC:" in html
        assert html.count('method="get"') == html.count('<input type="hidden" name="as_of" value="2026-04-01T09:00">')
        told += "remembered then" in html
        assert ("remembered then" in html) != ("shows the present" in html)
        # What is left sends a question, or ends the session.
        forms = re.findall(r'<form method="post"(?: action="([^"]*)")?', html)
        assert {form.partition("?")[0] for form in forms} <= {"/logout/", "/agents/eve/censors/bench/"}, place
    assert told >= 12
    for name in CHANGING:
        refused = client.get(reverse(name, args=["eve"]), {"as_of": THEN})
        assert refused.status_code == 403
        assert "The past cannot be changed, and this is for changes." in refused.content.decode()
        assert "shows the present" not in refused.content.decode()
    change = reverse("agent_fact_change", args=["eve", fact.pk, "invalidate"])
    assert client.post(f"{change}?as_of={THEN}", {"reason": "no"}).status_code == 403
    assert client.get(f"{change}?as_of={THEN}").status_code == 403
    assert client.post(reverse("agent_facts", args=["eve"]) + f"add/?as_of={THEN}", {"content": "x"}).status_code == 403
    fact.refresh_from_db()
    assert fact.invalidated_at is None


def test_past_is_kept_by_redirects_and_answers_of_htmx(eve: Agent, charlie: User) -> None:
    client = browser(charlie)
    back = client.get(reverse("agent", args=["eve"]), {"as_of": THEN})
    assert back["Location"] == "/agents/eve/identity/?as_of=2026-04-01T09%3A00"
    typed = client.post(
        f"/agents/eve/context/?as_of={THEN}", {"input": "Where is the archive?"}, headers={"HX-Request": "true"}
    )
    assert typed["HX-Replace-Url"].endswith("input=Where+is+the+archive%3F&as_of=2026-04-01T09%3A00")
    assert "Historical context." in typed.content.decode()
    now = client.get("/agents/eve/facts/?q=archive&as_of=")
    assert now["Location"] == "/agents/eve/facts/?q=archive"
    assert "as_of=" not in markup(client.get("/agents/eve/facts/"))
    # An export is of now, and a file that is named for a moment would not be.
    assert "export=csv" not in markup(client.get("/agents/eve/facts/", {"as_of": THEN}))
    assert "text/html" in client.get("/agents/eve/facts/", {"as_of": THEN, "export": "csv"})["Content-Type"]


def test_past_of_no_moment_is_refused(ada: Agent, alice: User, subtests: pytest.Subtests) -> None:
    for moment, why in [
        ("2999-01-01T00:00", "is in the future"),
        ("2026-02-30T00:00", "is not a moment"),
        ("yesterday", "is not a moment"),
        ("0001-01-01T00:00:00+14:00", "outside the years"),
        ("<b>", "is not a moment"),
    ]:
        with subtests.test(moment=moment, why=why):
            for name in ("agent_facts", "agent_identity", "agent_tokens", "agent_context"):
                refused = browser(alice).get(reverse(name, args=["ada"]), {"as_of": moment})
                assert refused.status_code in (422, 403) if name in ("agent_tokens", "agent_context") else 422
                if refused.status_code == 422:
                    assert why in refused.content.decode()
                    assert "<b>" not in refused.content.decode()

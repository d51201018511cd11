"""Making and changing agents, and their first identity."""

import pytest
from django.core.management import call_command
from django.urls import reverse

from identity.models import Agent, AgentLimit, AuditEvent, IdentityVersion
from identity.principal import Principal
from identity.services.agents import agent_create, agent_reinitiate, agent_update, facts_source_check, identity_seed
from memory.services.facts import fact_learn
from nousweb.lib.errors import Conflict, Invalid, NotAllowed, NotFound
from tests.factories import make_principal
from tests.http import browser


def test_agent_begins_with_its_prompt(db, system):
    agent = agent_create(slug="nous", name=" Nous  One ", kind="royalty", prompt="You are Nous.\r\n", by=system)
    assert (agent.slug, agent.name, agent.kind, agent.initiation_state) == ("nous", "Nous One", "royalty", "initiated")
    assert {version.section: version.content for version in agent.identity_versions.all()} == {
        "character": "You are Nous.",
        "boundaries": "See Active Censors section for current safety rules.",
    }


def test_agent_without_a_prompt_stays_new_and_can_be_seeded_later(db, system, settings):
    agent = agent_create(slug="nous", by=system)
    assert (agent.name, agent.initiation_state) == ("nous", "new")
    assert not IdentityVersion.objects.exists()
    settings.IDENTITY_PROMPT = "You are Nous."
    assert [version.section for version in identity_seed(agent=agent, by=system)] == ["character", "boundaries"]
    agent.refresh_from_db()
    assert agent.initiation_state == "initiated"
    assert identity_seed(agent=agent, by=system) == [], "only once"


def test_agent_seed_takes_facts_about_people_of_the_actor_only(system, ada, bruno):

    dreamer = make_principal(ada, "subconscious", name="t")
    fact_learn(agent=ada, content="Tim is a pilot.", category="person", by=system)
    fact_learn(agent=ada, content="A dream.", category="person", by=dreamer)
    fact_learn(agent=bruno, content="Ann sails.", category="person", by=system)
    fact_learn(agent=ada, content="Redis is fast.", category="technical", by=system)
    written, _ = agent_reinitiate(agent=ada, by=system)
    assert [(version.section, version.content) for version in written] == [
        ("preferences", "### User\n- Tim is a pilot.")
    ]


def test_agent_is_made_from_facts_that_exist(charlie, system, ada):
    """On the page, and by the command."""
    fact_learn(agent=ada, content="Tim is a pilot.", category="person", by=system)
    fact_learn(agent=ada, content="Tim prefers tea.", category="preference", by=system)
    form = {"name": "Eve", "slug": "eve", "kind": "squire", "prompt": "", "facts_from": "ada"}
    assert browser(charlie).post(reverse("agent_new"), form).status_code == 302
    call_command("createagent", "finn", "--facts-from", "ada")
    for slug in ("eve", "finn"):
        agent = Agent.objects.get(slug=slug)
        assert agent.initiation_state == "initiated"
        sections = dict(IdentityVersion.objects.filter(agent=agent).values_list("section", "content"))
        assert sections["preferences"] == "### User\n- Tim is a pilot.\n\n### Preferences\n- Tim prefers tea."
        assert AuditEvent.objects.get(action="agent.create", agent=agent).after["facts_from"] == "ada"


@pytest.mark.parametrize("name", ["actor", "subconscious"])
def test_agent_is_not_seeded_from_facts_that_one_may_not_read(ada, bruno, system, name):
    reader = make_principal(ada, name, scopes=["identity:read"])
    with pytest.raises(NotFound):
        facts_source_check(bruno, reader)
    with pytest.raises(NotAllowed):
        facts_source_check(ada, reader)


def test_agent_slug_is_a_lower_case_word(db, system, subtests):
    for slug in ["", "Ada", "a b", "a" * 51, "-a", "_a", "a/b", "a\n", "\n", "é", "a\x00", "../a", "a.b", "\ud800"]:
        with subtests.test(slug=slug):
            with pytest.raises(Invalid) as refused:
                agent_create(slug=slug, by=system)
            assert refused.value.field == "slug"
            assert not Agent.objects.exists()


@pytest.mark.parametrize("name", ["x" * 101, "a\x00", "\ud800"])
def test_agent_name_has_limits(ada, system, name):
    for make in (
        lambda: agent_create(slug="other", name=name, by=system),
        lambda: agent_update(agent=ada, name=name, kind="squire", by=system),
    ):
        with pytest.raises(Invalid) as refused:
            make()
        assert refused.value.field == "name"


def test_agent_kind_is_one_of_four(ada, system):
    for make in (
        lambda: agent_create(slug="other", kind="king", by=system),
        lambda: agent_update(agent=ada, name="Ada", kind="", by=system),
    ):
        with pytest.raises(Invalid, match="knight, squire, royalty, peasant"):
            make()


def test_agent_slug_is_unique(ada, system):
    events = AuditEvent.objects.count()
    with pytest.raises(Conflict) as refused:
        agent_create(slug="ada", by=system)
    assert refused.value.extra["field"] == "slug"
    assert (Agent.objects.count(), AuditEvent.objects.count()) == (1, events)


def test_agent_with_a_prompt_beyond_the_limit_is_not_created(db, system):
    with pytest.raises(Invalid, match="20,000"):
        agent_create(slug="nous", prompt="x" * 20_001, by=system)
    assert not Agent.objects.exists()


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_agent_changes_are_for_administrators(ada, request, name):
    by = Principal.of_user(request.getfixturevalue(name))
    with pytest.raises(NotAllowed):
        agent_create(slug="mine", by=by)
    with pytest.raises(NotAllowed):
        agent_update(agent=ada, name="Mine", kind="squire", by=by)


def test_agent_is_renamed(ada, charlie):
    by = Principal.of_user(charlie)
    agent_update(agent=ada, name="Ada L.", kind="peasant", by=by)
    record = AuditEvent.objects.latest("id")
    assert (record.before, record.after) == (
        {"name": "Ada", "kind": "knight"},
        {"name": "Ada L.", "kind": "peasant"},
    )
    events = AuditEvent.objects.count()
    agent_update(agent=ada, name="Ada L.", kind="peasant", by=by)
    assert AuditEvent.objects.count() == events, "nothing changed, nothing to tell"


def test_people_limited_to_some_agents_are_told_of_the_limit_and_not_to_get_a_role(ada, charlie):
    AgentLimit.objects.create(person=charlie, agents=[ada.pk])
    with pytest.raises(NotAllowed, match="your role is limited to some of them"):
        agent_create(slug="new", name="New", by=Principal.of_user(charlie))

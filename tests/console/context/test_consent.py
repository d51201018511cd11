"""The page of an agent's consent policy."""

import pytest
from django.urls import reverse

from memory.policy.oversight import ConsentPolicy
from tests.factories import make_fact, make_run
from tests.http import browser

URL = reverse("agent_consent", args=["ada"])
PENDING = {"action": "pending", "category": "technical"}


@pytest.fixture
def admin(ada, charlie):
    return browser(charlie)


def sent(*rules, **more):
    names = ("action", "category", "trust", "writer", "project", "days")
    rows = {f"rule{n}-{name}": rule.get(name, "") for n, rule in enumerate(rules) for name in names}
    rows |= {f"rule{n}-instructs": "on" for n, rule in enumerate(rules) if rule.get("instructs")}
    return rows | {"base_version": "0", "reason": "We read them."} | more


def rules(ada):
    ada.refresh_from_db()
    return ConsentPolicy.of_config(ada.config).as_json()


def sentences(answer):
    return [row.sentence for row in answer.context["rows"]]


def test_rules_are_added_moved_and_removed_before_they_are_saved(admin, ada):
    use = {"action": "use", "trust": "agent"}
    answer = admin.post(URL, sent(PENDING, use, change="up:1"))
    assert sentences(answer) == [
        "New memories from the agent itself are used at once.",
        "New facts of the category “technical” wait for a person.",
    ]
    assert len(admin.post(URL, sent(PENDING, change="add")).context["rows"]) == 2
    assert sentences(admin.post(URL, sent(PENDING, use, change="remove:0"))) == sentences(answer)[:1]
    for change in ("down:1", "up:0", "remove:7", "up:x", "nonsense"):
        assert admin.post(URL, sent(PENDING, use, change=change)).status_code == 200
    assert rules(ada) == []


def test_rules_are_saved_with_their_reason(admin, ada):
    instructing = {"action": "show", "instructs": True, "days": "7"}
    answer = admin.post(URL, sent(PENDING, instructing, change="save"), follow=True)
    assert answer.status_code == 200
    assert rules(ada) == [PENDING, {"action": "show", "instructs": True, "days": 7}]
    assert sentences(answer)[1] == "New facts that tell their reader what to do are used at once and shown to people."
    stale = admin.post(URL, sent(change="save"))
    assert stale.status_code == 409
    assert len(rules(ada)) == 2
    assert "We read them." in admin.get(reverse("agent_context_settings", args=["ada"])).content.decode()


@pytest.mark.parametrize("wrong", [{"action": "perhaps"}, {"category": "nothing"}, {"days": "900"}, {"trust": "x"}])
def test_what_is_wrong_is_said_and_nothing_is_saved(admin, ada, wrong):
    answer = admin.post(URL, sent(PENDING | wrong, change="save"))
    assert answer.status_code == 422
    assert "Not saved." in answer.content.decode()
    assert rules(ada) == []


def test_impact_names_the_memories_of_the_last_prompts(admin, ada, actor, reviewer):
    make_fact(ada, "The ledger export runs at two.", actor)
    make_fact(ada, "The ledger export is written in Rust.", reviewer)
    make_run(ada, actor, "When does the ledger export run?")
    make_run(ada, actor, "In what is the ledger export written?", session="t")
    impact = admin.post(URL, sent(PENDING, change="impact")).context["impact"]
    assert (impact.prompts, impact.changed) == (2, 2)
    assert [(one.text, one.prompts) for one in impact.memories] == [("The ledger export runs at two.", 2)]
    assert rules(ada) == []
    by_another = PENDING | {"project": "other"}
    assert admin.post(URL, sent(by_another, change="impact")).context["impact"].memories == ()


def test_impact_knows_the_writer(admin, ada, actor):
    make_fact(ada, "The ledger export runs at two.", actor)
    make_run(ada, actor, "When does the ledger export run?")
    assert actor.token is not None
    told = admin.post(URL, sent({"action": "refuse", "writer": actor.token.name}, change="impact")).context["impact"]
    assert told.changed == 1

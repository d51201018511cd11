"""The audit trail speaks in sentences: every action that the code records has its phrase."""

import ast
import re
from pathlib import Path

import pytest
from django.contrib.auth.models import User

from identity.models import Agent
from identity.policy.changes import ACTIONS, audit_phrase
from identity.principal import Principal
from nousweb.console.inbox.item_titles import changed_words
from tests.factories import make_proposal
from tests.http import browser

ROOT = Path(__file__).parent.parent.parent.parent
RECORDERS = {
    "audit_record",
    "audit_draft",
    "version_activate",
    "_record",
    "_record_given",
    "_audit_status",
    "_save",
    "fact_write",
}


def recorded_actions() -> set[str]:
    """The actions that calls of what writes the audit trail name, by word or in their place."""
    found = set()
    for folder in ("identity", "memory", "context", "nousweb"):
        for path in (ROOT / folder).rglob("*.py"):
            for call in ast.walk(ast.parse(path.read_text())):
                if not isinstance(call, ast.Call) or getattr(call.func, "id", "") not in RECORDERS:
                    continue
                named = [word.value for word in call.keywords if word.arg == "action"]
                for value in (*call.args, *named):
                    for part in ast.walk(value):
                        if isinstance(part, ast.Constant) and isinstance(part.value, str) and "." in part.value:
                            found.add(part.value)
    return {action for action in found if re.fullmatch(r"[a-z_]+\.[a-z_]+", action)}


def test_every_recorded_action_has_a_phrase() -> None:
    actions = recorded_actions()
    assert len(actions) > 50
    assert actions - set(ACTIONS) == set()


def test_phrases_hold_no_machine_words() -> None:
    assert [
        audit_phrase(action) for action in (*ACTIONS, "new_thing.do_it") if set("._") & set(audit_phrase(action))
    ] == []


@pytest.mark.django_db
def test_pages_of_the_trail_say_it_in_words(ada: Agent, actor: Principal, charlie: User) -> None:
    proposal = make_proposal(ada, actor, "values")
    client = browser(charlie)
    for address in ("/audit/", f"/review/{proposal.pk}/"):
        page = " ".join(client.get(address).content.decode().split())
        assert "proposed" in page
        assert ">proposal.create<" not in page


def test_line_that_only_moved_says_less_than_one_in_other_words():
    old = "A true picture before a quick answer.\nThe sleep of the person on call."
    told = changed_words(old, "The sleep of the person on call.\nA quick answer before a complete one.")
    assert told.words == "A quick answer before a complete one."
    old = "1. Customers first.\n2. A true picture before a quick answer.\n3. The sleep of the person on call."
    told = changed_words(old, "1. Customers first.\n2. The sleep of the person on call.\n3. Speed before everything.")
    assert told.words == "Speed before everything.", "nor does another number"

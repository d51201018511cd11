"""Pinned memories come first, within what persona, profile and budget allow."""

import pytest
from django.db import connection

from context.engine.analysis.request import ContextRequest
from context.models import ContextPin
from context.services import agent_settings
from context.services.agent_settings import context_pin, context_unpin
from context.services.context import context_assemble
from identity.models import AuditEvent
from identity.principal import Principal
from memory.services.erasure import fact_erase
from memory.services.facts import fact_invalidate
from nousweb.lib.errors import Conflict, Invalid, NotAllowed, NotFound
from tests.factories import EXPORT, make_fact, make_facts


def ask(agent, by, text=EXPORT, **more):
    return context_assemble(ContextRequest("s", text, dry_run=True, **more), agent=agent, by=by)


def test_pin_is_included_though_nothing_matches_it(ada, system, reviewer):
    fact = make_fact(ada, "Bananas are yellow.", system)
    assert "Bananas" not in ask(ada, system).system_prompt
    context_pin(agent=ada, item_type="fact", item_id=str(fact.pk), by=reviewer)
    assembly = ask(ada, system)
    assert "- Bananas are yellow." in assembly.system_prompt.splitlines()
    (verdict,) = [one for one in assembly.candidates if one["id"] == str(fact.pk)]
    assert (verdict["verdict"], verdict["place"]) == ("included", "pinned")
    context_unpin(agent=ada, item_type="fact", item_id=str(fact.pk), by=reviewer)
    assert "Bananas" not in ask(ada, system).system_prompt
    actions = list(
        AuditEvent.objects.filter(action__startswith="context.").order_by("pk").values_list("action", flat=True)
    )
    assert actions == ["context.pin", "context.unpin"]


def test_pin_comes_before_the_best_match(ada, system, reviewer):
    for number in range(6):
        make_fact(ada, f"The ledger export failed for reason {number}, as the ledger export does.", system)
    fact = make_fact(ada, "Bananas are yellow.", system)
    context_pin(agent=ada, item_type="fact", item_id=str(fact.pk), by=reviewer)
    assembly = ask(ada, system, budgets={"facts": 20})
    facts = next(section for section in assembly.sections if section["key"] == "facts")
    assert [item["id"] for item in facts["items"]] == [str(fact.pk)]


def test_pin_of_a_profile_fact_is_first_of_its_section(ada, system, reviewer):
    likes = [f"Likes number {number} very much indeed, and says so to whoever asks." for number in range(120)]
    make_facts(ada, likes, system, category="preference")
    tea = "Likes tea with a slice of lemon, at whatever hour and whoever makes it, and says so to whoever asks."
    last = make_fact(ada, tea, system, category="preference", confidence=0.1)
    assert tea not in ask(ada, system).system_prompt
    context_pin(agent=ada, item_type="fact", item_id=str(last.pk), by=reviewer)
    profile = next(section for section in ask(ada, system).sections if section["key"] == "user_profile")
    assert profile["items"][0]["id"] == str(last.pk)


def test_pin_is_overruled_by_a_profile_that_excludes_its_category(ada, system, reviewer):
    fact = make_fact(ada, "Bananas are yellow.", system, kind="tool_output")
    context_pin(agent=ada, item_type="fact", item_id=str(fact.pk), by=reviewer)
    assembly = ask(ada, system)
    assert "Bananas" not in assembly.system_prompt
    assert {one["id"]: one["verdict"] for one in assembly.candidates}[str(fact.pk)] == "excluded_kind"


def test_pin_of_a_retired_memory_stays_out(ada, system, reviewer):
    fact = make_fact(ada, "Bananas are yellow.", system)
    context_pin(agent=ada, item_type="fact", item_id=str(fact.pk), by=reviewer)
    fact_invalidate(fact=fact, by=reviewer)
    assert "Bananas" not in ask(ada, system).system_prompt
    with pytest.raises(NotFound):
        context_pin(agent=ada, item_type="fact", item_id=str(fact.pk), by=reviewer)


def test_pin_of_the_subconscious_does_not_reach_the_actor(ada, system, actor, subconscious_token, reviewer, charlie):
    from identity.models import ApiToken

    dreamer = Principal.of_token(ApiToken.objects.get(agent=ada, persona="subconscious"))
    dream = make_fact(ada, "A dream of bananas.", dreamer)
    with pytest.raises(NotFound):
        context_pin(agent=ada, item_type="fact", item_id=str(dream.pk), by=reviewer)
    admin = Principal.of_user(charlie)
    context_pin(agent=ada, item_type="fact", item_id=str(dream.pk), by=admin, persona="subconscious")
    assert "dream" not in ask(ada, actor).system_prompt
    assert "dream" in ask(ada, dreamer).system_prompt


def test_pin_of_another_agents_memory_is_refused(ada, bruno, system, reviewer):
    fact = make_fact(bruno, "Bananas are yellow.", system)
    with pytest.raises(NotFound):
        context_pin(agent=ada, item_type="fact", item_id=str(fact.pk), by=reviewer)


def test_pin_of_a_malformed_id_is_not_found(ada, reviewer, subtests):
    for item_type in ["fact", "event"]:
        for item_id in ["", "x", "1", "٣", "9" * 40, "{" + "0" * 32 + "}"]:
            with subtests.test(item_type=item_type, item_id=item_id):
                with pytest.raises(NotFound):
                    context_pin(agent=ada, item_type=item_type, item_id=item_id, by=reviewer)
                with pytest.raises(Invalid):
                    context_pin(agent=ada, item_type="loop", item_id=item_id, by=reviewer)


def test_pin_twice_is_one_and_the_limit_holds(ada, system, reviewer, monkeypatch):
    monkeypatch.setattr(agent_settings, "MAX_PINS", 2)
    facts = [make_fact(ada, f"Fact {number}.", system) for number in range(3)]
    for fact in (facts[0], facts[0], facts[1]):
        context_pin(agent=ada, item_type="fact", item_id=str(fact.pk), by=reviewer)
    assert ContextPin.objects.count() == 2
    with pytest.raises(Conflict):
        context_pin(agent=ada, item_type="fact", item_id=str(facts[2].pk), by=reviewer)


def test_pin_permissions(ada, system, alice, actor):
    fact = make_fact(ada, "Bananas are yellow.", system)
    for by in (Principal.of_user(alice), actor):
        with pytest.raises(NotAllowed):
            context_pin(agent=ada, item_type="fact", item_id=str(fact.pk), by=by)
    assert not ContextPin.objects.exists()


def test_pin_of_an_erased_fact_is_erased(ada, system, reviewer, charlie):
    fact = make_fact(ada, "Bananas are yellow.", system)
    context_pin(agent=ada, item_type="fact", item_id=str(fact.pk), by=reviewer)
    fact_erase(fact=fact, by=Principal.of_user(charlie), reason="Asked to.")
    assert not ContextPin.objects.exists()


def test_pin_as_of_a_past_context_is_that_of_its_time(ada, system, reviewer):
    fact = make_fact(ada, "Bananas are yellow.", system)
    pin = context_pin(agent=ada, item_type="fact", item_id=str(fact.pk), by=reviewer)
    assert "Bananas" in ask(ada, system, as_of=pin.created_at).system_prompt
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::timestamptz - interval '1 microsecond'", [pin.created_at])
        (before,) = cursor.fetchone()
    assert "Bananas" not in ask(ada, system, as_of=before).system_prompt

"""What is no longer told is explained when somebody asks, and is in no prompt."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from context.engine.analysis.request import ContextRequest
from context.engine.retrieval import retired_memories
from context.models import ContextRun
from context.services.agent_settings import context_pin
from context.services.context import context_assemble
from identity.models import ApiToken
from identity.principal import Principal
from memory.models import GLOBAL, ItemType, MemoryReview
from memory.persona import ActorMemory
from memory.search.request import SearchRequest
from memory.search.search import search
from memory.services.decisions import decision_record, decision_update
from memory.services.erasure import fact_erase
from memory.services.facts import fact_invalidate, fact_supersede
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.lib import clock
from tests.factories import EXPORT, make_fact
from tests.http import ApiClient, browser

OLD = "The ledger export failed because the disk was full."
NEW = "The ledger export failed because the replica lagged."
URL = "/agents/ada/context/"


def replace(agent, old, content, by, **more):
    """Learn `content` in the place of a fact; nobody is asked about the two any more."""
    new = make_fact(agent, content, by, **more)
    MemoryReview.objects.pending().update(status="expired")
    _, new = fact_supersede(old=old, new=new, by=by)
    old.refresh_from_db()
    return new


@pytest.fixture
def replaced(ada, system):
    """A fact and the one that took its place, with their vectors."""
    old = make_fact(ada, OLD, system)
    new = replace(ada, old, NEW, system)
    embed_pending_rows()
    return old, new


def explained(agent, by, text=EXPORT, **more):
    result = context_assemble(agent=agent, request=ContextRequest("s", text, dry_run=True, explain=True, **more), by=by)
    return result, {one["id"]: one for one in result.candidates}


def test_retired_memory_names_its_successor_and_the_end_of_its_validity(ada, replaced, actor):
    old, new = replaced
    result, found = explained(ada, actor)
    verdict = found[str(old.pk)]
    assert verdict["verdict"] == "superseded"
    assert verdict["superseded_by"] == str(new.pk)
    assert f"by “{NEW[:-1]}”." in verdict["reason"]
    assert f"{old.retired_at:%Y-%m-%d}" in verdict["reason"]
    assert OLD not in result.system_prompt
    assert found[str(new.pk)]["verdict"] == "included"


def test_retired_memory_hint_date_includes_it_when_applied(ada, replaced, actor):
    old, _ = replaced
    _, found = explained(ada, actor)
    said = found[str(old.pk)]["hint"].removeprefix("A date before ").split(" UTC")[0]
    moment = datetime.strptime(said, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    assert moment <= old.valid_until < moment + timedelta(seconds=1)
    then, found_then = explained(ada, actor, as_of=old.valid_until - timedelta(microseconds=1))
    assert OLD in then.system_prompt
    assert found_then[str(old.pk)]["verdict"] == "included"
    after, found_after = explained(ada, actor, as_of=old.retired_at)
    assert OLD not in after.system_prompt
    assert found_after[str(old.pk)]["verdict"] == "superseded"


def test_retired_explanation_changes_no_prompt_and_costs_one_statement(ada, replaced, actor):
    counts, prompts = [], []
    for explain in (False, True):
        request = ContextRequest("s", EXPORT, dry_run=True, explain=explain)
        with CaptureQueriesContext(connection) as queries:
            result = context_assemble(agent=ada, request=request, by=actor)
        counts.append(len(queries))
        prompts.append(result.system_prompt)
    assert prompts[0] == prompts[1]
    assert counts[1] == counts[0] + 1


def test_retired_explanation_is_absent_unless_asked_for(api, ada, replaced, actor_token):
    old, _ = replaced
    caller = api.as_token(actor_token)
    caller.post("/context", {"session_id": "s", "input": EXPORT})
    assert str(old.pk) not in {one["id"] for one in ContextRun.objects.get().candidates}
    body = caller.post("/context", {"session_id": "s", "input": EXPORT, "explain": True, "dry_run": True}).json()
    assert [one["verdict"] for one in body["candidates"] if one["id"] == str(old.pk)] == ["superseded"]


def test_retired_core_memory_is_explained_too(ada, system, actor):
    old = make_fact(ada, "Tim drinks tea in the morning.", system, category="preference", subject="Tim")
    new = replace(ada, old, "Tim drinks coffee in the morning.", system, category="preference", subject="Tim")
    result, found = explained(ada, actor, "What does Tim drink in the morning?")
    assert found[str(old.pk)]["superseded_by"] == str(new.pk)
    assert "tea" not in result.system_prompt


def test_retired_as_wrong_has_no_hint_date_and_retired_has_one(ada, system, actor):
    wrong = make_fact(ada, OLD, system)
    fact_invalidate(fact=wrong, by=system, reason="It was not.")
    decision = decision_record(agent=ada, description="Export the ledger by night.", by=system)
    decision_update(decision=decision, by=system, active=False)
    result, found = explained(ada, actor)
    assert found[str(wrong.pk)]["verdict"] == found[str(decision.pk)]["verdict"] == "retired"
    assert found[str(wrong.pk)]["reason"].startswith("Marked as wrong")
    assert ["A date before" in found[str(one.pk)]["hint"] for one in (wrong, decision)] == [False, True]
    assert "disk was full" not in result.system_prompt


def test_retired_memory_is_not_brought_back_by_a_pin(ada, system, actor, bob):
    old = make_fact(ada, OLD, system)
    context_pin(agent=ada, item_type=ItemType.FACT, item_id=str(old.pk), by=Principal.of_user(bob))
    replace(ada, old, NEW, system)
    result, found = explained(ada, actor)
    assert found[str(old.pk)]["verdict"] == "superseded"
    assert OLD not in result.system_prompt


def test_retired_subconscious_and_other_agents_memory_is_not_explained(ada, bruno, system, actor, subconscious_token):
    dreamer = Principal.of_token(ApiToken.objects.get(agent=ada, persona="subconscious"))
    dream = make_fact(ada, OLD, dreamer)
    replace(ada, dream, "The ledger export failed in a dream.", dreamer)
    other = make_fact(bruno, OLD, system)
    replace(bruno, other, "The ledger export failed at Bruno's.", system)
    _, found = explained(ada, actor)
    assert not {str(dream.pk), str(other.pk)} & found.keys()
    _, found = explained(ada, dreamer)
    assert str(dream.pk) in found
    assert str(other.pk) not in found


def test_retired_matches_are_limited_to_the_latest_and_those_with_the_words(ada, system, actor, monkeypatch):
    monkeypatch.setattr(retired_memories, "LATEST", 2)
    texts = ["The ledger export failed.", "Books went missing from a shelf.", "Whales sing.", "Whales dive."]
    facts = [make_fact(ada, text, system) for text in texts]
    for place, fact in enumerate(facts):
        with clock.at(clock.now() - timedelta(days=9 - place)):
            fact_invalidate(fact=fact, by=system)
    found = search(ActorMemory(ada), SearchRequest(EXPORT, GLOBAL))
    looked_at = {hit.id for hit in retired_memories.retired_search(ActorMemory(ada), found.query)}
    assert looked_at == {str(facts[place].pk) for place in (0, 2, 3)}


def test_retired_memory_in_the_inspector_links_to_its_successor(ada, replaced, alice):
    old, new = replaced
    page = browser(alice).get(URL, {"input": EXPORT, "verdict": "superseded"}).content.decode()
    assert f'href="/agents/ada/facts/{old.pk}/?' in page
    assert re.search(rf'href="/agents/ada/facts/{new.pk}/[^"]*">Open its replacement', page)
    assert "What would include it: A date before" in page


def test_retired_memory_quotes_no_erased_successor(ada, replaced, actor_token, charlie):
    _, new = replaced
    ApiClient().as_token(actor_token).post("/context", {"session_id": "s", "input": "zebra disk full", "explain": True})
    assert ContextRun.objects.exists()
    fact_erase(fact=new, by=Principal.of_user(charlie), reason="Asked for.")
    assert not ContextRun.objects.exists()

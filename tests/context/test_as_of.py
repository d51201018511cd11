"""A context as of a moment is made of what was known, and in force, then: texts, filing, pins, censors, settings."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context.engine.analysis.request import ContextRequest
from context.models import ContextProfile
from context.services.agent_settings import context_pin, context_unpin, profile_assign, profile_create, profile_update
from context.services.context import context_assemble
from identity.models import ApiToken, AuditEvent
from identity.principal import Principal
from identity.services.agents import agent_configure
from identity.services.proposals import identity_propose, proposal_approve
from memory.models import GLOBAL, Decision, Episode, FactChange, LoopSummary, SearchItem
from memory.persona import ActorMemory
from memory.search.as_of import historical_rows, memories_as_of
from memory.search.memory_loader import memories_load
from memory.search.request import SearchRequest
from memory.search.search import search
from memory.services.censors import censor_create, censor_retire, censor_update
from memory.services.decisions import decision_record, decision_review, decision_update
from memory.services.episodes import episode_append, episode_close, episode_open, episode_update
from memory.services.events import events_record
from memory.services.facts import fact_edit, fact_invalidate, fact_restore, fact_supersede
from memory.services.loops import derived_backfill
from memory.services.procedures import procedure_create, procedure_report, procedure_update
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.lib import clock
from tests.database import as_the_owner
from tests.factories import make_fact, make_facts
from tests.http import browser

NOW = clock.now().replace(microsecond=0)
ASKED = "How did the ledger export go?"


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def ask(agent, by, days=None, text=ASKED, **more):
    as_of = None if days is None else ago(days)
    request = ContextRequest("s", text, as_of=as_of, dry_run=True, explain=True, **more)
    return context_assemble(agent=agent, request=request, by=by)


def prompt(agent, by, days=None, text=ASKED, **more):
    return ask(agent, by, days, text, **more).system_prompt


def found(agent, days=None, query=ASKED, **more):
    """What a search finds, by id."""
    request = SearchRequest(query, GLOBAL, as_of=None if days is None else ago(days), min_score=0.0, limit=50, **more)
    return {hit.id: hit for hit in search(ActorMemory(agent), request).items}


@dataclass(frozen=True)
class Kind:
    """How a type of memory is made with a text about the ledger export, retired, and brought back."""

    make: Callable[..., Any]
    retire: Callable[..., Any]
    revive: Callable[..., Any]


def _retired(service, name):
    return (
        lambda row, by: service(**{name: row}, by=by, active=False),
        lambda row, by: service(**{name: row}, by=by, active=True),
    )


TEXT = "The ledger export is checked by hand."
KINDS = {
    "fact": Kind(
        lambda agent, by: make_fact(agent, TEXT, by),
        lambda row, by: fact_supersede(
            old=row, new=make_facts(row.agent, [f"Robots check the ledger export of {row.pk}."], by)[0], by=by
        ),
        lambda row, by: fact_restore(fact=row, by=by),
    ),
    "decision": Kind(
        lambda agent, by: decision_record(agent=agent, description=TEXT, importance=0.8, by=by),
        *_retired(decision_update, "decision"),
    ),
    "procedure": Kind(
        lambda agent, by: procedure_create(agent=agent, name=TEXT, importance=0.8, by=by),
        *_retired(procedure_update, "procedure"),
    ),
    "episode": Kind(
        lambda agent, by: episode_open(agent=agent, title=TEXT, importance=0.8, by=by),
        *_retired(episode_update, "episode"),
    ),
}


@pytest.fixture
def old_ada(ada):
    """Ada since a year, so that there is somebody to ask of the past."""
    ada.created_at = ago(365)
    ada.save(update_fields=["created_at"])
    return ada


@pytest.mark.parametrize("name", KINDS)
def test_as_of_memory_retired_since_is_present_before_and_absent_after(old_ada, system, name):
    kind = KINDS[name]
    with clock.at(ago(30)):
        row = kind.make(old_ada, system)
    with clock.at(ago(10)):
        kind.retire(row, system)
    row.refresh_from_db()
    with clock.at(ago(2)):
        kind.revive(row, system)
    shown = {days: TEXT in prompt(old_ada, system, days) for days in (31, 20, 5, 1)}
    assert shown == {31: False, 20: True, 5: False, 1: True}
    assert TEXT in prompt(old_ada, system)


@pytest.mark.parametrize("name", KINDS)
def test_as_of_retired_memory_names_the_end_of_its_validity(old_ada, system, name):
    kind = KINDS[name]
    with clock.at(ago(30)):
        row = kind.make(old_ada, system)
    with clock.at(ago(10)):
        kind.retire(row, system)
    assert TEXT not in prompt(old_ada, system)
    (verdict,) = [one for one in ask(old_ada, system).candidates if one["id"] == str(row.pk)]
    assert f"{ago(10):%Y-%m-%d}" in verdict["reason"]
    assert "A date before" in verdict["hint"]
    assert TEXT in prompt(old_ada, system, 20)
    assert str(row.pk) in found(old_ada, 20)
    assert str(row.pk) not in found(old_ada, 5)


def test_as_of_open_episode_hides_its_later_end(old_ada, system):
    with clock.at(ago(30)):
        episode = episode_open(agent=old_ada, title="Ledger export", detail="The export began.", by=system)
    with clock.at(ago(20)):
        episode_append(episode=episode, text="The disk is filling up.", by=system)
    with clock.at(ago(10)):
        # Said to have ended long before it was closed: then, nobody knew.
        episode_close(
            episode=episode,
            by=system,
            outcome="failure",
            summary="It broke on the zebra partition.",
            lessons=["Watch the zebra."],
            ended_at=ago(25),
        )
    with clock.at(ago(5)):
        episode_update(episode=episode, by=system, title="The zebra export")
    key = str(episode.pk)
    then = {days: found(old_ada, days)[key] for days in (29, 15, 7, 1)}
    assert then[29].content == "Ledger export\nThe export began."
    assert then[15].content == "Ledger export\nThe export began.\nThe disk is filling up."
    assert then[7].content == "Ledger export\nIt broke on the zebra partition."
    assert then[1].content == "The zebra export\nIt broke on the zebra partition."
    assert [(hit.metadata["outcome"], hit.metadata["ended_at"], hit.category) for hit in then.values()] == [
        ("unknown", None, "unknown"),
        ("unknown", None, "unknown"),
        ("failure", ago(25), "failure"),
        ("failure", ago(25), "failure"),
    ]
    assert then[15].metadata["lessons"] == []
    assert "zebra" not in prompt(old_ada, system, 15)
    assert key in found(old_ada, 1, "zebra", types=["episode"])
    # Nor is it found by words that it holds only since.
    assert found(old_ada, 15, "zebra", types=["episode"])[key].lexical == 0
    assert Episode.objects.get(pk=key).title == "The zebra export"


def test_as_of_episode_without_trail_hides_a_dated_end(old_ada, system):
    with clock.at(ago(30)):
        episode = episode_open(agent=old_ada, title="Ledger export", detail="The export began.", by=system)
    with clock.at(ago(10)):
        episode_close(episode=episode, by=system, outcome="failure", summary="It broke.", lessons=["Watch it."])
        decision = decision_record(agent=old_ada, description="Export the ledger by night.", by=system)
    with clock.at(ago(5)):
        decision_review(decision=decision, outcome="failure", note="Nobody was awake.", by=system)
    trail = AuditEvent.objects.filter(object_id__in=[str(episode.pk), str(decision.pk)])
    with as_the_owner(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL nous.erasure = 'on'")
        trail.update(before=None, after=None, message="", object_label="")
    assert found(old_ada, 20)[str(episode.pk)].content == "Ledger export\nThe export began."
    assert found(old_ada, 20)[str(episode.pk)].metadata["outcome"] == "unknown"
    assert found(old_ada, 7)[str(decision.pk)].metadata["outcome_note"] == ""
    assert found(old_ada, 7)[str(decision.pk)].metadata["outcome"] == "pending"


def test_as_of_procedure_has_its_earlier_text(old_ada, system):
    with clock.at(ago(30)):
        procedure = procedure_create(agent=old_ada, name="Ledger export", steps=["Ask the giraffe."], by=system)
    with clock.at(ago(20)):
        procedure_report(procedure=procedure, success=True, by=system)
    with clock.at(ago(10)):
        procedure_update(procedure=procedure, by=system, steps=["Press the button."], tags=["new"], importance=0.9)
        procedure_report(procedure=procedure, success=False, by=system)
    key = str(procedure.pk)
    assert "giraffe" not in prompt(old_ada, system)
    assert "- Ledger export\n  1. Ask the giraffe." in prompt(old_ada, system, 15)
    # Found by its words of then, and not by those of today.
    assert found(old_ada, 15, "giraffe", types=["procedure"])[key].lexical > 0.9
    assert found(old_ada, 15, "button", types=["procedure"])[key].lexical == 0
    hits = [found(old_ada, days)[key] for days in (25, 15, 1)]
    assert [hit.metadata["effectiveness"] for hit in hits] == [None, 1.0, 0.5]
    assert [(list(hit.tags), hit.importance) for hit in hits] == [([], 0.5), ([], 0.5), (["new"], 0.9)]
    assert key in found(old_ada, 1, tags=["new"])
    assert key not in found(old_ada, 15, tags=["new"])
    assert key not in found(old_ada, 15, min_importance=0.8)


def test_as_of_memory_not_yet_valid_takes_no_place(old_ada, system):
    with clock.at(ago(30)):
        contents = [f"How did the ledger export go? Case {number}." for number in range(30)]
        make_facts(old_ada, contents, system, valid_from=ago(5))
        make_fact(old_ada, "Of the ledger export Tim told much, and of giraffes.", system)
    assert "giraffes" in prompt(old_ada, system, 20)
    request = ContextRequest("s", ASKED, as_of=ago(20))
    assert "giraffes" in context_assemble(agent=old_ada, request=request, by=system).system_prompt


def test_as_of_changed_text_is_found_by_words_and_not_by_todays_vector(old_ada, system):
    with clock.at(ago(30)):
        procedure = procedure_create(agent=old_ada, name="Ledger export", steps=["Ask the giraffe."], by=system)
        other = procedure_create(agent=old_ada, name="Ledger import", steps=["Ask the ostrich."], by=system)
    with clock.at(ago(10)):
        procedure_update(procedure=procedure, by=system, steps=["Press the button."])
    embed_pending_rows()
    then, now = found(old_ada, 20), found(old_ada)
    assert (then[str(procedure.pk)].cosine, then[str(procedure.pk)].lexical > 0) == (0.0, True)
    assert then[str(other.pk)].cosine == now[str(other.pk)].cosine != 0.0
    assert now[str(procedure.pk)].cosine != 0.0


def test_as_of_decision_hides_its_later_outcome(old_ada, system):
    with clock.at(ago(30)):
        decision = decision_record(agent=old_ada, description="Export the ledger by night.", category="ops", by=system)
    with clock.at(ago(20)):
        decision_review(decision=decision, outcome="partial", note="Half of it.", by=system)
    with clock.at(ago(10)):
        decision_review(decision=decision, outcome="success", note="All of it.", by=system)
        decision_update(decision=decision, by=system, category="ledger")
    hits = [found(old_ada, days)[str(decision.pk)] for days in (25, 15, 1)]
    assert [(hit.metadata["outcome"], hit.metadata["outcome_note"], hit.category) for hit in hits] == [
        ("pending", "", "ops"),
        ("partial", "Half of it.", "ops"),
        ("success", "All of it.", "ledger"),
    ]
    assert str(decision.pk) in found(old_ada, 15, categories=["ops"])
    assert str(decision.pk) not in found(old_ada, 15, categories=["ledger"])


def test_as_of_fact_has_its_earlier_category(old_ada, system):
    with clock.at(ago(30)):
        fact = make_fact(old_ada, TEXT, system, category="technical", subject="Ledger")
    with clock.at(ago(20)):
        fact_edit(fact=fact, by=system, category="rule", importance=0.9)
    with clock.at(ago(10)):
        fact_edit(fact=fact, by=system, category="process")

    def place(days):
        sections = ask(old_ada, system, days).sections
        return [part["key"] for part in sections if any(item["id"] == str(fact.pk) for item in part["items"])]

    assert [place(days) for days in (25, 15, 5, None)] == [["facts"], ["user_profile"], ["facts"], ["facts"]]
    hits = [found(old_ada, days)[str(fact.pk)] for days in (25, 15, 5)]
    assert [(hit.category, hit.importance) for hit in hits] == [("technical", 0.8), ("rule", 0.9), ("process", 0.9)]


def test_as_of_core_memory_is_chosen_by_its_earlier_confidence(old_ada, system):
    with clock.at(ago(30)):
        facts = [
            make_fact(old_ada, f"Tim likes {what}.", system, category="preference", confidence=sure)
            for what, sure in (("tea", 0.6), ("figs", 0.5))
        ]
    with clock.at(ago(10)):
        fact_edit(fact=facts[1], by=system, confidence=0.9)

    tokens = 200

    def told(days):
        sections = ask(old_ada, system, days, budgets={"user_profile": tokens}).sections
        return [item["text"] for part in sections if part["key"] == "user_profile" for item in part["items"]]

    assert sorted(told(20)) == sorted(told(5)) == ["- Tim likes figs.", "- Tim likes tea."]
    tokens = 17
    assert told(20) == ["- Tim likes tea."]
    assert told(5) == told(None) == ["- Tim likes figs."]


def test_as_of_core_memory_over_the_limit_still_loads_pinned_facts(old_ada, system, bob, monkeypatch):
    monkeypatch.setattr("context.engine.retrieval.fixed_sections.PROFILE_FACTS_READ", 1)
    with clock.at(ago(30)):
        for content, confidence in (("Tim likes tea.", 0.9), ("Tim likes figs.", 0.6)):
            fact = make_fact(old_ada, content, system, category="person", confidence=confidence)
        context_pin(agent=old_ada, item_type="fact", item_id=str(fact.pk), by=Principal.of_user(bob))
    lines = [line for line in prompt(old_ada, system, 20, "hello").split("\n") if "Tim" in line]
    assert lines == ["- Tim likes figs.", "- Tim likes tea."]


def test_as_of_recategorised_facts_over_the_limit_keep_their_earlier_category(old_ada, system, monkeypatch):
    with clock.at(ago(30)):
        facts = [make_fact(old_ada, f"The ledger export is checked by robot {n}.", system) for n in range(4)]
    # In an order that is that of no key.
    for days, place in ((9, 2), (8, 0), (7, 3), (6, 1)):
        with clock.at(ago(days)):
            fact_edit(fact=facts[place], by=system, category="rule")
    monkeypatch.setattr("memory.search.as_of.MAX_CHANGED", 2)
    request = SearchRequest(ASKED, GLOBAL, as_of=ago(20), exclude_categories=("rule",))
    assert {key for _, key in _changed(old_ada, request)} == {str(facts[3].pk), str(facts[1].pk)}


def _changed(agent, request):
    rows = SearchItem.objects.filter(pk__in=historical_rows(ActorMemory(agent), request, request.as_of).ids)
    return list(rows.values_list("item_type", "item_id"))


ELSEWHERE = [None, 5, True, "nan", "2024-01-01", ["a", 1, None], {"a": None}]


def _recorded(agent, row, action, state):
    """A record as a file from elsewhere may hold it, of the fifth day ago."""
    name = row._meta.model_name
    AuditEvent.objects.create(
        at=ago(5), agent=agent, action=action, object_type=name, object_id=str(row.pk), before=state, after=state
    )


@pytest.mark.parametrize("said", ELSEWHERE, ids=str)
def test_as_of_trail_written_by_no_service_reverts_nothing(old_ada, system, said):
    words = isinstance(said, str)
    with clock.at(ago(30)):
        decision = decision_record(agent=old_ada, description=TEXT, reasons=["r"], importance=0.8, by=system)
        fact = make_fact(old_ada, "The ledger export is a giraffe.", system)
    names = ("persona", "id", "created_at", "importance", "tags", "reasons", "outcome", "reviewed_at", "confidence")
    states = [said, dict.fromkeys(names if words else (*names, "description", "category"), said)]
    for state in states:
        for action in ("decision.update", "decision.review", "episode.append", "context.pin", "agent.configure"):
            _recorded(old_ada, decision, action, state)
        FactChange.objects.create(agent=fact.agent, fact=fact, action="edited", at=ago(5), before=state or {})
    Decision.objects.filter(pk=decision.pk).update(updated_at=ago(5))
    for days in (10, 1):
        shown = found(old_ada, days, exclude_categories=("rule",))
        hit = shown[str(decision.pk)]
        assert (hit.content, hit.metadata["reasons"], hit.importance, hit.happened_at) == (TEXT, ["r"], 0.8, ago(30))
        assert (shown[str(fact.pk)].importance, shown[str(fact.pk)].tags) == (0.8, [])
        assert "giraffe" in prompt(old_ada, system, days)


def test_as_of_retired_episode_is_not_included_for_its_period(old_ada, system):
    asked = "What happened in the last two weeks?"
    with clock.at(ago(8)):
        episode = episode_open(agent=old_ada, title="A giraffe came by.", by=system)
    for days, active in ((6, False), (2, True)):
        episode.refresh_from_db()
        with clock.at(ago(days)):
            episode_update(episode=episode, by=system, active=active)
    told = {days: "giraffe" in prompt(old_ada, system, days, asked) for days in (7, 5, 1)}
    assert told == {7: True, 5: False, 1: True}


def test_as_of_core_memory_leaves_out_what_the_profile_excludes(old_ada, system, charlie):
    with clock.at(ago(30)):
        values = {"excluded_kinds": ["noise"]}
        profile_create(slug="quiet", name="Quiet", base=None, values=values, by=Principal.of_user(charlie))
        make_fact(old_ada, "Bananas are yellow.", system, category="rule", kind="noise")
        make_fact(old_ada, "Never guess.", system, category="rule")
    for profile, shown in ((None, [True, True]), ("quiet", [False, True])):
        then = prompt(old_ada, system, 20, "hello", profile=profile)
        assert [text in then for text in ("Bananas", "Never guess")] == shown


def test_as_of_explanation_leaves_out_memory_learned_and_retired_since(old_ada, system):
    with clock.at(ago(15)):
        made = [kind.make(old_ada, system) for kind in KINDS.values()]
    with clock.at(ago(10)):
        for kind, row in zip(KINDS.values(), made, strict=True):
            kind.retire(row, system)
    keys = {str(row.pk) for row in made}
    listed = {days: keys & {one["id"] for one in ask(old_ada, system, days).candidates} for days in (20, 12, 5)}
    assert listed == {20: set(), 12: keys, 5: keys}


def test_as_of_date_is_accepted_over_http(api, old_ada, system, actor_token):
    with clock.at(ago(30)):
        procedure = procedure_create(agent=old_ada, name="Ledger export", steps=["Ask the giraffe."], by=system)
    with clock.at(ago(10)):
        procedure_update(procedure=procedure, by=system, steps=["Press the button."], active=False)
    caller = api.as_token(actor_token)
    asked = {"session_id": "s", "input": ASKED, "dry_run": True}
    then = caller.post("/context", {**asked, "as_of": ago(20).isoformat()}).json()
    assert "Ask the giraffe." in then["system_prompt"]
    assert "giraffe" not in caller.post("/context", asked).json()["system_prompt"]
    found = caller.get("/recall", {"q": "giraffe", "min_score": "0", "as_of": ago(20).isoformat()}).json()["items"]
    assert [(one["id"], one["metadata"]["steps"]) for one in found] == [(str(procedure.pk), ["Ask the giraffe."])]
    assert caller.get("/recall", {"q": "giraffe", "min_score": "0"}).json()["items"] == []


@pytest.mark.parametrize("name", ["decision", "procedure", "episode"])
def test_as_of_inspector_links_to_memory_retired_today(old_ada, system, alice, name):
    kind = KINDS[name]
    with clock.at(ago(30)):
        row = kind.make(old_ada, system)
    with clock.at(ago(10)):
        kind.retire(row, system)
    client = browser(alice)
    page = client.get("/agents/ada/context/", {"input": ASKED, "as_of": f"{ago(20):%Y-%m-%dT%H:%M}"}).content.decode()
    assert "Reconstructed from the memories" in page
    assert row.get_absolute_url() in page
    assert TEXT in client.get(row.get_absolute_url()).content.decode()
    assert client.get(reverse("agent_context_item", args=["ada", name, uuid4()]), follow=True).status_code == 404


def test_as_of_retired_subconscious_memory_is_linked_for_permitted_people_only(
    old_ada, alice, charlie, subconscious_token
):
    dreamer = Principal.of_token(ApiToken.objects.get(agent=old_ada, persona="subconscious"))
    dream = decision_record(agent=old_ada, description=TEXT, by=dreamer)
    decision_update(decision=dream, by=dreamer, active=False)
    item = reverse("agent_context_item", args=["ada", "decision", dream.pk])
    assert TEXT in browser(charlie).get(item, follow=True).content.decode()
    assert browser(alice).get(item, follow=True).status_code == 404


def test_as_of_fact_found_wrong_since_does_not_return(old_ada, system):
    with clock.at(ago(30)):
        fact = make_fact(old_ada, TEXT, system)
    with clock.at(ago(10)):
        fact_invalidate(fact=fact, by=system)
    assert TEXT not in prompt(old_ada, system, 20)


def test_as_of_pins_are_those_of_the_time(old_ada, system, bob):
    reviewer = Principal.of_user(bob)
    with clock.at(ago(30)):
        fact = make_fact(old_ada, "Bananas are yellow.", system)
        always = make_fact(old_ada, "Tim likes tea.", system, category="preference")
    key = {"agent": old_ada, "item_type": "fact", "item_id": str(fact.pk), "by": reviewer}
    with clock.at(ago(25)):
        context_pin(**key)
        context_pin(**{**key, "item_id": str(always.pk)})
    with clock.at(ago(20)):
        context_unpin(**key)
    with clock.at(ago(15)):
        context_pin(**key)
    with clock.at(ago(10)):
        context_unpin(**key)
    shown = {days: "Bananas" in prompt(old_ada, system, days) for days in (28, 22, 17, 12, 5)}
    assert shown == {28: False, 22: True, 17: False, 12: True, 5: False}
    assert prompt(old_ada, system, 22).count("Tim likes tea.") == 1


def test_as_of_censors_are_those_in_force_with_their_earlier_words(old_ada, system, bob):
    reviewer = Principal.of_user(bob)
    with clock.at(ago(30)):
        first = censor_create(agent=old_ada, pattern="coffee", severity="warn", reason="It stains.", by=reviewer)
        second = censor_create(agent=old_ada, pattern="wine", severity="block", by=reviewer)
    with clock.at(ago(20)):
        censor_update(censor=first, by=reviewer, pattern="espresso", severity="absolute")
    with clock.at(ago(10)):
        censor_retire(censor=second, by=reviewer)
    with clock.at(ago(5)):
        censor_update(censor=second, by=reviewer, active=True, reason="Again.")

    def lines(days):
        sections = {section["key"]: section for section in ask(old_ada, system, days).sections}
        return [item["text"] for item in sections["censors"]["items"]] if "censors" in sections else []

    assert lines(31) == []
    assert lines(25) == ["- BLOCK: wine", "- WARN: coffee (It stains.)"]
    assert lines(15) == ["- ABSOLUTE: espresso (It stains.)", "- BLOCK: wine"]
    assert lines(7) == ["- ABSOLUTE: espresso (It stains.)"]
    assert lines(1) == lines(None) == ["- ABSOLUTE: espresso (It stains.)", "- BLOCK: wine (Again.)"]


def test_as_of_identity_profile_and_configuration_are_those_of_the_time(old_ada, system, charlie, actor):
    admin = Principal.of_user(charlie)
    with clock.at(ago(40)):
        base = profile_create(slug="base", name="Base", base=None, values={"min_importance": 0.1}, by=admin)
        own = profile_create(slug="own", name="Own", base=base, values={}, by=admin)
    with clock.at(ago(30)):
        profile_assign(agent=old_ada, slug="own", by=admin)
        agent_configure(agent=old_ada, name="budgets", value={"facts": 77}, by=admin)
    with clock.at(ago(20)):
        profile_update(profile=ContextProfile.objects.get(pk=base.pk), values={"min_importance": 0.4}, by=admin)
        proposal = identity_propose(agent=old_ada, section="values", content="Truth first.", by=actor).proposal
        proposal_approve(proposal=proposal, by=admin)
    with clock.at(ago(10)):
        profile_assign(agent=old_ada, slug="", by=admin)
        agent_configure(agent=old_ada, name="budgets", value=None, by=admin)
    old_ada.refresh_from_db()
    records = {days: ask(old_ada, system, days) for days in (35, 25, 15, 5)}
    prompts = {days: ask(old_ada, system, days).system_prompt for days in (25, 15)}
    assert {days: one.profile_id for days, one in records.items()} == {
        35: records[5].profile_id, 25: "own", 15: "own", 5: records[5].profile_id
    }  # fmt: skip
    assert records[5].profile_id != "own"
    assert [records[days].decisions["policy"]["min_importance"] for days in (25, 15)] == [0.1, 0.4]
    assert [records[days].decisions["budget"]["sections"]["facts"] for days in (35, 25, 5)] == [300, 77, 300]
    assert ["Truth first." in prompts[days] for days in (25, 15)] == [False, True]
    assert own.slug == "own"


def test_as_of_loops_closed_then_are_included(old_ada, system):
    profile_create(slug="raw", name="Raw", base=None, values={"layers": ["short_term"]}, by=Principal.of_system("t"))
    for loop, day in (("one", 20), ("two", 5)):
        with clock.at(ago(day)):
            turns = [("user_input", f"How did the ledger export of loop {loop} go?"), ("actor_output", "It went well.")]
            events_record(
                agent=old_ada,
                events=[{"kind": kind, "content": said, "loop_id": loop, "ts": ago(day)} for kind, said in turns],
                by=system,
            )
    derived_backfill()
    texts = {days: prompt(old_ada, system, days, profile="raw") for days in (25, 10, None)}
    assert {days: [loop for loop in ("one", "two") if f"of loop {loop}" in text] for days, text in texts.items()} == {
        25: [], 10: ["one"], None: ["one", "two"]
    }  # fmt: skip
    # Its last event was there, and nobody knew yet that it was the last.
    LoopSummary.objects.filter(loop_id="one").update(closed_at=ago(8))
    assert ["of loop one" in prompt(old_ada, system, days, profile="raw") for days in (10, 7)] == [False, True]


def test_as_of_subconscious_and_other_agents_stay_isolated(old_ada, bruno, system, actor, subconscious_token):
    dreamer = Principal.of_token(ApiToken.objects.get(agent=old_ada, persona="subconscious"))
    for name, kind in KINDS.items():
        with clock.at(ago(30)):
            dream = kind.make(old_ada, dreamer)
        with clock.at(ago(10)):
            kind.retire(dream, dreamer)
        assert TEXT in prompt(old_ada, dreamer, 20), name
        assert TEXT not in prompt(old_ada, actor, 20), name
        assert str(dream.pk) not in found(old_ada, 20), name
        assert memories_as_of(ActorMemory(old_ada), [(name, str(dream.pk))], ago(20)) == {}
        assert memories_as_of(ActorMemory(bruno), [(name, str(dream.pk))], ago(20)) == {}


def test_as_of_now_costs_no_additional_statement(old_ada, system, actor):
    for kind in KINDS.values():
        kind.make(old_ada, system)
    embed_pending_rows()
    prompt(old_ada, actor)
    request = ContextRequest("s", ASKED, dry_run=True)
    with CaptureQueriesContext(connection) as queries:
        context_assemble(agent=old_ada, request=request, by=actor)
    assert not [query for query in queries.captured_queries if "auditevent" in query["sql"].lower()]
    assert not [query for query in queries.captured_queries if "factchange" in query["sql"].lower()]
    with CaptureQueriesContext(connection) as past:
        context_assemble(replace(request, as_of=ago(1)), agent=old_ada, by=actor)
    assert len(queries) < len(past) < len(queries) + 25


STEP = st.sampled_from(["edit", "append", "close", "retire", "revive", "describe"])


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=1, max_size=6))
def test_as_of_every_moment_equals_what_was_present_then(old_ada, system, steps):
    """What `memories_as_of` says of a moment is what could be read at that moment."""
    day = 40
    with clock.at(ago(day)):
        episode = episode_open(agent=old_ada, title="t0", detail="d0", by=system)
    seen = {day: _shown(old_ada, episode)}
    for number, step in enumerate(steps, 1):
        day -= 2
        episode.refresh_from_db()
        with clock.at(ago(day)):
            if step == "edit":
                episode_update(episode=episode, by=system, title=f"t{number}", tags=[f"x{number}"], importance=0.1)
            elif step == "describe":
                episode_update(episode=episode, by=system, summary=f"s{number}")
            elif step == "append" and episode.ended_at is None:
                episode_append(episode=episode, text=f"d{number}\nmore", by=system)
            elif step == "close" and episode.ended_at is None:
                episode_close(episode=episode, by=system, outcome="success", lessons=[f"l{number}"])
            elif step in ("retire", "revive"):
                episode_update(episode=episode, by=system, active=step == "revive")
        seen[day] = _shown(old_ada, episode)
    key = ("episode", str(episode.pk))
    for day, shown in seen.items():
        then = memories_as_of(ActorMemory(old_ada), [key], ago(day - 1)).get(key)
        assert (then and (then.content, then.metadata, then.trust, then.entry.tags, then.entry.importance)) == shown


def _shown(agent, episode):
    loaded = memories_load(ActorMemory(agent), [("episode", str(episode.pk))]).get(("episode", str(episode.pk)))
    if loaded is None:
        return None
    row = Episode.objects.get(pk=episode.pk)
    return (*loaded, row.tags, row.importance)

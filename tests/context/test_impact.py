"""How many prompts a change would reach: counted by assembling them with it and without it, writing nothing."""

from dataclasses import replace
from types import SimpleNamespace
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.html import escape, strip_tags

from context.engine.analysis.request import ContextRequest
from context.engine.overrides import CensorDraft, Overrides
from context.expectations.services import expectation_create, request_of
from context.models import ContextRun
from context.services.agent_settings import context_pin, profile_create, settings_update
from context.services.context import context_assemble
from context.what_if.change_overrides import (
    bulk_proposal_overrides,
    bulk_resolution_overrides,
    censor_overrides,
    fact_overrides,
    metadata_overrides,
    proposal_overrides,
    resolution_overrides,
)
from context.what_if.impact import impact_of
from identity.models import ApiToken, ChangeProposal
from identity.principal import Principal
from identity.services.proposals import identity_propose, proposal_approve
from memory.models import MemoryReview
from memory.policy import PROFILE_CATEGORIES
from memory.services.censors import censor_create
from memory.services.facts import fact_edit, fact_invalidate, fact_learn, fact_supersede
from memory.services.reviews.resolve import review_resolve
from nousweb.lib.errors import Conflict, Invalid, NotAllowed
from tests.api.problems import rows
from tests.context.engine_inputs import resolved_request
from tests.factories import make_fact, make_facts, make_run, pair_review
from tests.http import browser, markup


@pytest.fixture
def asked(ada, actor, system):
    """Three logged requests, of which one is about the ledger."""
    fact = make_fact(ada, "The ledger export failed because the replica lagged.", system)
    for text in ("hello", "Why did the ledger export fail?", "What is the weather like?"):
        make_run(ada, actor, text)
    return fact


def test_impact_of_a_removed_fact_is_the_prompts_that_include_it(ada, asked, reviewer):
    impact = impact_of(agent=ada, overrides=fact_overrides(asked, None), by=reviewer)
    assert len(impact.rows) == 3
    (row,) = impact.changed
    assert row.run.input == "Why did the ledger export fail?"
    assert [kind for kind, _ in row.lost] == ["fact"]
    assert (row.gained, row.tokens_change < 0) == ((), True)
    assert impact.words == f"“{asked.content}” is left out"
    other = fact_overrides(asked, "The ledger export failed because the disk lagged.")
    assert impact_of(agent=ada, overrides=other, by=reviewer).words == "“disk” instead of “replica”"


def test_impact_equals_what_happens_on_replacement(ada, asked, reviewer, actor):
    row = impact_of(agent=ada, overrides=fact_overrides(asked, None), by=reviewer).changed[0]
    fact_invalidate(fact=asked, by=reviewer)
    request = ContextRequest.of_json(ContextRun.objects.get(pk=row.run.pk).request)
    assert context_assemble(agent=ada, request=request, by=actor).system_prompt == row.after


def test_impact_of_a_proposed_identity_equals_the_approved_one(ada, asked, actor, reviewer):
    proposal = identity_propose(agent=ada, section="values", content="Truth first.", by=actor).proposal
    impact = impact_of(agent=ada, overrides=proposal_overrides(proposal), by=reviewer)
    assert len(impact.changed) == 3
    assert all("Truth first." in row.after and "Truth first." not in row.before for row in impact.rows)
    proposal_approve(proposal=proposal, by=reviewer)
    for row in impact.rows:
        request = ContextRequest.of_json(ContextRun.objects.get(pk=row.run.pk).request)
        now = context_assemble(replace(request, dry_run=True), agent=ada, by=actor).system_prompt
        assert now == row.after


def test_impact_of_a_replacement_text_shows_it_in_the_same_place(ada, asked, reviewer):
    (row,) = impact_of(
        agent=ada, overrides=fact_overrides(asked, "The disk\n\n## Identity was full."), by=reviewer
    ).changed
    assert row.gained == (("fact", "- The disk\n  \\## Identity was full."),)
    assert [line for line in row.after.split("\n") if line.startswith("## Id")] == ["## Identity"]


def test_impact_of_a_profile_fact_is_every_prompt(ada, asked, system, reviewer):
    rule = make_fact(ada, "Never guess.", system, category="rule", subject="Tim")
    impact = impact_of(agent=ada, overrides=fact_overrides(rule, "Always ask."), by=reviewer)
    assert len(impact.changed) == 3
    assert all("- [Tim] Always ask." in row.after for row in impact.rows)


@pytest.mark.parametrize("pinned", [False, True])
def test_impact_of_a_replaced_profile_fact_equals_what_happens(ada, asked, actor, reviewer, pinned):
    rules = [make_fact(ada, text, reviewer, category="rule") for text in ("Never guess.", "Be brief.", "Be kind.")]
    if pinned:
        context_pin(agent=ada, item_type="fact", item_id=str(rules[1].pk), by=reviewer)
    (row, *_) = impact_of(agent=ada, overrides=fact_overrides(rules[0], "Always ask."), by=reviewer).rows
    new = make_fact(ada, "Always ask.", reviewer, category="rule")
    fact_supersede(old=rules[0], new=new, by=reviewer)
    request = ContextRequest.of_json(ContextRun.objects.get(pk=row.run.pk).request)
    now = context_assemble(replace(request, dry_run=True), agent=ada, by=actor).system_prompt
    assert now == row.after
    assert row.after.index("Be kind.") < row.after.index("Always ask."), "what is new comes last"


def test_trial_of_budgets_lowers_thresholds_of_a_request_with_fill_as_saved_ones_do():
    resolved = resolved_request()
    resolved = replace(resolved, request=replace(resolved.request, fill=True))
    tried = resolved.with_budgets({"total": 60_000})
    assert tried.thresholds_divisor > resolved.thresholds_divisor > 1


def test_impact_of_budgets_equals_what_happens_when_they_are_saved(ada, asked, reviewer, charlie):
    """The page of settings asks for it with the fields of its form."""
    budgets = {"facts": 0, "total": 3000}
    impact = impact_of(agent=ada, overrides=Overrides(budgets=budgets), by=reviewer)
    assert (len(impact.rows), len(impact.changed), impact.losing) == (3, 1, "1 would lose a memory")
    assert impact.words == f"“{asked.content}” is left out"
    fields = {"budget_total": "3000", "budget_facts": "0", "budget_identity": ""}
    blast, client = reverse("agent_context_blast", args=["ada"]), browser(charlie)
    page = client.get(blast, fields, headers={"HX-Request": "true"})
    said = "1 of the 3 prompts of the last 7 days would change, 1 would lose a memory."
    assert said in " ".join(strip_tags(markup(page)).split())
    assert client.get(blast, fields | {"budget_facts": "many"}).status_code == 422
    ada.refresh_from_db()
    assert "budgets" not in ada.config
    settings_update(agent=ada, budgets=budgets, by=Principal.of_user(charlie))
    ada.refresh_from_db()
    for row in impact.rows:
        (now,) = impact_of(agent=ada, overrides=Overrides(), by=reviewer, last=3).rows[impact.rows.index(row) :][:1]
        assert now.before == row.after


def test_impact_of_a_censor_added_changed_or_removed(ada, asked, reviewer):
    old = censor_create(agent=ada, pattern="secret", severity="warn", by=reviewer)
    new = impact_of(agent=ada, overrides=censor_overrides(None, pattern="token", severity="block"), by=reviewer)
    after = new.rows[0].after
    assert after.index("- BLOCK: token") < after.index("- WARN: secret"), "the strictest first"
    gone = impact_of(agent=ada, overrides=censor_overrides(old), by=reviewer)
    assert all("secret" not in row.after for row in gone.rows)
    changed = impact_of(agent=ada, overrides=censor_overrides(old, severity="block"), by=reviewer)
    assert all("- BLOCK: secret" in row.after and "WARN" not in row.after for row in changed.rows)
    with pytest.raises(Invalid):
        censor_overrides(None, pattern="x", severity="mild")


def test_impact_writes_nothing_and_reads_once(ada, asked, reviewer):
    before = rows()
    with CaptureQueriesContext(connection) as captured:
        impact_of(agent=ada, overrides=fact_overrides(asked, None), by=reviewer)
    assert rows() == before
    statements = [query["sql"].lstrip().split()[0] for query in captured.captured_queries]
    assert not {"INSERT", "UPDATE", "DELETE"} & set(statements)
    assert len(statements) < 3 * 20


def test_impact_is_bounded_in_time_and_number(ada, asked, reviewer):
    for text in ("tea", "ale"):
        demand = {"requirement": "absent", "target": "text", "text": text}
        expectation_create(agent=ada, by=reviewer, request=request_of("Hello?"), **demand)
    impact = impact_of(agent=ada, overrides=Overrides(), by=reviewer, seconds=0)
    assert impact.expectations.holding == "1 of 1 expectation checked would hold"
    assert (impact.rows, impact.cut_short) == ((), True)
    assert impact.share == "none of the 0 prompts of the last 7 days tried"
    for number in (0, 51, -1):
        with pytest.raises(Invalid):
            impact_of(agent=ada, overrides=Overrides(), by=reviewer, last=number)
    assert len(impact_of(agent=ada, overrides=Overrides(), by=reviewer, last=1).rows) == 1


def test_impact_counts_runs_that_cannot_be_read_again(ada, asked, actor, reviewer):
    ContextRun.objects.filter(input="hello").update(request={"input": "hello"})
    impact = impact_of(agent=ada, overrides=Overrides(), by=reviewer)
    assert (len(impact.rows), impact.unreadable, impact.cut_short) == (2, 1, False)


def test_impact_of_the_first_censor_adds_its_section(ada, asked, reviewer):
    overrides = Overrides(censors=(CensorDraft("tea", "absolute", "It stains."),))
    assert (
        "## Active Censors\n- ABSOLUTE: tea (It stains.)"
        in impact_of(agent=ada, overrides=overrides, by=reviewer).rows[0].after
    )


def test_impact_is_refused_to_agents(ada, asked, actor):
    with pytest.raises(NotAllowed):
        impact_of(agent=ada, overrides=Overrides(), by=actor)


def test_impact_page_answers_whole_and_in_part(ada, asked, alice, actor):
    url = reverse("agent_context_blast", args=["ada"])
    page = markup(browser(alice).get(url, {"fact": str(asked.pk), "n": "3"}))
    assert "1 of the 3 latest prompts</strong>" in page
    part = markup(browser(alice).get(url, {"fact": asked.pk.hex}, headers={"HX-Request": "true"}))
    assert "<html" not in part
    run = ContextRun.objects.get(input__startswith="Why")
    one = markup(browser(alice).get(url, {"fact": str(asked.pk), "run": str(run.pk)}))
    assert "replica lagged" in one
    proposal = identity_propose(agent=ada, section="values", content="Truth first.", by=actor).proposal
    assert "All 3 prompts of the last 7 days</strong>" in markup(
        browser(alice).get(url, {"proposal": str(proposal.pk)})
    )
    for query, status in (
        ({}, 422), ({"fact": "x"}, 404), ({"proposal": "x"}, 404), ({"censor": "x"}, 404), ({"pattern": ""}, 422),
        ({"pattern": "x", "severity": "mild"}, 422), ({"fact": str(asked.pk), "n": "51"}, 422),
        ({"fact": str(asked.pk), "n": "٣"}, 422), ({"fact": str(asked.pk), "run": "x"}, 404),
        ({"pattern": "x\x00"}, 400), ({"fact": str(asked.pk), "content": "\x00"}, 400),
    ):  # fmt: skip
        assert browser(alice).get(url, query).status_code == status, query


@pytest.fixture
def question(ada, system, actor):
    """Two facts that seem to contradict each other, and a logged request about them."""
    make_fact(ada, "The nightly job's twin is the archive of Graz.", system, subject="nightly job")
    key = learn_review(ada, "The nightly job's twin is the archive of Linz.", system)
    make_run(ada, actor, "Does the nightly job touch the archive?")
    return MemoryReview.objects.select_related("old", "new", "censor").get(pk=key)


def learn_review(agent, content, by):
    asked = fact_learn(
        agent=agent, content=content, subject="nightly job", category="technical", importance=0.8, by=by
    ).review
    return pair_review(asked).pk if asked else None


MERGED = "The nightly job's twins are the archives of Graz and Linz."


@pytest.mark.parametrize(
    ("answer", "content"),
    [("replace", ""), ("old_wrong", ""), ("new_wrong", ""), ("same", ""), ("merge", MERGED), ("both", "")],
)
def test_impact_of_a_resolution_equals_what_it_does(ada, question, reviewer, actor, answer, content):
    overrides = resolution_overrides(question, answer, content)
    (row,) = impact_of(agent=ada, overrides=overrides, by=reviewer).rows
    assert row.changed, "both true takes the marks of contested facts away"
    assert row.words[-1].endswith("is left out" if content else "loses its mark “contradicted”")
    review_resolve(review=question, resolution=answer, by=reviewer, content=content)
    request = ContextRequest.of_json(ContextRun.objects.get(pk=row.run.pk).request)
    now = context_assemble(agent=ada, request=request, by=actor).system_prompt
    assert sorted(now.splitlines()) == sorted(row.after.splitlines())


def test_impact_of_a_reversed_censor_is_its_warning(ada, asked, actor, system, reviewer):
    censor = censor_create(agent=ada, pattern="coffee", severity="block", by=system)
    review = MemoryReview(agent=ada, persona="actor", kind="escalation", censor=censor)
    after = impact_of(agent=ada, overrides=resolution_overrides(review, "reverse"), by=reviewer).rows[0].after
    assert "- WARN: coffee" in after
    assert resolution_overrides(review, "keep") == Overrides()
    with pytest.raises(Invalid, match="answer is one of"):
        resolution_overrides(review, "merge")


def test_impact_is_offered_on_a_review_for_each_resolution_that_changes_something(ada, question, alice, bob):
    page = markup(browser(bob).get(reverse("memory_review_detail", args=[question.pk])))
    url = reverse("agent_context_blast", args=["ada"])
    offered = [one for one in ("same", "replace", "old_wrong", "new_wrong", "both") if f"answer={one}" in page]
    assert offered == ["same", "replace", "old_wrong", "new_wrong", "both"]
    assert f'hx-post="{url}?question={question.pk}&amp;answer=merge" hx-include="#content"' in page
    client = browser(alice)
    found = markup(client.get(url, {"question": str(question.pk), "answer": "replace"}))
    assert "The only prompt of the last 7 days</strong>" in found
    # Of how many prompts is said once; each answer leads to those that it changes, unless all change the same.
    query = {"question": str(question.pk), "answer": ["replace", "new_wrong"], "brief": "1"}
    both = markup(client.get(url, query, headers={"HX-Request": "true"}))
    assert " ".join(both.split()).count("Whether the last prompt changes") == 1
    for answer in query["answer"]:
        assert f'href="{url}?question={question.pk}&amp;answer={answer}">1 prompt</a>' in both
    alike = markup(client.get(url, query | {"answer": offered}, headers={"HX-Request": "true"}))
    assert "Either way, the only prompt of the last 7 days changes." in alike
    assert "<a" not in alike
    some = markup(client.get(url, query | {"answer": offered[:4]}, headers={"HX-Request": "true"}))
    assert "Either way" not in some, "the fifth may change another number"
    query["answer"] = ["replace", "new_wrong"] * 50
    again = client.get(url, query, headers={"HX-Request": "true"})
    assert len(again.context["answers"]) == 2, "an answer that is named again is not replayed again"
    # Each answer says what the agent is told after it.
    told = {one.value: one.told for one in browser(bob).get(question.get_absolute_url()).context["answers"]}
    old, new = question.old.content, question.new.content
    assert told == {"same": (old,), "replace": (new,), "old_wrong": (new,), "new_wrong": (old,), "both": (old, new)}
    assert page.count(f"“{escape(old)}”") == page.count(f"“{escape(new)}”") == 1
    merged = markup(client.post(f"{url}?question={question.pk}&answer=merge", {"content": MERGED}))
    assert "The only prompt of the last 7 days</strong>" in merged
    for query, status in (
        ({"question": "x", "answer": "both"}, 404),
        ({"question": str(question.pk), "answer": "x"}, 422),
        ({"question": str(question.pk)}, 422),
        ({"question": str(question.pk), "answer": "merge"}, 422),
    ):
        assert client.get(url, query).status_code == status, query


def test_impact_of_a_long_text_is_asked_by_post(ada, asked, alice):
    url = reverse("agent_context_blast", args=["ada"])
    long = "The ledger export failed because of a very long list of reasons. " * 100
    answer = browser(alice).post(f"{url}?fact={asked.pk}", {"content": long}, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    assert "1 of the 3 prompts of the last 7 days</strong>" in markup(answer)
    assert ">Difference</a>" not in markup(answer), "an address cannot hold it"


def test_impact_of_a_censor_form_without_the_active_field_is_of_an_inactive_one(ada, asked, system, alice):
    censor = censor_create(agent=ada, pattern="coffee", severity="block", by=system)
    url = reverse("agent_context_blast", args=["ada"]) + f"?form=1&censor={censor.pk}"
    form = {"pattern": "coffee", "severity": "block", "reason": ""}
    assert "None of the 3 prompts of the last 7 days</strong>" in markup(
        browser(alice).post(url, {**form, "active": "on"})
    )
    assert "All 3 prompts of the last 7 days</strong>" in markup(
        browser(alice).post(url, {**form, "active": "on", "severity": "warn"})
    )
    page = markup(browser(alice).post(url, form))
    assert "Without the censor" in page
    assert "All 3 prompts of the last 7 days</strong>" in page


def _place(agent, by, fact, text="Why did the ledger export fail?"):
    """The section that tells a fact, if any."""
    found = context_assemble(ContextRequest("s", text, dry_run=True), agent=agent, by=by)
    return [one["key"] for one in found.sections if any(item["id"] == str(fact.pk) for item in one["items"])]


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize(
    ("was", "category"),
    [("technical", "rule"), ("rule", "technical"), ("technical", "process"), ("person", "preference")],
)
def test_impact_of_a_recategorised_fact_equals_what_happens(ada, actor, system, reviewer, bob, was, category, pinned):
    fact = make_fact(ada, "The ledger export failed because the replica lagged.", system, category=was, confidence=0.7)
    for number, confidence in enumerate((0.9, 0.8, 0.7, 0.6)):
        make_fact(ada, f"Rule {number} of the house.", system, category="rule", confidence=confidence)
    make_fact(ada, "The night shift knows how an export of the ledger works.", system)
    if pinned:
        context_pin(agent=ada, item_type="fact", item_id=str(fact.pk), by=reviewer)
    for text in ("hello", "Why did the ledger export fail?", "What is the weather like?"):
        make_run(ada, actor, text)
    impact = impact_of(agent=ada, overrides=metadata_overrides(fact, category=category), by=reviewer)
    moved = (was in PROFILE_CATEGORIES) != (category in PROFILE_CATEGORIES)
    assert bool(impact.changed) == moved
    fact_edit(fact=fact, by=reviewer, category=category)
    for row in impact.rows:
        request = ContextRequest.of_json(ContextRun.objects.get(pk=row.run.pk).request)
        now = context_assemble(replace(request, dry_run=True), agent=ada, by=actor).system_prompt
        assert now == row.after, row.run.input
    about = next(row for row in impact.rows if row.run.input.startswith("Why"))
    told = [(was_in, now_in) for text, was_in, now_in in about.moved if "replica" in text]
    labels = ("Relevant Facts", "User Profile")
    assert told == ([labels if category in PROFILE_CATEGORIES else labels[::-1]] if moved else [])
    assert _place(ada, actor, fact) == ["user_profile" if category in PROFILE_CATEGORIES else "facts"]


def test_impact_of_a_recategorised_pinned_fact_without_a_match_equals_what_happens(ada, actor, system, reviewer):
    fact = make_fact(ada, "Bananas are yellow.", system, category="rule")
    context_pin(agent=ada, item_type="fact", item_id=str(fact.pk), by=reviewer)
    make_facts(ada, [f"The ledger export failed because of case {number}." for number in range(40)], system)
    make_run(ada, actor, "Why did the ledger export fail?")
    (row,) = impact_of(agent=ada, overrides=metadata_overrides(fact, category="technical"), by=reviewer).rows
    assert [labels for text, *labels in row.moved if "Bananas" in text] == [["User Profile", "Relevant Facts"]]
    fact_edit(fact=fact, by=reviewer, category="technical")
    request = ContextRequest.of_json(ContextRun.objects.get(pk=row.run.pk).request)
    assert context_assemble(agent=ada, request=request, by=actor).system_prompt == row.after


def test_impact_of_a_metadata_change_names_what_profile_and_persona_leave_out(
    ada, system, reviewer, actor, charlie, subconscious_token
):
    dreamer = Principal.of_token(ApiToken.objects.get(agent=ada, persona="subconscious"))
    dream = make_fact(ada, "A dream of the ledger export.", dreamer)
    censor = censor_create(agent=ada, pattern="nightmare", by=dreamer)
    make_run(ada, actor)
    make_run(ada, dreamer)
    admin = Principal.of_user(charlie)
    for overrides in (metadata_overrides(dream, category="rule"), censor_overrides(censor, severity="block")):
        told = {row.run.persona: row.changed for row in impact_of(agent=ada, overrides=overrides, by=admin).rows}
        assert told == {"actor": False, "subconscious": True}
    picky = make_fact(ada, "Bananas are yellow.", system, kind="noise")
    profile_create(slug="quiet", name="Quiet", base=None, values={"excluded_kinds": ["noise"]}, by=admin)
    ContextRun.objects.all().delete()
    make_run(ada, actor, profile="quiet")
    overrides = metadata_overrides(picky, category="rule")
    assert not impact_of(agent=ada, overrides=overrides, by=reviewer).changed


def test_impact_of_impossible_metadata_is_refused(ada, asked, reviewer, alice):
    url = reverse("agent_context_blast", args=["ada"])
    client = browser(alice)
    for query, status in (
        ({"category": "rule"}, 200), ({"category": "No Word"}, 422), ({"category": ""}, 422),
        ({"category": "rule", "importance": "2"}, 422), ({"category": "rule", "importance": "x"}, 422),
        ({"category": "rule", "importance": "nan"}, 422), ({"category": "rule", "scope": "galaxy"}, 422),
        ({"category": "rule", "tags": "a, b", "scope": "task", "importance": "0.3"}, 200),
    ):  # fmt: skip
        assert client.get(url, {"fact": str(asked.pk), **query}).status_code == status, query
    page = markup(client.get(url, {"fact": str(asked.pk), "category": "rule"}))
    assert "moved from technical to rule, so it is always included from then on" in page
    assert "All 3 prompts of the last 7 days</strong>" in page
    part = client.post(f"{url}?fact={asked.pk}", {"category": "No Word"}, headers={"HX-Request": "true"})
    assert part.status_code == 422
    assert "<html" not in markup(part)
    fact_invalidate(fact=asked, by=reviewer)
    assert client.get(url, {"fact": str(asked.pk), "category": "rule"}).status_code == 409


def test_impact_is_offered_where_a_fact_is_recategorised(ada, asked, bob):
    url = reverse("agent_context_blast", args=["ada"])
    edit = markup(browser(bob).get(reverse("agent_fact_change", args=["ada", asked.pk, "edit"])))
    fields = "#id_category, #id_scope, #id_project, #id_task, #id_importance, #id_tags"
    assert f'hx-post="{url}?fact={asked.pk.hex}" hx-include="{fields}"' in edit
    assert f'hx-get="{url}?fact={asked.pk}"' in markup(browser(bob).get(asked.get_absolute_url()))


@pytest.fixture
def proposals(ada, actor):
    """Proposals of three sections, and a second one for the first of them."""
    wishes = [("environment", "A quiet harbour."), ("protocols", "Check twice."), ("preferences", "Short answers.")]
    made = [
        identity_propose(agent=ada, section=name, content=text, by=actor, wait=True).proposal for name, text in wishes
    ]
    return [
        *made,
        identity_propose(agent=ada, section="environment", content="A loud harbour.", by=actor, wait=True).proposal,
    ]


def test_impact_of_proposals_approved_together_equals_what_happens(ada, asked, proposals, actor, reviewer, bob):
    url = reverse("context_blast_proposals")
    keys = [str(proposal.pk) for proposal in proposals]
    page = markup(browser(bob).post(url, {"selected": keys}))
    assert "4 proposals approved together: Environment, Protocols, Preferences" in page
    assert "All 3 prompts of the last 7 days</strong>" in page
    assert "1 would be refused, and left out" in page
    assert "another selected proposal changes this section first" in page
    rows = list(ChangeProposal.objects.filter(pk__in=keys).with_stale())
    rows.sort(key=lambda row: keys.index(str(row.pk)))
    overrides, refused = bulk_proposal_overrides(rows, reviewer)
    assert len(refused) == 1
    impact = impact_of(agent=ada, overrides=overrides, by=reviewer)
    browser(bob).post(
        reverse("inbox_bulk"),
        {"action": "approve", "selected": keys, "shown": [f"{row.pk}:{row.base_version}" for row in rows]},
    )
    assert ChangeProposal.objects.filter(pk__in=keys, status="approved").count() == 3
    for row in impact.rows:
        request = ContextRequest.of_json(ContextRun.objects.get(pk=row.run.pk).request)
        now = context_assemble(replace(request, dry_run=True), agent=ada, by=actor).system_prompt
        assert now == row.after
    late = markup(browser(bob).post(url, {"selected": keys}))
    assert "4 would be refused, and left out" in late
    assert "None of the 3 prompts of the last 7 days</strong>" in late


def test_impact_of_several_agents_is_separate(ada, bruno, asked, proposals, alice, system):
    other = identity_propose(agent=bruno, section="values", content="Speed.", by=system, wait=True).proposal
    part = markup(browser(alice).post(
        reverse("context_blast_proposals"),
        {"selected": [str(proposals[0].pk), str(other.pk)]},
        headers={"HX-Request": "true"},
    ))  # fmt: skip
    assert "<html" not in part
    assert part.count("<h3>") == 2
    assert "No logged request to replay." in part, "Bruno was never asked"
    assert part.count("They are built again now") == 1
    assert "All 3 prompts of the last 7 days</strong>" in part
    query = f"/agents/ada/context/blast/?proposal={proposals[0].pk}&amp;together=1&amp;run="
    assert query in part
    # The address of several is of several too.
    both = reverse("agent_context_blast", args=["ada"]) + f"?proposal={proposals[0].pk}&proposal={proposals[1].pk}"
    assert "2 proposals approved together" in markup(browser(alice).get(both))
    assert browser(alice).get(f"{both}&proposal={other.pk}").status_code == 404


def test_impact_of_several_agents_shares_the_time_limit(ada, bruno, asked, proposals, alice, system, monkeypatch):
    make_run(bruno, system, "hello")
    other = identity_propose(agent=bruno, section="values", content="Speed.", by=system, wait=True).proposal
    # The deadline is set, the first agent begins at once, and the second long after it.
    moments = iter([0.0, 0.0, 1_000.0])
    monkeypatch.setattr("nousweb.console.context.views.impact.time", SimpleNamespace(monotonic=lambda: next(moments)))
    keys = [str(proposals[0].pk), str(other.pk)]
    page = markup(browser(alice).post(reverse("context_blast_proposals"), {"selected": keys}))
    assert "All 3 prompts of the last 7 days</strong>" in page
    assert page.count("The time limit was reached") == 1


def test_impact_page_names_the_four_eyes_rule_to_the_proposer(ada, asked, reviewer, bob, alice, settings):
    settings.FOUR_EYES = True
    mine = identity_propose(agent=ada, section="values", content="Mine first.", by=reviewer, wait=True).proposal
    for by, count in ((reviewer, 1), (Principal.of_user(alice), 0)):
        overrides, refused = bulk_proposal_overrides(list(ChangeProposal.objects.filter(pk=mine.pk).with_stale()), by)
        assert (len(refused), len(overrides.identity)) == (count, 1 - count)
    with pytest.raises((Conflict, NotAllowed)):
        proposal_approve(proposal=mine, by=reviewer)


def test_impact_of_two_changes_to_one_object_counts_the_first():
    parts = [Overrides(identity={"values": text}, facts={"f": text}, subjects={"f": text}) for text in ("a", "b")]
    together = Overrides.merge(parts)
    assert [dict(held) for held in (together.identity, together.facts, together.subjects)] == [
        {"values": "a"}, {"f": "a"}, {"f": "a"}
    ]  # fmt: skip


@pytest.mark.parametrize("answer", ["same", "replace", "both"])
def test_impact_of_reviews_resolved_together_equals_what_happens(ada, question, system, actor, reviewer, bob, answer):
    # A third fact is asked about with the second: only one of both reviews can take it away.
    fact_learn(agent=ada, content="The nightly job's twin is the archive of Bonn.", subject="nightly job", by=system)
    again = MemoryReview.objects.get(new__content__contains="Bonn", old=question.new)
    MemoryReview.objects.filter(pk=again.pk).update(status="pending", details={})
    keys = [str(question.pk), str(again.pk)]
    url = reverse("context_blast_questions")
    page = markup(browser(bob).post(url, {"selected": keys, "answer": answer}))
    rows = list(MemoryReview.objects.filter(pk__in=keys).select_related("old", "new", "censor"))
    rows.sort(key=lambda row: keys.index(str(row.pk)))
    overrides, refused = bulk_resolution_overrides(rows, answer)
    (row,) = impact_of(agent=ada, overrides=overrides, by=reviewer).rows
    assert ("No prompt of the last 7 days</strong> would change" in page) == (not row.changed)
    assert row.changed
    done = 0
    for review in rows:
        try:
            review_resolve(review=review, resolution=answer, by=reviewer)
            done += 1
        except Conflict:
            continue
    assert done == len(rows) - len(refused)
    request = ContextRequest.of_json(ContextRun.objects.get(pk=row.run.pk).request)
    now = context_assemble(replace(request, dry_run=True), agent=ada, by=actor).system_prompt
    assert sorted(now.splitlines()) == sorted(row.after.splitlines())


def test_impact_selection_is_bounded_and_empty_is_named(ada, asked, question, proposals, alice, bob, charlie):
    client = browser(alice)
    for name, query, status in (
        ("context_blast_proposals", {}, 422),
        ("context_blast_proposals", {"selected": [str(uuid4())]}, 422),
        ("context_blast_proposals", {"selected": ["x"]}, 404),
        ("context_blast_proposals", {"selected": [str(uuid4()) for _ in range(201)]}, 422),
        ("context_blast_proposals", {"selected": [str(proposals[0].pk)], "n": "51"}, 422),
        ("context_blast_questions", {"selected": [str(question.pk)]}, 422),
        ("context_blast_questions", {"selected": [str(question.pk)], "answer": "merge"}, 422),
        ("context_blast_questions", {"selected": [], "answer": "same"}, 422),
        ("context_blast_questions", {"selected": [str(question.pk)], "answer": "same", "n": "5"}, 200),
    ):
        assert client.post(reverse(name), query).status_code == status, (name, query)
    empty = markup(client.post(reverse("context_blast_proposals"), headers={"HX-Request": "true"}))
    assert "Nothing is selected." in empty
    kept = markup(browser(bob).post(
        reverse("context_blast_questions"), {"selected": [str(question.pk)], "answer": "keep"}
    ))  # fmt: skip
    assert "it cannot be resolved with “Kept”" in kept
    assert "None of the 4 prompts of the last 7 days</strong> would change" in kept


def test_impact_of_a_subconscious_review_is_hidden_without_the_permission(ada, question, alice, charlie):
    MemoryReview.objects.filter(pk=question.pk).update(persona="subconscious")
    url, form = reverse("context_blast_questions"), {"selected": [str(question.pk)], "answer": "same"}
    assert browser(alice).post(url, form).status_code == 422
    assert browser(charlie).post(url, form).status_code == 200


def test_impact_is_offered_in_queues_to_those_who_may_decide(ada, asked, question, proposals, alice, bob):
    for name, url_name in (("review", "context_blast_proposals"), ("memory_review", "context_blast_questions")):
        offer = f'formaction="{reverse(url_name)}"'
        assert offer in markup(browser(bob).get(reverse(name), follow=True))
        assert offer not in markup(browser(alice).get(reverse(name), follow=True))
    assert 'formaction="' not in markup(browser(bob).get(reverse("review"), {"status": "applied"}, follow=True))

"""Prompts call things as the registry does, and the impact shows what an answer about subjects would change."""

import re

import pytest

from context.engine.analysis.request import ContextRequest
from context.expectations.services import expectation_create, expectations_verify, request_of
from context.models import ExpectationResult
from context.services.agent_settings import context_pin
from context.services.context import context_assemble
from context.what_if.change_overrides import bulk_resolution_overrides, resolution_overrides
from context.what_if.impact import impact_of
from identity.models import AuditEvent, Change
from memory.models import Fact, MemoryReview, Subject, SubjectAlias, SubjectChange
from memory.services.facts import fact_learn
from memory.services.reviews.resolve import review_resolve
from memory.services.search_index.row_embedding import embed_pending_rows
from memory.services.subjects.changes import subject_change_undo, subject_edit, subject_merge
from nousweb.lib import clock
from tests.factories import make_fact, make_run
from tests.http import browser, markup

QUESTION = "Which cluster does the billing service run on?"


@pytest.fixture
def cluster(ada, system):
    """Facts about one thing under three names: searched, core memory, and one that contests another."""
    make_fact(ada, "Nine nodes serve the billing service.", system, subject="prod cluster")
    make_fact(ada, "Wants the billing service quiet at night.", system, subject="big iron", category="preference")
    make_fact(ada, "The billing service cluster runs 12 nodes.", system, subject="blue whale")
    embed_pending_rows()
    return [
        Subject.objects.select_related("agent").get(name=name) for name in ("prod cluster", "big iron", "blue whale")
    ]


def prompt(agent, by, **more):
    request = ContextRequest("s", QUESTION, **{"dry_run": True, **more})
    return context_assemble(request, agent=agent, by=by).system_prompt


def labels(text):
    """What the lines of a prompt's facts begin with."""
    return {line[3:].split("]")[0] for line in text.splitlines() if line.startswith("- [")}


def test_prompt_labels_facts_with_the_name_of_the_thing(ada, cluster, reviewer):
    thing, *others = cluster
    written = {"prod cluster", "big iron", "blue whale"}
    assert labels(prompt(ada, reviewer)) == written
    subject_edit(subject=thing, name="Moby", by=reviewer)
    changes = [subject_merge(subject=other, into=thing, by=reviewer) for other in others]
    assert labels(prompt(ada, reviewer)) == {"Moby"}
    assert labels(prompt(ada, reviewer, as_of=clock.now())) == {"Moby"}
    fact = Fact.objects.get(subject="blue whale")
    context_pin(agent=ada, item_type="fact", item_id=str(fact.pk), by=reviewer)
    pinned = ContextRequest("s", "What a lovely day for a walk in the park!", dry_run=True)
    assert "Moby" in labels(context_assemble(pinned, agent=ada, by=reviewer).system_prompt)
    for change in reversed(changes):
        subject_change_undo(change=change, by=reviewer)
    assert labels(prompt(ada, reviewer)) == {"Moby", "big iron", "blue whale"}
    assert set(Fact.objects.values_list("subject", flat=True)) == written, "no fact is rewritten"


def test_contested_facts_have_the_name_of_the_thing(ada, system, reviewer):
    make_fact(ada, "The substrate of the billing service cluster is PostgreSQL.", system, subject="billing db")
    make_fact(ada, "The substrate of the billing service cluster is MariaDB.", system, subject="billing db")
    assert MemoryReview.objects.filter(kind="contradiction").exists()
    embed_pending_rows()
    subject_edit(subject=Subject.objects.get(), name="Ledger", by=reviewer)
    lines = [line for line in prompt(ada, reviewer).splitlines() if line.startswith("- (contested")]
    assert len(lines) == 2
    assert all("Ledger" in line for line in lines), lines


def test_blast_radius_of_two_names_for_one_thing(ada, actor, reviewer, bob):
    make_fact(ada, "J. Smith rows on Sundays.", actor, subject="J. Smith")
    other = make_fact(ada, "Sings well in the choir.", actor, subject="John Smith")
    embed_pending_rows()
    review = MemoryReview.objects.get(kind="same_subject")
    make_run(ada, reviewer, "Who sings well in the choir?")
    alone = expectation_create(
        agent=ada, by=reviewer, request=request_of("Who sings well in the choir, and rows on Sundays?"),
        requirement="only_of_subject", target="memory", item_type="fact", item_id=str(other.pk),
    )  # fmt: skip
    expectations_verify(agent=ada, by=reviewer)
    assert ExpectationResult.objects.get(expectation=alone).state == "passed"
    before = registry()
    impact = impact_of(agent=ada, overrides=resolution_overrides(review, "same"), by=reviewer)
    assert registry() == before, "nothing is written"
    [row] = impact.changed
    assert [text for _, text in row.gained] == ["- [J. Smith] Sings well in the choir."]
    assert [check.after.outcome.code for check in impact.expectations.broken] == ["not_alone"]
    page = browser(bob).get(f"/review/memory/{review.pk}/")
    assert b"answer=same" in page.content
    shown = browser(bob).get(f"/agents/ada/context/blast/?question={review.pk}&answer=same")
    assert b"Breaks" in shown.content
    assert not resolution_overrides(review, "different").merged
    review_resolve(review=review, resolution="same", by=reviewer)
    asked = ContextRequest.of_json(row.run.request)
    real = context_assemble(asked, agent=ada, by=reviewer).system_prompt
    assert real == row.after, "as it was foretold"


def test_blast_radius_of_a_sentence_that_holds_of_both(ada, actor, reviewer):
    make_fact(ada, "Prefers tea with milk.", actor, subject="Alice")
    told = fact_learn(agent=ada, content="Prefers tea with milk.", subject="Bob", by=actor, importance=0.8)
    review = MemoryReview.objects.get(pk=told.review)
    embed_pending_rows()
    make_run(ada, reviewer, "Who prefers tea with milk, Alice or Bob?")
    both = impact_of(agent=ada, overrides=resolution_overrides(review, "both"), by=reviewer)
    same = impact_of(agent=ada, overrides=resolution_overrides(review, "same"), by=reviewer)
    not_this = impact_of(agent=ada, overrides=resolution_overrides(review, "new_wrong"), by=reviewer)
    assert (len(not_this.changed), registry()[0]) == (0, 2)
    review_resolve(review=review, resolution="both", by=reviewer)
    embed_pending_rows()
    asked = ContextRequest.of_json(both.rows[0].run.request)
    real = context_assemble(asked, agent=ada, by=reviewer).system_prompt
    assert sorted(real.splitlines()) == sorted(both.rows[0].after.splitlines())
    assert labels(real) == {"Alice", "Bob"}, "each is told, in the same words"
    assert same.rows[0].after.count("Prefers tea") == 1


def test_two_things_is_an_answer_to_several_at_once(ada, actor, reviewer, bob):
    for name in ("J. Smith", "John Smith", "B. Jones", "Bill Jones"):
        fact_learn(agent=ada, content=f"{name} likes the number {len(name) * 7}.", subject=name, by=actor)
    reviews = list(MemoryReview.objects.filter(kind="same_subject"))
    assert len(reviews) == 2
    overrides, refused = bulk_resolution_overrides(reviews, "same")
    assert (len(overrides.merged), refused) == (2, [])
    person = browser(bob)
    assert b"Different subjects" in person.get("/inbox/?view=reviews").content
    page = markup(person.get(reviews[0].get_absolute_url()))
    keys = re.findall(r'data-key="(\d)" data-key-label="([^"]+)"', page)
    assert keys == [("1", "Same subject"), ("2", "Different subjects")]
    given = {"answer": "different", "selected": [str(review.pk) for review in reviews]}
    person.post("/inbox/change/", given)
    answers = MemoryReview.objects.filter(kind="same_subject").values_list("status", "resolution")
    assert list(answers) == [("resolved", "different")] * 2
    assert Subject.objects.standing().count() == 4


def registry():
    """What a trial must leave as it was."""
    return (
        Subject.objects.standing().count(),
        sorted(SubjectAlias.objects.values_list("subject", "spelling")),
        SubjectChange.objects.count(),
        AuditEvent.objects.filter(action__startswith="subject").count(),
        Change.objects.filter(kind__startswith="subject").count(),
    )

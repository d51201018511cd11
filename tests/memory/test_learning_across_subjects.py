"""What agents say of one thing under two subjects meets: people are asked, and no prompt shows both as equals."""

import pytest

from memory.models import Fact, MemoryReview
from memory.services.facts import fact_learn


def told(agent, by, content, subject):
    return fact_learn(agent=agent, content=content, subject=subject, by=by)


@pytest.mark.parametrize(
    ("old", "new", "question"),
    [
        (("billing database", "The billing database runs PostgreSQL 15."),
         ("infrastructure", "The billing database runs PostgreSQL 17."), "Which PostgreSQL runs billing?"),
        (("infrastructure", "The billing database runs PostgreSQL 15."),
         ("billing database", "The billing database runs PostgreSQL 17."), "What runs the billing database?"),
        (("Marta", "Marta can approve refunds."),
         ("refund policy", "Marta cannot approve refunds."),
         "Is Marta somebody who may approve refunds?"),
    ],
)  # fmt: skip
def test_agents_facts_under_two_subjects_are_contested(ada, actor, api, actor_token, old, new, question):
    first = told(ada, actor, old[1], old[0]).fact
    second = told(ada, actor, new[1], new[0])
    assert second.action == "queued"
    review = MemoryReview.objects.get(pk=second.review)
    assert (review.old, review.new) == (first, second.fact)
    assert "subject" in {reason["code"] for reason in review.reasons}
    assert Fact.objects.active().count() == 2
    prompt = api.as_token(actor_token).post("/context", {"session_id": "s", "input": question}).json()["system_prompt"]
    lines = [line for line in prompt.splitlines() if line.startswith("- (contested")]
    assert len(lines) == 2, prompt
    assert new[1] in lines[0]
    assert old[1] in lines[1]


def test_persons_word_and_an_agents_under_another_subject_are_contested(ada, actor, reviewer):
    told(ada, actor, "The billing database runs PostgreSQL 15.", "infrastructure")
    assert told(ada, reviewer, "The billing database runs PostgreSQL 17.", "billing database").action == "queued"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("billing database", "The billing database runs PostgreSQL 15."),
         ("search database", "The search database runs PostgreSQL 17.")),
        (("Jon", "Jon believes in himself and is grateful for Gina's support."),
         ("Gina", "Gina supports Jon through setbacks and encourages him not to give up.")),
        (("billing database", "The billing database runs PostgreSQL 15."),
         ("Marta", "Marta has 17 tickets about the billing database.")),
    ],
)  # fmt: skip
def test_what_two_subjects_have_to_do_with_each_other_asks_nothing(ada, actor, old, new):
    told(ada, actor, old[1], old[0])
    assert told(ada, actor, new[1], new[0]).action == "stored"

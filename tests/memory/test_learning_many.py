"""Learning many facts at once comes to what learning them one by one comes to."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count
from uuid import UUID

import pytest
from django.db import transaction

from identity.models import AuditEvent, Change
from identity.principal import Principal
from identity.services.agents import agent_create
from memory.models import Fact, FactChange, MemoryReview, SearchItem, SubjectAlias
from memory.services.facts import fact_invalidate, fact_learn
from memory.services.facts.candidate_index import CandidateIndex
from memory.services.facts.comparison_candidates import Vector
from memory.services.facts.learn_many import FactInput, facts_learn
from memory.services.facts.precheck import Precheck, vector_of
from memory.services.search_index.row_embedding import active_model
from nousweb.lib.errors import Invalid

BY = Principal.of_system("import")
BEGIN = datetime(2025, 3, 1, tzinfo=UTC)
PEOPLE = ["Ann", "Bob Ruiz", "Robert Ruiz", "ann", "Otter gateway", ""]
CITIES = ["Berlin", "Paris", "Oslo"]
SENTENCES = [
    "{s} lives in {city}.",
    "{s} now lives in {city}.",
    "{s} has lived in {city} since 2021.",
    "The home of {s} is in {city}.",
    "{s} no longer lives in {city}.",
    "{s} visited {city} in May 2021.",
    "{s} likes {city} and tea.",
    "{s} likes tea and {city}.",
    "{s}'s manager is Carla.",
    "{s}'s manager is Dario.",
    "{s} never drinks tea.",
    "{s} drinks tea.",
    "{s} drinks green tea every morning.",
    "The bridge in {city} was painted by {s}.",
    "A lantern hangs in the hall of {city}",
    "A lantern hangs in the hall of {city}!",
]
PLACES = [("", ""), ("", ""), ("", ""), ("mill", ""), ("mill", "roof"), ("dam", "")]

vectors: dict[str, Vector] = {}


def embedded(text):
    if text not in vectors:
        vectors[text] = vector_of(text)
    return vectors[text]


def inputs(dice, size):
    made = []
    for _ in range(size):
        subject = dice.choice(PEOPLE)
        project, task = dice.choice(PLACES)
        since = dice.choice([None, BEGIN + timedelta(days=dice.randint(0, 40))])
        made.append(
            {
                "content": dice.choice(SENTENCES).format(s=subject or "Somebody", city=dice.choice(CITIES)),
                "subject": subject,
                "category": dice.choice(["concept", "person"]),
                "project": project,
                "task": task,
                "source": dice.choice(["list 1", "list 2", "https://example.org/list"]),
                "valid_from": since,
                "valid_until": since and dice.choice([None, since + timedelta(days=20)]),
            }
        )
    return made


def one_by_one(agent, given):
    for fields in given:
        fact_learn(agent=agent, by=BY, precheck=Precheck(embedded(fields["content"])), persona="actor", **fields)


def at_once(agent, given, dice):
    index = CandidateIndex(agent, "actor", active_model().name)
    while given:
        size = dice.randint(1, 12)
        batch, given = given[:size], given[size:]
        facts_learn(
            agent=agent, inputs=[FactInput(each, embedded(each["content"])) for each in batch], by=BY, index=index
        )


def given_moment(moment):
    """A moment of the world as it was given; of when it was learned only that it was."""
    return "learned" if moment and moment > BEGIN + timedelta(days=100) else moment


def memory_of(agent):
    """All that learning leaves, without keys and moments of its own."""
    facts = list(Fact.objects.filter(agent=agent).order_by("recorded_at").select_related("subject_alias__subject"))
    number = {fact.pk: place for place, fact in enumerate(facts)}
    changes = FactChange.objects.filter(fact__agent=agent).order_by("at", "pk")
    aliases = SubjectAlias.objects.filter(agent=agent).select_related("subject")
    reviews = MemoryReview.objects.filter(agent=agent).select_related("old", "new")
    audited = AuditEvent.objects.filter(agent=agent).exclude(action__startswith="agent.")

    def review_of(one):
        return one.kind, number.get(one.old_id, -1), number.get(one.new_id, -1), one.proposal, str(one.reasons)

    return {
        "facts": [
            (
                fact.content, fact.subject, fact.subject_alias and fact.subject_alias.subject.name, fact.category,
                fact.project, fact.task, fact.source, fact.origin, fact.active, given_moment(fact.valid_from),
                given_moment(fact.valid_until),
                fact.confirmation_count, number.get(fact.superseded_by_id), number.get(fact.contradiction_of_id),
            )
            for fact in facts
        ],
        "changes": sorted((number[one.fact_id], one.action, number.get(one.other_id) or -1) for one in changes),
        "aliases": sorted((one.spelling, one.subject.name) for one in aliases),
        "reviews": sorted(map(review_of, reviews)),
        "scores": [one.score or 0 for one in sorted(reviews, key=review_of)],
        "index": sorted(
            SearchItem.objects.filter(agent=agent).values_list("text", "subject", "active", "status", "model")
        ),
        "audit": Counter(audited.values_list("action", flat=True)),
        "feed": Counter(Change.objects.filter(agent=agent).values_list("kind", flat=True)),
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_many_at_once_are_what_they_are_one_by_one(db, monkeypatch, seed):
    # Of what is equally near the lesser key counts.
    keys = map(UUID, (f"{number:032x}" for number in count(1)))
    monkeypatch.setattr(Fact._meta.get_field("id"), "_get_default", lambda: next(keys))
    monkeypatch.setattr("memory.services.facts.learn_many.uuid4", lambda: next(keys))
    dice = random.Random(seed)
    given = inputs(dice, 45)
    single, many = (
        agent_create(slug=slug, name=slug, prompt="You are an agent.", by=BY) for slug in ("single", "many")
    )
    for agent in (single, many):
        wrong = fact_learn(agent=agent, by=BY, content="Ann owns a boat in Oslo.", subject="Ann", persona="actor").fact
        if seed % 2:
            fact_invalidate(fact=wrong, by=BY)
            given[seed:seed] = [{**given[0], "content": "Ann owns a boat in Oslo."}]
    one_by_one(single, given)
    at_once(many, given, dice)
    found, expected = memory_of(many), memory_of(single)
    for name, rows in expected.items():
        # The database holds embeddings as halves.
        assert found[name] == (pytest.approx(rows, abs=1e-3) if name == "scores" else rows), name


def test_one_that_is_refused_refuses_its_batch_by_its_place(db, ada):
    index = CandidateIndex(ada, "actor", active_model().name)
    texts = ["The mill has four doors.", "The dam leaks.", "   "]
    given = [FactInput({"content": text}, embedded("The dam leaks.")) for text in texts]
    with transaction.atomic(), pytest.raises(Invalid, match=r"^facts\[2\]"):
        facts_learn(agent=ada, inputs=given, by=BY, index=index)
    assert not Fact.objects.exists()
    assert len(facts_learn(agent=ada, inputs=given[:2], by=BY, index=index)) == 2


def test_what_others_learned_and_changed_meanwhile_is_seen(db, ada):
    index = CandidateIndex(ada, "actor", active_model().name)

    def learn(*texts):
        batch = [FactInput({"content": text, "subject": "Ann"}, embedded(text)) for text in texts]
        return [result.action for result in facts_learn(agent=ada, inputs=batch, by=BY, index=index)]

    assert learn("Ann lives in Berlin.", "Ann rows on Sundays.") == ["stored", "stored"]
    fact_learn(agent=ada, by=BY, content="Ann's manager is Carla.", subject="Ann")
    fact_invalidate(fact=Fact.objects.get(content="Ann lives in Berlin."), by=BY)
    assert learn("Ann's manager is Carla.", "Ann lives in Berlin.") == ["confirmed", "queued"]

"""Subjects as people change them: merged, split, named and undone, and what follows from it."""

from datetime import UTC, datetime

import pytest
from django.urls import reverse

from identity.models import AuditEvent
from identity.principal import Principal
from memory.models import Fact, MemoryReview, Subject, SubjectAlias, SubjectChange
from memory.services.erasure import subject_erase
from memory.services.facts import fact_invalidate, fact_learn
from memory.services.reviews.open_review import review_open
from memory.services.reviews.resolve import review_resolve
from memory.services.reviews.undo import review_undo, supersession_undo
from memory.services.subjects.changes import (
    subject_alias_add,
    subject_change_undo,
    subject_create,
    subject_edit,
    subject_merge,
    subject_split,
)
from nousweb.lib.errors import Conflict, Invalid, NotAllowed
from tests.http import browser

BEGUN = datetime(2024, 5, 1, tzinfo=UTC)


@pytest.fixture
def person(bob):
    return Principal.of_user(bob)


@pytest.fixture
def two(ada, actor):
    """Two subjects with a fact each."""
    fact_learn(agent=ada, content="Tim lives in Rome.", subject="Tim", by=actor)
    fact_learn(agent=ada, content="The captain owns two boats.", subject="the captain", by=actor)
    return subject("Tim"), subject("the captain")


def subject(name):
    return Subject.objects.select_related("agent").get(name=name)


def spellings(row):
    return sorted(SubjectAlias.objects.filter(subject=row).values_list("spelling", flat=True))


def test_merge_lets_facts_meet_and_can_be_undone(ada, actor, person, two, api, actor_token):
    tim, captain = two
    change = subject_merge(subject=captain, into=tim, by=person, reason="He is.")
    assert spellings(tim) == ["Tim", "the captain"]
    told = fact_learn(agent=ada, content="The captain lives in Oslo.", subject="the captain", by=actor)
    assert [fact.content for fact in told.superseded] == ["Tim lives in Rome."]
    found = api.as_token(actor_token).get("/facts", {"subject": "TIM", "state": "all"}).json()["items"]
    assert len(found) == 3
    assert AuditEvent.objects.get(action="subject.merge").after["change"] == change.summary
    subject_change_undo(change=change, by=person)
    assert (spellings(tim), spellings(captain)) == (["Tim"], ["the captain"])
    assert Fact.objects.filter(subject_alias__subject=captain).count() == 2, "what was learned since goes along"
    with pytest.raises(Conflict):
        subject_change_undo(change=change, by=person)


def test_merge_closes_no_circle(two, person):
    tim, captain = two
    subject_merge(subject=captain, into=tim, by=person)
    for one, other in ((tim, captain), (captain, tim)):
        with pytest.raises(Conflict):
            subject_merge(subject=one, into=other, by=person)
    with pytest.raises(Invalid):
        subject_merge(subject=tim, into=tim, by=person)


def test_merge_is_undone_in_order(ada, actor, two, person):
    tim, captain = two
    fact_learn(agent=ada, content="The skipper sings.", subject="the skipper", by=actor)
    first = subject_merge(subject=captain, into=tim, by=person)
    second = subject_merge(subject=tim, into=subject("the skipper"), by=person)
    with pytest.raises(Conflict):
        subject_change_undo(change=first, by=person)
    subject_change_undo(change=second, by=person)
    subject_change_undo(change=first, by=person)
    assert spellings(captain) == ["the captain"]


def test_split_by_facts_parts_two_things_of_one_name(ada, actor, two, person):
    tim, _ = two
    fact = fact_learn(agent=ada, content="Tim is a steam engine.", subject="Tim", by=actor).fact
    change = subject_split(subject=tim, facts=[fact.pk], name="Tim the engine", by=person)
    fact.refresh_from_db()
    assert fact.subject_alias.subject == change.other
    assert fact.subject == "Tim", "as it was written"
    assert fact_learn(agent=ada, content="Tim sails.", subject="Tim", by=actor).fact.subject_alias.subject == tim
    subject_change_undo(change=change, by=person)
    fact.refresh_from_db()
    assert fact.subject_alias.subject == tim
    with pytest.raises(Invalid):
        subject_split(subject=tim, facts=[fact.pk], by=person)


def test_user_is_one_and_takes_the_name_of_a_person(ada, actor, two, person):
    tim, _ = two
    fact_learn(agent=ada, content="The user drinks tea.", subject="user", by=actor)
    subject_merge(subject=subject("user"), into=tim, by=person)
    tim.refresh_from_db()
    assert (tim.is_user, tim.name) == (True, "Tim")
    assert (
        fact_learn(agent=ada, content="Wants short answers.", subject="me", by=actor).fact.subject_alias.subject == tim
    )
    other = subject("the captain")
    subject_edit(subject=other, is_user=True, by=person)
    assert Subject.objects.get(is_user=True) == other
    entered = subject_create(agent=ada, name="Zoe", is_user=True, by=person)
    for former, latter in ((tim, other), (other, entered)):
        told = AuditEvent.objects.get(object_type="subject", object_id=str(former.pk), before={"is_user": True})
        assert (told.action, told.after) == ("subject.edit", {"is_user": False, "user": str(latter.pk)})


def test_user_who_would_be_it_no_more_is_named_beforehand(two, person, bob):
    tim, captain = two
    subject_edit(subject=tim, is_user=True, by=person)
    note = f"“{tim.name}” is currently the user"
    addresses = [reverse("agent_subject_thing", args=["ada", one.pk]) for one in (captain, tim)]
    pages = [browser(bob).get(address).content.decode() for address in addresses]
    assert [note in page for page in pages] == [True, False]


def test_token_changes_no_subject(two, actor):
    tim, captain = two
    for call in (
        lambda: subject_merge(subject=tim, into=captain, by=actor),
        lambda: subject_alias_add(subject=tim, spelling="Timmy", by=actor),
        lambda: subject_edit(subject=tim, name="Tom", by=actor),
    ):
        with pytest.raises(NotAllowed):
            call()


def test_spelling_of_another_subject_is_refused(two, person):
    tim, _ = two
    with pytest.raises(Conflict):
        subject_alias_add(subject=tim, spelling="The Captain", by=person)


@pytest.mark.parametrize(("answer", "subjects"), [("same", 1), ("different", 2)])
def test_proposal_is_answered_and_undone(ada, actor, person, answer, subjects):
    fact_learn(agent=ada, content="J. Smith rows.", subject="J. Smith", by=actor)
    fact_learn(agent=ada, content="John Smith sings well.", subject="John Smith", by=actor)
    review = MemoryReview.objects.get(kind="same_subject")
    review_resolve(review=review, resolution=answer, by=person)
    assert Subject.objects.standing().count() == subjects
    review_undo(review=review, by=person)
    assert Subject.objects.standing().count() == 2
    assert MemoryReview.objects.get(kind="same_subject").status == "pending"


@pytest.mark.parametrize(
    ("answer", "facts", "subjects"), [("same", 1, 1), ("both", 2, 2), ("new_wrong", 1, 2)]
)  # fmt: skip
def test_repeated_sentence_is_answered_and_undone(ada, actor, person, answer, facts, subjects):
    fact_learn(agent=ada, content="Prefers tea.", subject="Alice", by=actor)
    more = {"confidence": 0.7, "tags": ["drink"], "valid_from": BEGUN}
    told = fact_learn(agent=ada, content="Prefers tea.", subject="Bob", by=actor, **more)
    review = MemoryReview.objects.get(pk=told.review)
    review_resolve(review=review, resolution=answer, by=person)
    assert Fact.objects.active().count() == facts
    assert Subject.objects.standing().count() == subjects
    if answer == "both":
        stored = Fact.objects.get(subject="Bob")
        assert (stored.confidence, stored.tags, stored.valid_from) == (0.7, ["drink"], BEGUN)
    again = fact_learn(agent=ada, content="Prefers tea.", subject="Bob", by=actor)
    assert again.action == ("decided" if answer == "new_wrong" else "confirmed")
    review_undo(review=review, by=person)
    assert Fact.objects.active().count() == 1
    assert Subject.objects.standing().count() == 2


@pytest.mark.parametrize("answer", ["same", "both", "merge", "reverse", "same of two", "replace of two"])
def test_undone_resolution_leaves_each_fact_as_it_was(ada, actor, person, answer):
    """Also one that it verified, confirmed or replaced, since its text or a value of its attribute was known before."""

    def learn(content, subject="Alice", **more):
        return fact_learn(agent=ada, content=content, subject=subject, by=actor, **more)

    def states():
        names = ("active", "endorsed", "confirmation_count", "last_confirmed_at", "superseded_by", "valid_until")
        return {row["pk"]: row for row in Fact.objects.filter(pk__in=known).values("pk", *names)}

    first, common = learn("Pays with cards.").fact, {"agent": ada, "persona": "actor", "by": actor}
    if answer in ("same", "both"):
        slot = {"subject": "Bob", "attribute": "tax class"}
        learn("Pays in class three.", value="three", **slot)
        told = learn("Pays with cards.", value="four", **slot) if answer == "both" else learn("Pays with cards.", "Bob")
        review, text = MemoryReview.objects.get(pk=told.review), ""
    elif answer == "merge" or answer.endswith("of two"):
        new, text = learn("Owns a red bicycle.").fact, learn("Sells stamps on the market.").fact.content
        review = review_open(**common, kind="contradiction", about="pair", old=first, new=new)
    else:
        wrong, text = fact_invalidate(fact=first, by=person), learn("Sells stamps on the market.").fact.content
        review = review_open(**common, kind="relearned", about="again", facts=[wrong.pk], proposal=text)
    known = list(Fact.objects.values_list("pk", flat=True))
    before = states()
    review_resolve(review=review, resolution=answer.partition(" ")[0], by=person, content=text)
    assert states() != before
    if answer.endswith("of two"):
        # From the page of the fact.
        supersession_undo(fact=Fact.objects.get(superseded_by__isnull=False), by=person)
    else:
        review_undo(review=review, by=person)
    assert states() == before
    assert not Fact.objects.active().exclude(pk__in=known).exists()


def test_search_finds_other_names(ada, actor, person, two, api, actor_token):
    tim, captain = two
    caller = api.as_token(actor_token)

    def found(q):
        return [one["content"] for one in caller.get("/recall", {"q": q, "type": "fact"}).json()["items"]]

    def in_prompt(text):
        ask = {"session_id": "s", "input": text}
        return caller.post("/context", ask).json()["system_prompt"]

    where, what = "Where does the captain live?", "What does the captain do?"
    assert found(where)[0] == "The captain owns two boats."
    assert "Tim lives in Rome." not in in_prompt(what)
    subject_merge(subject=captain, into=tim, by=person)
    assert found(where)[0] == "Tim lives in Rome."
    assert "Tim lives in Rome." in in_prompt(what)


def test_erasure_follows_names_and_what_was_merged(ada, actor, person, two, charlie):
    tim, captain = two
    subject_merge(subject=captain, into=tim, by=person, reason="The captain is Tim.")
    subject_erase(agent=ada, subject="the captain", by=Principal.of_user(charlie), reason="Asked.")
    assert not Fact.objects.exists()
    assert not Subject.objects.exists()
    assert not SubjectAlias.objects.exists()
    assert not SubjectChange.objects.exists()
    records = AuditEvent.objects.exclude(action="subject.erase").values_list(
        "before", "after", "message", "object_label"
    )
    assert not any("Tim" in str(row) or "captain" in str(row) for row in records)


def test_subjects_are_sealed_by_persona(ada, actor, api, actor_token, subconscious_token):
    night = api.as_token(subconscious_token)
    assert night.post("/facts", {"content": "Tim is sad.", "subject": "Tim"}).status_code == 201
    day = api.as_token(actor_token)
    assert day.get("/subjects").json()["items"] == []
    [hidden] = night.get("/subjects").json()["items"]
    assert day.get(f"/subjects/{hidden['id']}").status_code == 404
    assert day.post("/facts", {"content": "Timothy is sad.", "subject": "Timothy"}).json()["action"] == "stored"
    assert not MemoryReview.objects.filter(persona="actor").exists()

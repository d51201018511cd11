"""Subjects are things: facts that call one otherwise meet, and the same sentence is stored once."""

import pytest

from memory.models import Fact, MemoryReview, Subject


@pytest.fixture
def learn(api, actor_token):
    client = api.as_token(actor_token)

    def learn(content, subject="", **fields):
        answer = client.post("/facts", {"content": content, "subject": subject, **fields})
        assert answer.status_code == 201, answer.content
        return answer.json()

    return learn


def spellings(agent, persona="actor"):
    """Each subject's name with all its spellings."""
    rows = Subject.objects.standing().filter(agent=agent, persona=persona).order_by("created_at")
    return [(row.name, [alias.spelling for alias in row.aliases.all()]) for row in rows]


def test_subject_is_entered_once_whatever_its_case(learn, ada):
    learn("The billing DB runs on host one.", "billing-db")
    learn("Backups of it take an hour.", "Billing DB")
    learn("It has no subject at all.")
    assert spellings(ada) == [("billing-db", ["billing-db"])]
    assert Fact.objects.filter(subject_alias__subject__name="billing-db").count() == 2
    assert Fact.objects.get(subject="").subject_alias is None


def test_subject_joins_what_certainly_means_the_same(learn, ada):
    for place, subject in enumerate(("Postgres", "PostgreSQL", "k8s", "Kubernetes", "user", "the user", "me")):
        learn(f"This is a sentence of its own, number {place * 7}, about nothing else.", subject)
    assert spellings(ada) == [
        ("Postgres", ["Postgres", "PostgreSQL"]),
        ("k8s", ["k8s", "Kubernetes"]),
        ("user", ["user", "the user", "me"]),
    ]
    assert Subject.objects.get(is_user=True).name == "user"
    assert not MemoryReview.objects.filter(kind="same_subject").exists()


def test_learning_follows_spellings(learn):
    old = learn("Postgres runs version 15.", "Postgres")
    told = learn("PostgreSQL runs version 17.", "PostgreSQL")
    assert (told["action"], told["superseded"]) == ("superseded", [old["fact"]["id"]])
    again = learn("Postgres runs version 17.", "Postgres")
    assert (again["action"], again["fact"]["id"]) == ("confirmed", told["fact"]["id"])


def test_same_sentence_about_another_subject_is_a_question_and_not_stored(learn, ada):
    first = learn("Prefers tea.", "Alice")
    told = learn("Prefers tea.", "Bob", category="preference", confidence=0.7)
    assert (told["action"], told["fact"]["id"]) == ("queued", first["fact"]["id"])
    assert Fact.objects.count() == 1
    review = MemoryReview.objects.get(kind="repeated")
    assert str(review.pk) == told["review"]
    assert learn("Prefers  tea", "bob")["review"] == told["review"], "asked once"
    assert [row.name for row in Subject.objects.filter(pk__in=review.subjects)] == ["Alice", "Bob"]

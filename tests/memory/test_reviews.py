"""Questions about memories: read by agents, answered by people, each answer with its own effect, all taken back."""

import pytest

from identity.principal import Principal
from memory.models import Fact, FactChange, MemoryReview
from memory.services.facts import fact_confirm, fact_learn
from memory.services.reviews.resolve import review_resolve
from memory.services.reviews.states import reviews_expire
from tests.factories import make_review

OLD, NEW = "Tim never goes to the gym on Mondays with Ann.", "Tim sometimes goes to the gym on Mondays with Ann."


@pytest.fixture
def review(ada, actor):
    return make_review(ada, actor, OLD, NEW)


@pytest.fixture
def resolve(api, bob, review):
    client = api.as_person(bob)

    def resolve(resolution, **more):
        return client.request(
            "POST", f"/reviews/{review.pk}/resolve", body={"resolution": resolution, **more}, query={"agent": "ada"}
        )

    return resolve


def active():
    return sorted(Fact.objects.active().values_list("content", flat=True))


@pytest.mark.parametrize(
    ("resolution", "more", "left", "action"),
    [
        ("same", {}, [OLD], "merged"),
        ("replace", {}, [NEW], "superseded"),
        ("old_wrong", {}, [NEW], "invalidated"),
        ("new_wrong", {}, [OLD], "invalidated"),
        ("both", {}, [OLD, NEW], None),
        ("merge", {"content": "Tim rarely goes to the gym."}, ["Tim rarely goes to the gym."], "merged"),
    ],
)
def test_review_resolutions_have_their_effect_and_are_undone(review, resolve, api, bob, resolution, more, left, action):
    answer = resolve(resolution, comment="As Ann says.", **more)
    assert answer.status_code == 200, answer.content
    assert (answer.json()["status"], answer.json()["resolution"]) == ("resolved", resolution)
    assert active() == left
    changes = FactChange.objects.filter(action=action) if action else FactChange.objects.none()
    assert changes.exists() is (action is not None)
    known = set(FactChange.objects.values_list("pk", flat=True))

    undone = api.as_person(bob).request("POST", f"/reviews/{review.pk}/undo", query={"agent": "ada"})
    assert undone.status_code == 200, undone.content
    assert undone.json()["status"] == "pending"
    assert active() == [OLD, NEW]
    assert known <= set(FactChange.objects.values_list("pk", flat=True))


def test_review_replace_ends_the_old_where_the_new_begins(review, resolve):
    resolve("replace")
    old, new = Fact.objects.get(content=OLD), Fact.objects.get(content=NEW)
    assert old.valid_until == new.valid_from == new.recorded_at
    assert old.superseded_by == new


def test_review_same_confirms_the_old_and_keeps_its_interval(review, resolve):
    resolve("same")
    old, new = Fact.objects.get(content=OLD), Fact.objects.get(content=NEW)
    assert (old.confirmation_count, new.superseded_by, new.valid_until) == (1, old, None)


def test_review_same_undone_takes_back_its_confirmation(review, resolve, api, bob, actor):
    heard = fact_confirm(fact=review.old, by=actor).last_confirmed_at
    resolve("same")
    assert Fact.objects.get(content=OLD).confirmation_count == 2
    api.as_person(bob).request("POST", f"/reviews/{review.pk}/undo", query={"agent": "ada"})
    old = Fact.objects.get(content=OLD)
    assert (old.confirmation_count, old.last_confirmed_at) == (1, heard)
    last = old.changes.order_by("-id")[0]
    assert (last.action, last.before["confirmation_count"]) == ("edited", 2)


def test_review_same_undone_keeps_later_confirmations(review, resolve, api, bob, actor):
    resolve("same")
    heard = fact_confirm(fact=Fact.objects.get(content=OLD), by=actor).last_confirmed_at
    api.as_person(bob).request("POST", f"/reviews/{review.pk}/undo", query={"agent": "ada"})
    old = Fact.objects.get(content=OLD)
    assert (old.confirmation_count, old.last_confirmed_at) == (1, heard)


def test_review_second_resolution_is_refused(review, resolve):
    assert resolve("both").status_code == 200
    assert resolve("replace").status_code == 409
    assert active() == [OLD, NEW]


def test_review_impossible_resolution_is_refused(review, resolve, subtests):
    for resolution in ["reverse", "keep", "moot", "", "x"]:
        with subtests.test(resolution=resolution):
            assert resolve(resolution).status_code == 422
            assert MemoryReview.objects.pending().count() == 1


def test_review_merge_needs_a_text(review, resolve):
    assert resolve("merge").status_code == 422


def test_review_merge_into_words_known_of_another_subject_leaves_that_alone(review, resolve, api, ada, actor, bob):
    words = "Rarely goes to the gym."
    other = fact_learn(agent=ada, content=words, subject="Zoe", by=actor).fact
    assert resolve("merge", content=words).status_code == 200
    merged = Fact.objects.active().exclude(pk=other.pk).get()
    assert (merged.content, merged.subject) == (words, review.old.subject)
    assert api.as_person(bob).request("POST", f"/reviews/{review.pk}/undo", query={"agent": "ada"}).status_code == 200
    assert active() == sorted([OLD, NEW, words])


def test_review_of_facts_settled_elsewhere_cannot_be_resolved(review, resolve, system):
    from memory.services.facts import fact_invalidate

    fact_invalidate(fact=review.old, by=system)
    review.refresh_from_db()
    assert (review.status, review.resolution) == ("resolved", "moot")
    assert resolve("same").status_code == 409
    assert reviews_expire(by=system) == 0


def test_reviews_are_read_and_not_resolved_by_agents(review, api, actor_token, all_scopes_token, other_token):
    page = api.as_token(actor_token).get("/reviews").json()
    assert [item["id"] for item in page["items"]] == [str(review.pk)]
    assert page["items"][0]["old"]["content"] == OLD
    assert api.as_token(other_token).get("/reviews").json()["items"] == []
    assert api.as_token(other_token).get(f"/reviews/{review.pk}").status_code == 404
    for secret in (actor_token, all_scopes_token):
        answer = api.as_token(secret).post(f"/reviews/{review.pk}/resolve", {"resolution": "both"})
        assert answer.status_code == 403


def test_review_of_people_is_not_resolved_by_the_system(review, system):
    from nousweb.lib.errors import NotAllowed

    with pytest.raises(NotAllowed):
        review_resolve(review=review, resolution="both", by=system)


def test_review_both_true_is_never_opened_again(review, resolve, ada, actor, bob):
    resolve("both")
    assert fact_learn(agent=ada, content=NEW, subject="Tim", by=actor).action == "confirmed"
    assert MemoryReview.objects.count() == 1


def test_review_expires(review, system):
    MemoryReview.objects.update(expires_at=review.created_at)
    assert reviews_expire(by=system) == 1
    review.refresh_from_db()
    assert review.status == "expired"
    # It can still be answered.
    by = Principal.of_system("tests")
    assert by.may("memory.review_memory") is False

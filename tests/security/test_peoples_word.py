"""An agent that tries to undo what people wrote or decided about facts, and to crowd it out of the prompt."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection

from identity.models import AuditEvent, Change
from identity.principal import Principal
from memory.lifecycle.runner import job_run
from memory.models import Fact, Job, MemoryReview, ProjectScope
from memory.persona import VIEWS
from memory.policy import MAX_RELEARNED_REVIEWS
from memory.search.contested_facts import contested_facts
from memory.services.erasure import subject_erase
from memory.services.facts import fact_invalidate, fact_learn
from memory.services.reviews.open_review import review_open
from memory.services.reviews.undo import supersession_undo
from nousweb.lib import clock
from tests.api.problems import assert_problem
from tests.factories import pair_review
from tests.judge_server import JudgeServer, Reply

ROME, OSLO, LIMA = (f"Tim lives in {town}." for town in ("Rome", "Oslo", "Lima"))
ANN, BEN = (f"Tim's spotter is {who}." for who in ("Ann", "Ben"))
AGENT = {"agent": "ada"}


@pytest.fixture
def agent(api, ada, actor_token):
    return api.as_token(actor_token)


@pytest.fixture
def person(api, ada, bob):
    return api.as_person(bob)


@pytest.fixture
def learn(agent):
    def learn(content, **fields):
        answer = agent.post("/facts", {"content": content, "subject": "Tim", **fields})
        assert answer.status_code == 201, answer.content
        return answer.json()

    return learn


@pytest.fixture
def said(person):
    def said(content, **fields):
        answer = person.post("/facts", {"content": content, "subject": "Tim", **fields}, AGENT)
        assert answer.status_code == 201, answer.content
        return answer.json()

    return said


def active():
    return sorted(Fact.objects.active().values_list("content", flat=True))


def resolve(person, review, resolution, **more):
    answer = person.post(f"/reviews/{review}/resolve", {"resolution": resolution, **more}, AGENT)
    assert answer.status_code == 200, answer.content
    return answer


def confirmed(person, fact):
    return person.post(f"/facts/{fact}/confirm", {}, AGENT)


def edited(person, fact):
    return person.request("PATCH", f"/facts/{fact}", body={"tags": ["home"]}, query=AGENT)


def restored(person, fact):
    assert person.post(f"/facts/{fact}/invalidate", {}, AGENT).status_code == 200
    return person.post(f"/facts/{fact}/restore", {"endorse": True}, AGENT)


class TestSupersession:
    def test_supersession_without_people_is_automatic(self, learn):
        learn(ROME)
        assert learn(OSLO)["action"] == "superseded"
        assert active() == [OSLO]

    def test_supersession_of_a_persons_fact_is_reviewed(self, learn, said):
        said(ROME)
        told = learn(OSLO)
        assert (told["action"], told["superseded"]) == ("queued", [])
        assert MemoryReview.objects.pending().get().pk == MemoryReview.objects.get(pk=told["review"]).pk
        assert active() == [OSLO, ROME]

    @pytest.mark.parametrize("decide", [confirmed, edited, restored])
    def test_supersession_of_a_persons_decision_is_reviewed(self, learn, person, decide):
        assert decide(person, learn(ROME)["fact"]["id"]).status_code == 200
        assert learn(OSLO)["action"] == "queued"
        assert ROME in active()

    @pytest.mark.parametrize(
        ("resolution", "kept"),
        [("both", ANN), ("both", BEN), ("new_wrong", ANN), ("old_wrong", BEN), ("same", ANN),
         ("replace", BEN)],
    )  # fmt: skip
    def test_supersession_of_a_kept_fact_is_reviewed(self, agent, learn, person, resolution, kept):
        learn(ANN)
        resolve(person, pair_review(learn(BEN)["review"]).pk, resolution)
        old = Fact.objects.get(content=kept)
        answer = agent.post(f"/facts/{old.pk}/supersede", {"by": {"content": LIMA}, "reason": "I know better."})
        assert answer.status_code == 202, answer.content
        assert (answer.json()["action"], answer.json()["old"]["active"]) == ("queued", True)
        review = MemoryReview.objects.get(pk=answer.json()["review"])
        assert (review.status, review.old, str(review.new_id)) == ("pending", old, answer.json()["new"]["id"])
        assert "I know better." in review.reasons[0]["words"]

    def test_supersession_waits_while_a_review_is_open(self, agent, learn):
        old = learn(ANN)["fact"]["id"]
        waiting = learn(BEN)
        for fact in (old, waiting["fact"]["id"]):
            refused = agent.post(f"/facts/{fact}/supersede", {"by": {"content": LIMA}})
            assert assert_problem(refused, 409, "conflict", detail="review")["review"] == waiting["review"]
        assert Fact.objects.count() == 2, "a refused replacement leaves nothing learned"

    def test_supersession_by_a_certain_change_is_reviewed_while_one_is_open(self, ada, learn):
        old = learn(ROME)["fact"]["id"]
        review_open(
            agent=ada,
            persona="actor",
            kind="low_confidence",
            about=f"low:{old}",
            by=Principal.of_system("tests"),
            new=Fact.objects.get(pk=old),
        )
        told = learn(OSLO)
        assert (told["action"], told["superseded"]) == ("queued", [])
        assert active() == [OSLO, ROME]

    def test_supersession_review_is_created_once(self, agent, said, learn, person):
        old, new = said(ROME)["fact"]["id"], learn("Tim owns two bees.")["fact"]["id"]
        first = agent.post(f"/facts/{old}/supersede", {"fact_id": new})
        assert first.status_code == 202, first.content
        again = agent.post(f"/facts/{old}/supersede", {"fact_id": new})
        assert assert_problem(again, 409, "conflict")["review"] == first.json()["review"]
        resolve(person, first.json()["review"], "both")
        decided = agent.post(f"/facts/{old}/supersede", {"fact_id": new})
        assert_problem(decided, 409, "conflict", detail="decided")
        assert MemoryReview.objects.count() == 1

    def test_supersession_between_facts_of_people_is_decided_by_people(self, agent, said):
        old, new = said(ROME)["fact"]["id"], said("Tim owns two bees.")["fact"]["id"]
        for body in ({"fact_id": new}, {"by": {"content": "Tim owns two bees."}}):
            refused = agent.post(f"/facts/{old}/supersede", body)
            assert assert_problem(refused, 409, "conflict", detail="Both facts are verified")["fact"] == new
        assert active() == sorted([ROME, "Tim owns two bees."])
        assert not MemoryReview.objects.exists()

    def test_supersession_keeps_the_new_fact_as_people_wrote_it(self, agent, person, said, learn):
        old, new = learn("Tim has a boat.")["fact"]["id"], said("Tim owns two bees.")["fact"]["id"]
        assert agent.post(f"/facts/{old}/supersede", {"fact_id": new}).status_code == 200
        changed = Fact.objects.get(pk=new)
        assert (changed.valid_from, changed.changes.count()) == (None, 1)
        assert Fact.objects.get(pk=old).valid_until is not None
        assert person.post(f"/facts/{old}/restore", {}, AGENT).status_code == 200
        own = said("Tim rows.")["fact"]["id"]
        assert person.post(f"/facts/{old}/supersede", {"fact_id": own}, AGENT).status_code == 200
        assert Fact.objects.get(pk=own).valid_from is not None

    @pytest.mark.parametrize(
        ("old", "subject", "new"),
        [
            (ROME, "Tim", OSLO),
            (ANN, "Tim", BEN),
            ("Never deploy on Fridays.", "deploys", "Always deploy on Fridays."),
        ],
    )
    def test_supersession_by_a_false_subject_hides_no_contradiction(self, learn, said, old, subject, new):
        word = said(old, subject=subject)["fact"]["id"]
        told = learn(new, subject="home")
        assert (told["action"], told["fact"]["contradiction_of"]) == ("queued", word)
        assert MemoryReview.objects.get(pk=told["review"]).reasons[-1]["code"] == "subject"

    def test_supersession_leaves_other_peoples_subjects_alone(self, learn, said):
        said(ROME)
        said("Prefers tea.", subject="Alice")
        for content, subject in [("Bob lives in Oslo.", "Bob"), ("Prefers coffee.", "Ann")]:
            assert learn(content, subject=subject)["action"] == "stored"
        told = learn("Prefers tea.", subject="Bob")
        assert (told["action"], told["fact"]["subject"], told["fact"]["active"]) == ("queued", "Alice", True)

    def test_supersession_of_ones_own_fact_is_open_to_people(self, person, said, learn):
        old = said(ROME)["fact"]["id"]
        assert said(OSLO)["action"] == "superseded"
        answer = person.post(f"/facts/{Fact.objects.get(content=OSLO).pk}/supersede", {"by": {"content": LIMA}}, AGENT)
        assert (answer.status_code, answer.json()["action"]) == (200, "superseded")
        assert active() == [LIMA]
        assert not Fact.objects.get(pk=old).active

    @pytest.mark.parametrize("waiting", [True, False])
    def test_supersession_review_is_not_resolved_by_a_judge(self, learn, said, waiting):
        update = {"relation": "update", "confidence": 0.99, "reason": "Times change."}
        with JudgeServer() as server, server.configured():
            said(ANN)
            if waiting:
                server.fail(529)
            server.always(Reply(input=update))
            told = learn(BEN)
            assert told["action"] == "queued"
            for run in Job.objects.filter(handler="fact_judge"):
                job_run(run.pk)
        assert ANN in active()
        assert MemoryReview.objects.get(pk=told["review"]).status == "pending"

    def test_supersession_undone_resolution_binds_no_more(self, agent, learn, person):
        learn(ANN)
        review = pair_review(learn(BEN)["review"]).pk
        resolve(person, review, "both")
        assert Fact.objects.filter(endorsed=True).count() == 2
        assert person.post(f"/reviews/{review}/undo", {}, AGENT).status_code == 200
        assert not Fact.objects.filter(endorsed=True).exists()

    def test_supersession_undone_opens_its_question_again_on_the_record(self, ada, learn, person, bob):
        """What was contested then is read from the trail, and who waits for reviews reads the feed."""
        learn(ANN)
        review = pair_review(learn(BEN)["review"]).pk
        resolve(person, review, "replace")
        old = Fact.objects.get(content=ANN)
        supersession_undo(fact=old, by=Principal.of_user(bob))
        trail = AuditEvent.objects.filter(object_id=review).order_by("id")
        told = ["memory_review.resolve", "memory_review.undo"]
        assert list(trail.values_list("action", flat=True)) == told
        assert Change.objects.filter(kind="review.reopened", object_id=review).count() == 1
        view, everything = VIEWS["actor"](ada), ProjectScope()
        for moment in (None, clock.now()):
            assert len(contested_facts(view, everything, [str(old.pk)], moment, now=clock.now())) == 2


class TestFoundWrong:
    @pytest.fixture
    def wrong(self, learn, person):
        fact = learn(ROME, source="log 1")["fact"]["id"]
        assert person.post(f"/facts/{fact}/invalidate", {"reason": "a joke"}, AGENT).status_code == 200
        return fact

    @pytest.mark.parametrize("words", [ROME, " tim lives in  rome", "Tim resides in Rome."])
    def test_retired_fact_learned_from_a_new_source_is_reviewed(self, learn, wrong, words):
        told = learn(words, source="log 2")
        assert (told["action"], told["fact"]["id"], told["fact"]["active"]) == ("queued", wrong, False)
        review = MemoryReview.objects.get(pk=told["review"])
        assert (review.kind, review.status, [str(key) for key in review.facts]) == ("relearned", "pending", [wrong])
        assert "log 2" in str(review.reasons)
        assert active() == []

    @pytest.mark.parametrize("subject", ["home", "Rome", "Timothy"])
    @pytest.mark.parametrize("words", [ROME, "tim lives in  rome", "Tim resides in Rome."])
    def test_retired_fact_is_recognised_under_a_false_subject(self, learn, wrong, words, subject):
        told = learn(words, subject=subject)
        assert (told["action"], told["fact"]["id"], active()) == ("queued", wrong, [])

    @pytest.mark.parametrize("words", ["Tim lives in R\u200bo\u200bme.", "T\u00adim lives in Rome.\u2063"])
    def test_retired_fact_is_recognised_with_invisible_characters(self, learn, wrong, words):
        told = learn(words)
        assert (told["action"], told["fact"]["id"], active()) == ("queued", wrong, [])

    def test_retired_fact_from_a_known_source_stays_decided(self, learn, wrong):
        told = learn(ROME, source="Log 1")
        assert (told["action"], told["fact"]["active"], told["review"]) == ("decided", False, None)
        assert not MemoryReview.objects.exists()

    def test_retired_fact_without_a_source_is_reviewed_once(self, learn, wrong, person):
        first, again = learn(ROME), learn(ROME)
        assert first["review"] == again["review"]
        resolve(person, first["review"], "keep")
        assert learn(ROME)["action"] == "decided"
        assert active() == []
        assert MemoryReview.objects.count() == 1

    def test_retired_fact_new_sources_are_limited(self, learn, wrong, person):
        for place in range(MAX_RELEARNED_REVIEWS):
            resolve(person, learn(ROME, source=f"log {place + 2}")["review"], "keep")
        assert learn(ROME, source="log 99")["action"] == "decided"
        assert MemoryReview.objects.count() == MAX_RELEARNED_REVIEWS

    def test_retired_fact_restored_holds_and_can_be_undone(self, learn, wrong, person):
        review = learn(ROME)["review"]
        resolve(person, review, "reverse")
        fact = Fact.objects.get()
        assert (fact.active, fact.endorsed, fact.invalidated_at) == (True, True, None)
        assert person.post(f"/reviews/{review}/undo", {}, AGENT).status_code == 200
        assert active() == []

    def test_retired_fact_restored_in_words_known_of_another_subject_leaves_that_alone(
        self, learn, wrong, said, person
    ):
        words = "Tim resides in Rome."
        said(words, subject="Timothy")
        review = learn(words)["review"]
        resolve(person, review, "reverse")
        assert sorted(Fact.objects.active().values_list("subject", flat=True)) == ["Tim", "Timothy"]
        assert person.post(f"/reviews/{review}/undo", {}, AGENT).status_code == 200
        assert list(Fact.objects.active().values_list("subject", "content")) == [("Timothy", words)]

    def test_retired_fact_may_be_learned_again_by_a_person(self, wrong, said):
        assert said(ROME)["action"] == "stored"
        assert active() == [ROME]

    def test_retired_fact_supersedes_nothing(self, agent, learn, wrong):
        other = learn(OSLO)["fact"]["id"]
        refused = agent.post(f"/facts/{other}/supersede", {"by": {"content": ROME}})
        assert_problem(refused, 409, "conflict", detail="wrong")
        assert active() == [OSLO]

    def test_retired_fact_learned_without_an_embedder_is_removed_when_recognised(self, learn, wrong, monkeypatch):
        with monkeypatch.context() as patched:
            patched.setattr("memory.embedding.local.MODEL_SHA256", "0" * 64)
            patched.setattr("memory.embedding.registry._made", {})
            known = learn("Tim resides in Rome.", source="log 2")["action"]
        for run in Job.objects.filter(handler="fact_check"):
            job_run(run.pk)
        assert known in ("stored", "queued")
        assert active() == []

    def test_retired_fact_of_another_persona_is_ignored(self, api, wrong, subconscious_token):
        answer = api.as_token(subconscious_token).post("/facts", {"content": ROME, "subject": "Tim"})
        assert answer.json()["action"] == "stored"


class TestQuestions:
    def test_review_limit_per_fact_of_people(self, agent, learn, said, person):
        said(ROME)
        asked = [learn(f"Tim lives in {town}.")["review"] for town in ("Oslo", "Lima", "Bern")]
        refused = agent.post("/facts", {"content": "Tim lives in Riga.", "subject": "Tim"})
        assert_problem(refused, 429, "too_many_requests", detail="this is the limit")
        assert int(refused.headers["Retry-After"]) > 0
        assert not Fact.objects.filter(content="Tim lives in Riga.").exists(), "what is refused leaves nothing"
        assert MemoryReview.objects.filter(old__content=ROME).count() == len(asked)
        assert learn("Ann owns a boat.", subject="Ann")["action"] == "stored"
        assert said("Tim lives in Riga.")["action"] != "refused", "people learn as before"

    def test_review_limit_of_waiting_per_token(self, monkeypatch, agent, learn):
        monkeypatch.setattr("memory.services.reviews.open_review.MAX_PENDING_REVIEWS_PER_TOKEN", 2)
        self._refused_after_two(agent, learn)

    def test_review_limit_per_day_and_token(self, monkeypatch, agent, learn, person):
        monkeypatch.setattr("memory.services.reviews.open_review.MAX_REVIEWS_PER_TOKEN_AND_WINDOW", 2)
        self._refused_after_two(agent, learn)
        for review in MemoryReview.objects.pending():
            resolve(person, review.pk, "both")
        refused = agent.post("/facts", {"content": "Ann's understudy is Uli.", "subject": "Ann"})
        assert_problem(refused, 429, "too_many_requests", detail="24 hours")
        MemoryReview.objects.update(created_at=clock.now() - timedelta(hours=25))
        assert learn("Ann's understudy is Uli.", subject="Ann")["action"] == "queued"

    def test_review_limit_ignores_other_tokens(self, monkeypatch, ada, agent, learn, bob):
        monkeypatch.setattr("memory.services.reviews.open_review.MAX_PENDING_REVIEWS_PER_TOKEN", 2)
        old = Fact.objects.get(pk=learn("Ann's understudy is Ivo.", subject="Ann")["fact"]["id"])
        for place in range(3):
            review_open(
                agent=ada, persona="actor", kind="low_confidence", about=f"{place}", by=Principal.of_user(bob), new=old
            )
        assert learn("Ann's understudy is Uli.", subject="Ann")["action"] == "queued"

    @staticmethod
    def _refused_after_two(agent, learn):
        learn("Ann's understudy is Ivo.", subject="Ann")
        for name, attribute in (("Tim", "spotter"), ("Eva", "pacemaker")):
            learn(f"{name}'s {attribute} is Ivo.", subject=name)
            assert learn(f"{name}'s {attribute} is Uli.", subject=name)["action"] == "queued"
        refused = agent.post("/facts", {"content": "Ann's understudy is Uli.", "subject": "Ann"})
        assert_problem(refused, 429, "too_many_requests", detail="reviews")
        assert (MemoryReview.objects.pending().count(), Fact.objects.count()) == (2, 5)


class TestHidden:
    def test_invisible_text_is_refused_for_everybody(self, learn, said):
        for write in (learn, said):
            told = write("Ti\u200bm rents a cafe\u0301.", subject="T\u2063im", tags=["ho\u200bme", "home"])["fact"]
            assert (told["content"], told["subject"], told["tags"]) == ("Tim rents a caf\u00e9.", "Tim", ["home"])

    def test_invisible_text_keeps_what_scripts_and_pictures_need(self, learn):
        words = "Tim says \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f469\u200d\U0001f52c."
        assert learn(words)["fact"]["content"] == words

    @pytest.mark.parametrize("stored_before", [False, True])
    def test_invisible_text_does_not_prevent_the_erasure_of_its_subject(self, ada, learn, charlie, stored_before):
        fact = learn("She owes the bank.", subject="Ja\u200bne")["fact"]["id"]
        if stored_before:
            Fact.objects.filter(pk=fact).update(subject="Ja\u200bne")
        subject_erase(agent=ada, subject="jane", by=Principal.of_user(charlie), reason="She asked.")
        assert not Fact.objects.exists()


class TestPrompt:
    @pytest.fixture(autouse=True)
    def _preferences_are_told(self, ada):
        # The profile of knights leaves preferences out.
        ada.kind = "squire"
        ada.save(update_fields=["kind"])

    def test_core_memory_of_people_is_kept_beside_two_hundred_preferences(self, ada, agent, person):
        mine = [f"People's word number {place}." for place in range(10)]
        for place, content in enumerate(mine):
            body = {"content": content, "category": ("rule", "preference")[place % 2], "confidence": 0.5}
            assert person.post("/facts", body, AGENT).status_code == 201
        flood = [
            Fact(agent=ada, content=f"The agent prefers {place} of them.", category="preference", importance=1.0)
            for place in range(199)
        ]
        Fact.objects.bulk_create(flood)
        body = {"content": "The agent prefers it so.", "category": "preference", "confidence": 1.0, "importance": 1.0}
        assert agent.post("/facts", body).status_code == 201
        answer = agent.post("/context", {"session_id": "s-1", "input": "hello"}).json()
        assert [content for content in mine if content not in answer["system_prompt"]] == []
        assert "The agent prefers" in answer["system_prompt"], "what is left is the agent's"

    def test_core_memory_rules_of_people_have_their_room_first(self, agent, person):
        for place in range(15):
            body = {
                "content": f"A long preference about the colour of the tea in cup {place}.",
                "category": "preference",
            }
            assert person.post("/facts", body, AGENT).status_code == 201
        body = {"content": "A rule of the house.", "category": "rule", "confidence": 0.1}
        assert person.post("/facts", body, AGENT).status_code == 201
        ask = {"session_id": "s-1", "input": "hello"}
        prompt = agent.post("/context", ask | {"budget": 250}).json()["system_prompt"]
        assert "A rule of the house." in prompt
        assert 0 < prompt.count("A long preference") < 15
        prompt = agent.post("/context", ask).json()["system_prompt"]
        assert prompt.count("A long preference") == 15, "the budget is no knife while the total has room"


@pytest.mark.django_db(transaction=True)
def test_retired_fact_learned_at_once_gives_one_review(ada, actor, bob):
    fact = fact_learn(agent=ada, content=ROME, by=actor).fact
    fact_invalidate(fact=fact, by=Principal.of_user(bob))
    ready = threading.Barrier(4)

    def again(place):
        try:
            ready.wait(30)
            return fact_learn(agent=ada, content=ROME, source=f"log {place}", by=actor)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(again, range(4)))
    assert {result.action for result in results} == {"queued"}
    assert len({result.review for result in results}) == 1
    assert MemoryReview.objects.count() == 1
    assert active() == []


LOOKALIKE_BANK = "The b\u0430nk opens at 10."


@pytest.mark.parametrize("subject", ["bank", "b\u0430nk", ""])
def test_letters_of_another_script_hide_no_contradiction(learn, said, subject):
    """A Cyrillic letter in the name made it another thing, of which nobody was asked."""
    said("The bank opens at 9.", subject="bank")
    learned = learn(LOOKALIKE_BANK, subject=subject)
    assert learned["action"] == "queued"
    assert MemoryReview.objects.pending().count() == 1


def test_letters_of_another_script_bring_back_nothing_that_was_found_wrong(learn, said, person):
    wrong = said("The bank opens at 10.", subject="bank")["fact"]["id"]
    assert person.post(f"/facts/{wrong}/invalidate", {}, AGENT).status_code == 200
    learned = learn(LOOKALIKE_BANK, subject="b\u0430nk", source="elsewhere")
    assert (learned["action"], learned["fact"]["id"]) == ("queued", wrong)
    assert active() == []

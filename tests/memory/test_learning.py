"""Learning a fact over HTTP: stored, confirmed, in the place of an old one, or with a question to people."""

from collections.abc import Iterator

import pytest

from memory.lifecycle.runner import job_run
from memory.models import Fact, FactChange, Job, JudgeCall, MemoryReview
from memory.services.facts.comparable_facts import candidates_compare
from memory.services.facts.reconcile import vector_of
from nousweb.lib import clock
from tests.judge_server import JudgeServer


@pytest.fixture
def learn(api, actor_token):
    client = api.as_token(actor_token)

    def learn(content, **fields):
        answer = client.post("/facts", {"content": content, **fields})
        assert answer.status_code == 201, answer.content
        return answer.json()

    return learn


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[JudgeServer]:
    with JudgeServer(getattr(request, "param", "anthropic")) as server, server.configured():
        yield server


BOTH_PROTOCOLS = pytest.mark.parametrize("server", ["anthropic", "openai"], indirect=True)
"""For one test of each way to ask; what follows from an answer has no protocol (`test_judge.py` has each form)."""


BERLIN, PARIS = "Alice lives in Berlin.", "Alice lives in Paris."


def test_learning_stores_a_first_fact_with_its_vector(learn):
    told = learn(BERLIN, subject="Alice")
    assert (told["action"], told["review"], told["superseded"]) == ("stored", None, [])
    assert not Job.objects.exists()


@pytest.mark.parametrize("again", [BERLIN, "  Alice   lives in Berlin", "Alice lives in Berlin!"])
def test_learning_the_same_again_confirms_it(learn, again):
    first = learn(BERLIN, subject="Alice")
    told = learn(again, subject="alice")
    assert (told["action"], told["fact"]["id"]) == ("confirmed", first["fact"]["id"])
    assert told["fact"]["confirmation_count"] == 1
    assert Fact.objects.count() == 1


@pytest.mark.parametrize(
    ("first", "corrected"),
    [
        ("The hall holds 5² people.", "The hall holds 52 people."),
        ("Call it so:\nif late:\n    ask()\n    wait()", "Call it so:\nif late:\n    ask()\nwait()"),
    ],
)
def test_learning_a_corrected_fact_keeps_the_correction(learn, first, corrected):
    learn(first, subject="hall")
    told = learn(corrected, subject="hall")
    assert told["action"] != "confirmed"
    assert told["fact"]["content"] == corrected


def test_learning_the_same_words_about_another_subject_is_a_question(learn):
    known = learn("Prefers tea.", subject="Alice")
    told = learn("Prefers tea.", subject="Bob")
    assert (told["action"], told["fact"]["id"]) == ("queued", known["fact"]["id"])
    assert Fact.objects.count() == 1


def test_learning_a_certain_change_supersedes(learn):
    old = learn(BERLIN, subject="Alice")
    told = learn(PARIS, subject="Alice")
    assert (told["action"], told["superseded"]) == ("superseded", [old["fact"]["id"]])
    before = Fact.objects.get(pk=old["fact"]["id"])
    assert (before.active, str(before.superseded_by_id)) == (False, told["fact"]["id"])
    assert before.valid_until is not None
    change = FactChange.objects.get(fact=before, action="superseded")
    assert change.evidence["kind"] == "changed"
    assert change.author_kind == "token"


def test_learning_a_possible_contradiction_opens_a_review(learn):
    old = learn("The nightly job's twin is the archive of Graz.", subject="nightly job")
    told = learn("The nightly job's twin is the archive of Linz.", subject="nightly job")
    assert told["action"] == "queued"
    assert MemoryReview.objects.get(pk=told["review"]).kind == "attribute"
    review = MemoryReview.objects.get(status="joined")
    assert (str(review.old_id), str(review.new_id)) == (old["fact"]["id"], told["fact"]["id"])
    assert review.reasons
    assert Fact.objects.active().count() == 2


def test_learning_three_facts_about_a_person_asks_nobody(learn, api, actor_token):
    # Seed 008, "Expected Context Assembly".
    lines = [
        "Tim lives in Silver Spring, Maryland, USA",
        "Tim prefers Celsius for temperature measurements.",
        "Tim's local time zone is EST",
    ]
    actions = [learn(line, subject="Tim")["action"] for line in lines]
    assert actions == ["stored"] * 3
    assert not MemoryReview.objects.exists()
    context = api.as_token(actor_token).post("/context", {"session_id": "s", "input": "Where does Tim live?"}).json()
    assert lines[0] in context["system_prompt"]
    assert "contested" not in context["system_prompt"]


def test_learning_different_subjects_opens_no_review(learn):
    learn("The rent is 900 euros.", subject="Flat in Graz")
    told = learn("The rent is 950 euros.", subject="Office in Linz")
    assert told["action"] == "stored"
    assert not MemoryReview.objects.exists()


def test_learning_other_valid_times_does_not_compete(learn):
    learn(BERLIN, subject="Alice", valid_from="2010-01-01T00:00:00Z", valid_until="2012-01-01T00:00:00Z")
    told = learn(PARIS, subject="Alice", valid_from="2015-01-01T00:00:00Z")
    assert told["action"] == "stored"


ALIKE = ("Tim commutes to work in a small red car.", "Tim drives to work in a little red car.")


@BOTH_PROTOCOLS
def test_learning_a_paraphrase_is_confirmed_by_the_judge(learn, server):
    learn(ALIKE[0], subject="Tim")
    server.reply(relation="duplicate", confidence=0.95, reason="Both say that they play.")
    told = learn(ALIKE[1], subject="Tim")
    assert (told["action"], len(server.requests)) == ("confirmed", 1)
    assert Fact.objects.count() == 1
    assert FactChange.objects.get(action="confirmed").evidence["judge"]["relation"] == "duplicate"


@pytest.mark.parametrize(
    ("relation", "confidence", "action", "waits"),
    [
        ("update", 0.9, "superseded", False),
        # A doubt contests nothing.
        ("update", 0.4, "stored", False),
        ("contradiction", 0.9, "queued", True),
        ("refinement", 0.9, "stored", False),
        ("unrelated", 0.9, "stored", False),
        # Numbers differ: no judge may call that the same.
        ("duplicate", 0.99, "queued", True),
    ],
)
def test_learning_verdict_decides_only_where_it_may(learn, server, relation, confidence, action, waits):
    learn("Tim never goes to the gym on Mondays with Ann.", subject="Tim")
    server.reply(relation=relation, confidence=confidence, reason="So it is.")
    told = learn("Tim sometimes goes to the gym on Mondays with Ann.", subject="Tim")
    assert len(server.requests) == 1
    assert told["action"] == action
    assert (told["review"] is not None) is waits
    if waits:
        assert MemoryReview.objects.get().verdict["relation"] == relation


def test_learning_with_a_failing_judge_loses_nothing_and_retries(learn, server):
    learn("Tim never goes to the gym on Mondays with Ann.", subject="Tim")
    server.fail(529)
    told = learn("Tim sometimes goes to the gym on Mondays with Ann.", subject="Tim")
    assert told["action"] == "stored"
    run = Job.objects.get(handler="fact_check")
    server.reply(relation="update", confidence=0.9, reason="He took it up.")
    assert job_run(run.pk) == "done"
    assert [fact.content for fact in Fact.objects.active()] == ["Tim sometimes goes to the gym on Mondays with Ann."]
    change = FactChange.objects.get(action="superseded")
    assert change.evidence["judge"]["relation"] == "update"
    # The failed one, the verdict, and its confirmation.
    assert JudgeCall.objects.count() == 3
    run.refresh_from_db()
    assert run.tokens == 240


@pytest.mark.parametrize(
    ("first", "second"), [("update", "unrelated"), ("contradiction", "refinement"), ("duplicate", "update")]
)
def test_learning_ends_no_fact_by_a_verdict_that_the_judge_does_not_repeat(learn, server, first, second):
    """Only the judge sees a relation here: one wrong verdict in twenty would end a fact in ten."""
    server.confirms = False
    learn("Tim never goes to the gym on Mondays with Ann.", subject="Tim")
    server.reply(relation=first, confidence=0.9, reason="So it is.")
    server.reply(relation=second, confidence=0.9, reason="So it is not.")
    told = learn("Tim sometimes goes to the gym on Mondays with Ann.", subject="Tim")
    assert (told["action"], told["review"]) == ("stored", None)
    assert [prompt.index("never") < prompt.index("sometimes") for prompt in server.prompts] == [True, False]


def test_learning_asks_later_about_a_verdict_that_could_not_be_confirmed(learn, server):
    server.confirms = False
    learn("Tim never goes to the gym on Mondays with Ann.", subject="Tim")
    server.reply(relation="update", confidence=0.9, reason="So it is.")
    server.fail(529)
    assert learn("Tim sometimes goes to the gym on Mondays with Ann.", subject="Tim")["action"] == "stored"
    for _ in range(2):
        server.reply(relation="update", confidence=0.9, reason="So it is.")
    assert job_run(Job.objects.get(handler="fact_check").pk) == "done"
    assert Fact.objects.active().count() == 1


@pytest.fixture
def no_embedder(monkeypatch):
    """The model's file is not the one that it should be, so nothing can be embedded."""
    with monkeypatch.context() as patched:
        patched.setattr("memory.embedding.local.MODEL_SHA256", "0" * 64)
        patched.setattr("memory.embedding.registry._made", {})
        yield patched


def test_learning_without_an_embedder_compares_later(learn, no_embedder):
    old = learn("Postgres holds the billing data.", subject="billing")
    told = learn("The invoices and payments live in the relational store.", subject="billing")
    assert told["action"] == "stored"
    runs = Job.objects.filter(handler="fact_check")
    assert [job_run(run.pk) for run in runs] == ["failed", "failed"]
    assert {run.attempts for run in runs.all()} == {0}
    no_embedder.undo()
    assert [job_run(run.pk) for run in runs.all()] == ["done", "done"]
    assert Fact.objects.active().filter(pk=old["fact"]["id"]).exists()


def test_learning_exact_words_is_confirmed_without_an_embedder(learn, no_embedder):
    learn(BERLIN)
    assert learn(BERLIN)["action"] == "confirmed"
    assert Fact.objects.count() == 1
    assert Job.objects.filter(handler="fact_check").count() == 1


def test_learning_asks_about_a_pair_once(learn):
    learn("The nightly job's twin is the archive of Graz.", subject="nightly job")
    told = learn("The nightly job's twin is the archive of Linz.", subject="nightly job")
    again = learn("The nightly job's twin is the archive of Linz.", subject="nightly job")
    assert again["action"] == "confirmed"
    assert set(MemoryReview.objects.values_list("kind", "status")) == {
        ("attribute", "pending"),
        ("contradiction", "joined"),
    }
    assert told["review"] is not None


def test_learning_never_compares_personas(learn, api, subconscious_token):
    learn(BERLIN, subject="Alice")
    answer = api.as_token(subconscious_token).post("/facts", {"content": BERLIN, "subject": "Alice"})
    assert answer.json()["action"] == "stored"


def test_learning_what_resembles_nothing_asks_no_judge(learn, server):
    learn(BERLIN, subject="Alice")
    told = learn("The nightly build signs every package with the release key.", subject="build")
    assert (told["action"], server.requests) == ("stored", [])


def test_learning_without_a_subject_supersedes_nothing(learn):
    learn(BERLIN, subject="Alice")
    told = learn("She lives in Paris.")
    assert told["superseded"] == []
    assert Fact.objects.active().count() == 2


def test_learning_compatible_facts_keeps_both(learn):
    learn(BERLIN, subject="Alice")
    told = learn("Alice plays the violin in the city orchestra.", subject="Alice")
    assert (told["action"], told["review"]) == ("stored", None)
    assert Fact.objects.active().count() == 2


def test_learning_does_not_compare_a_judged_pair_again(learn, ada):
    learn(BERLIN, subject="Alice")
    fact = Fact(agent=ada, persona="actor", content=PARIS, subject="Alice")
    vector, comparisons = vector_of(PARIS), {}
    [first] = candidates_compare(fact, vector=vector, comparisons=comparisons)
    fact.recorded_at = clock.now()
    [again] = candidates_compare(fact, vector=vector, comparisons=comparisons)
    assert again.comparison is first.comparison
    learn("Alice lives in Rome.", subject="Alice")
    assert len(candidates_compare(fact, vector=vector, comparisons=comparisons)) == 1
    assert len(comparisons) == 2, "what was learned in the meantime is compared"


def test_learning_a_chain_keeps_valid_and_recorded_time(learn):
    for city in ("Berlin", "Paris", "Rome"):
        learn(f"Alice lives in {city}.", subject="Alice")
    facts = list(Fact.objects.order_by("recorded_at"))
    assert [fact.active for fact in facts] == [False, False, True]
    assert Fact.objects.as_of(facts[1].recorded_at).get() == facts[1]


def test_learning_asks_people_about_an_update_that_nothing_in_the_words_bears_out(learn, server):
    learn("Tim never smokes after lunch.", subject="Tim")
    server.reply(relation="update", confidence=0.9, reason="So it is.")
    assert learn("Tim met Ann in a museum of clocks.", subject="Tim")["action"] == "queued"

"""Blind samples: what was decided automatically is answered by reviewers who do not see it, and measured."""

import re
from itertools import count
from uuid import UUID, uuid4

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from identity.models import Agent, AuditEvent, Notification
from memory.lifecycle.runner import job_run, judgements_retry
from memory.models import Fact, FactChange, Job, MemoryReview
from memory.policy import oversight
from memory.policy.oversight import Autonomy, is_blind_sample, wilson_interval
from memory.services.facts import fact_learn
from memory.services.reviews.blind_samples import undecided_sample
from memory.services.reviews.states import review_ask, reviews_expire
from memory.services.reviews.undo import supersession_undo
from memory.tasks import expire_reviews
from nousweb.lib.errors import Conflict
from tests.factories import make_copies, make_principal
from tests.http import browser, markup
from tests.judge_server import JudgeServer
from tests.memory.test_attention_budget import budget, differ  # noqa: F401
from tests.memory.test_learning import learn  # noqa: F401

AGENT = {"agent": "ada"}
TEA = "Tim likes to drink green tea in the mornings."
GRAZ, LINZ, WIEN = ("Tim lives in Graz.", "Tim lives in Linz.", "Tim lives in Wien.")


@pytest.fixture
def all_sampled(monkeypatch):
    monkeypatch.setattr(oversight, "BLIND_SHARE", 1.0)


@pytest.fixture
def replaced(all_sampled, learn):  # noqa: F811
    """The blind review of a fact that was replaced."""
    learn(GRAZ, subject="Tim")
    assert learn(LINZ, subject="Tim")["action"] == "superseded"
    return MemoryReview.objects.get()


@pytest.fixture
def answer(api, bob):
    def answer(review, resolution):
        url = f"/reviews/{review.pk}/resolve"
        told = api.as_person(bob).post(url, {"resolution": resolution}, AGENT)
        assert told.status_code == 200, told.content
        review.refresh_from_db()

    return answer


def active():
    return sorted(Fact.objects.active().values_list("content", flat=True))


def test_sample_is_chosen_by_the_id_of_the_fact(monkeypatch):
    monkeypatch.setattr(oversight, "BLIND_SHARE", 0.05)
    keys = [UUID(int=number) for number in range(10_000)]
    chosen = [key for key in keys if is_blind_sample(key)]
    assert 400 < len(chosen) < 600
    assert chosen == [key for key in keys if is_blind_sample(key)]
    monkeypatch.setattr(oversight, "BLIND_SHARE", 0.0)
    assert not is_blind_sample(uuid4())


def test_sample_is_taken_of_the_chosen_share_alone(monkeypatch, learn):  # noqa: F811
    monkeypatch.setattr(oversight, "BLIND_SHARE", 0.0)
    learn(GRAZ, subject="Tim")
    learn(LINZ, subject="Tim")
    assert not MemoryReview.objects.exists()


def test_sample_looks_undecided_to_reviewers_and_changes_nothing(api, bob, actor_token, replaced):
    assert (replaced.status, replaced.kind, replaced.details["blind"]["decision"]) == (
        "pending",
        "contradiction",
        "superseded",
    )
    assert active() == [LINZ]
    shown = api.as_person(bob).get(f"/reviews/{replaced.pk}", AGENT).json()
    assert (shown["old"]["active"], shown["new"]["active"], shown["old"]["valid_until"]) == (True, True, None)
    page = markup(browser(bob).get(replaced.get_absolute_url()))
    for hint in ("superseded", "replaced by", "retired", "blind", "until 20", replaced.new.get_absolute_url()):
        assert hint not in page.lower().replace("new replaces old", "")
    of_fact = markup(browser(bob).get(replaced.new.get_absolute_url()))
    listed = markup(browser(bob).get(reverse("agent_facts", args=["ada"])))
    subject = browser(bob).get(reverse("agent_subject", args=["ada", "Tim"])).context["contradiction"]
    (thing,) = browser(bob).get(reverse("agent_subjects", args=["ada"])).context["rows"]
    health = browser(bob).get(reverse("agent_health", args=["ada"])).context["problems"]
    assert replaced.get_absolute_url() not in of_fact
    assert "contradicted" not in (of_fact + listed).lower()
    assert (subject, thing.is_contradicted) == (None, False)
    assert [one for one in health if one["finding"].key == "contested"] == []
    token = api.as_token(actor_token)
    assert token.get("/reviews", {"status": "all"}).json()["items"] == []
    assert token.get(f"/reviews/{replaced.pk}").status_code == 404
    assert token.get("/lifecycle").json()["waiting"] == 0
    prompt = token.post("/context", {"session_id": "s", "input": "Where does Tim live?"}).json()["system_prompt"]
    assert LINZ in prompt
    assert GRAZ not in prompt
    assert "contested" not in prompt


def test_sample_does_not_keep_the_agent_from_learning(learn, replaced):  # noqa: F811
    assert learn(WIEN, subject="Tim")["action"] == "superseded"
    assert active() == [WIEN]
    replaced.refresh_from_db()
    assert replaced.resolution == "moot", "the sampled decision does not stand any more"


def test_agreement_keeps_the_decision(replaced, answer):
    changes = FactChange.objects.count()
    answer(replaced, "replace")
    assert active() == [LINZ]
    assert replaced.details["blind"]["agrees"] is True
    assert FactChange.objects.count() == changes


@pytest.mark.parametrize(("resolution", "left"), [("both", [GRAZ, LINZ]), ("new_wrong", [GRAZ]), ("same", [GRAZ])])
def test_disagreement_undoes_the_decision(replaced, answer, resolution, left):
    answer(replaced, resolution)
    assert active() == left
    assert replaced.details["blind"]["agrees"] is False
    old = Fact.objects.get(content=GRAZ)
    assert (old.superseded_by, old.valid_until) == (None, None)


def test_answer_is_undone(replaced, answer, api, bob):
    answer(replaced, "replace")
    person = api.as_person(bob)
    assert person.post(f"/reviews/{replaced.pk}/undo", {}, AGENT).status_code == 200
    replaced.refresh_from_db()
    assert (replaced.status, active()) == ("pending", [LINZ])
    answer(replaced, "new_wrong")
    assert person.post(f"/reviews/{replaced.pk}/undo", {}, AGENT).status_code == 200
    replaced.refresh_from_db()
    assert (replaced.status, active(), "blind" in replaced.details) == ("pending", [GRAZ, LINZ], False)


def test_sample_of_other_words_is_confirmed_and_answered(all_sampled, learn, answer):  # noqa: F811
    known = learn(LINZ, subject="Tim")["fact"]
    told = learn("Tim's home is Linz.", subject="Tim")
    assert (told["action"], told["fact"]["id"], told["fact"]["confirmation_count"]) == ("confirmed", known["id"], 1)
    review = MemoryReview.objects.get()
    assert (review.kind, review.details["blind"]["decision"], active()) == ("duplicate", "confirmed", [LINZ])
    answer(review, "both")
    assert active() == sorted([LINZ, "Tim's home is Linz."])
    assert Fact.objects.get(pk=known["id"]).confirmation_count == 0


def test_sample_of_a_judges_verdict_hides_it(monkeypatch, learn, answer, bob):  # noqa: F811
    for content in ("Tim enjoys drinking green tea in the morning.", TEA):
        learn(content, subject="Tim")
    review = MemoryReview.objects.get()
    monkeypatch.setattr(oversight, "BLIND_SHARE", 1.0)
    with JudgeServer() as server, server.configured():
        server.reply(relation="duplicate", confidence=0.95, reason="The same cup of it.")
        assert judgements_retry() == 1
        assert job_run(Job.objects.get(handler="fact_judge").pk) == "done"
        assert judgements_retry() == 0
    review.refresh_from_db()
    assert (review.status, review.details["blind"]["writer"], len(active())) == ("pending", "judge", 1)
    page = markup(browser(bob).get(review.get_absolute_url()))
    assert "The same cup of it" not in page
    assert "The judge says" not in page
    answer(review, "both")
    assert (review.details["blind"]["agrees"], len(active())) == (False, 2)


def test_same_words_are_no_sample(all_sampled, learn):  # noqa: F811
    learn(LINZ, subject="Tim")
    learn(LINZ, subject="Tim")
    assert (Fact.objects.count(), MemoryReview.objects.count()) == (1, 0)


def test_samples_count_in_the_budget(all_sampled, learn, differ):  # noqa: F811
    budget(per_hundred_facts=1)
    for name in ("Tim", "Ann"):
        learn(f"{name} lives in Graz.", subject=name)
        learn(f"{name} lives in Linz.", subject=name)
    assert MemoryReview.objects.count() == 1
    assert differ(0)["action"] == "stored"


def test_sample_of_undecided_facts_comes_with_the_budget(all_sampled, differ, answer, api, actor_token):  # noqa: F811
    budget(per_day=0)
    differ(0)
    assert undecided_sample() == 0
    budget(per_day=10)
    assert undecided_sample() == 1
    question = MemoryReview.objects.get(kind="attribute")
    assert question.status == "pending"
    assert question.details["blind"]["writer"] == "ada · actor"
    ask = {"session_id": "s", "input": "Who is the twin of Tim?"}
    prompt = api.as_token(actor_token).post("/context", ask).json()["system_prompt"]
    assert "older, undecided" in prompt
    assert "contested" not in prompt
    answer(question, "replace")
    assert len(active()) == 1
    assert question.details["blind"]["agrees"] is False


def test_later_value_of_a_sampled_attribute_stays_undecided(all_sampled, differ, learn):  # noqa: F811
    budget(per_day=0)
    differ(0)
    budget(per_day=10)
    undecided_sample()
    told = learn("Tim has a twin called Cem.", subject="Tim", attribute="twin", value="Cem")
    assert (told["action"], told["review"]) == ("stored", None)
    pairs = MemoryReview.objects.filter(kind="contradiction")
    assert set(pairs.values_list("status", flat=True)) == {"undecided"}


def test_sample_of_undecided_facts_is_taken_by_the_schedule(all_sampled, learn, answer):  # noqa: F811
    budget(per_day=0)
    for content in ("Tim enjoys drinking green tea in the morning.", TEA):
        learn(content, subject="Tim")
    budget(per_day=1)
    assert expire_reviews() == 0
    review = MemoryReview.objects.pending().get()
    answer(review, "both")
    assert review.details["blind"]["agrees"] is True
    assert Fact.objects.active().count() == 2


def test_sample_ends_with_the_decision(replaced, reviewer, system):
    with pytest.raises(Conflict):
        review_ask(review=replaced, by=reviewer)
    assert reviews_expire(by=system) == 0
    supersession_undo(fact=Fact.objects.get(content=GRAZ), by=reviewer)
    replaced.refresh_from_db()
    assert replaced.resolution == "moot"
    assert active() == [GRAZ, LINZ]


class TestMeasure:
    @pytest.fixture
    def measured(self, all_sampled, learn, answer):  # noqa: F811
        """Answers so many blind samples, of which some disagree; many are copies of the first two answers."""
        guests = count()

        def one(resolution):
            number = next(guests)
            for town in ("Graz", "Linz"):
                learn(f"Guest {number} lives in {town}.", subject=f"guest {number}")
            review = MemoryReview.objects.pending().get()
            answer(review, resolution)
            return review

        def measured(answers, errors):
            Agent.objects.filter(slug="ada").update(config={"attention": {"unlimited": True}})
            wrong = one("both")
            make_copies(wrong, errors - 1, about="'wrong ' || n")
            if answers > errors:
                right = one("replace")
                make_copies(right, answers - errors - 2, about="'right ' || n")
                one("replace")

        return measured

    def test_kind_that_errs_goes_back_to_asking(self, measured, learn, api, bob, charlie):  # noqa: F811
        measured(19, 6)
        assert Autonomy.of_config(Agent.objects.get(slug="ada").config).asking == ()
        measured_before = AuditEvent.objects.count()
        for town in ("Graz", "Linz"):
            learn(f"Bea lives in {town}.", subject="Bea")
        api.as_person(bob).post(
            f"/reviews/{MemoryReview.objects.pending().get().pk}/resolve", {"resolution": "replace"}, AGENT
        )
        assert Autonomy.of_config(Agent.objects.get(slug="ada").config).asking == ("superseded",)
        record = AuditEvent.objects.get(action="agent.configure", author_kind="system")
        assert "6 of 20" in record.message
        assert AuditEvent.objects.count() > measured_before
        assert set(Notification.objects.filter(kind="erred").values_list("person__username", flat=True)) >= {"bob"}
        page = markup(browser(bob).get("/review/automatic/"))
        assert "People decide about newer facts of Ada again" in page
        assert "14.5–51.9 %" in page
        told = [learn(f"Eva lives in {town}.", subject="Eva") for town in ("Graz", "Linz")]
        assert told[1]["action"] == "queued", "people are asked again"
        assert len(MemoryReview.objects.pending()) == 1
        # People allow it again: it is measured from then on.
        put = api.as_person(charlie).put("/settings", {"autonomy": {"max_error": 0.05}}, AGENT)
        assert put.json()["autonomy"] == {"max_error": 0.05, "asking": []}
        measured(1, 1) if not MemoryReview.objects.pending().exists() else None
        assert Autonomy.of_config(Agent.objects.get(slug="ada").config).asking == ()

    def test_kind_within_the_limit_stays_automatic(self, measured, bob):
        measured(20, 1)
        assert Autonomy.of_config(Agent.objects.get(slug="ada").config).asking == ()
        assert "0.9–23.6 %" in markup(browser(bob).get("/review/automatic/"))

    def test_person_decides_which_kinds_are_asked(self, learn, api, charlie, bob):  # noqa: F811
        body = {"autonomy": {"asking": ["confirmed", "superseded"]}}
        assert api.as_person(charlie).put("/settings", body, AGENT).status_code == 200
        learn(LINZ, subject="Tim")
        assert learn("Tim's home is Linz.", subject="Tim")["action"] == "queued"
        assert MemoryReview.objects.get().kind == "duplicate"
        assert learn(LINZ, subject="Tim")["action"] == "confirmed", "the same words need nobody"
        said = api.as_person(bob).post("/facts", {"content": WIEN, "subject": "Tim"}, AGENT).json()
        assert said["action"] == "superseded", "people decide by themselves"

    def test_undecided_facts_are_asked_over_the_budget_where_people_want_it(self, differ):  # noqa: F811
        Agent.objects.filter(slug="ada").update(
            config={"attention": {"per_day": 0}, "autonomy": {"asking": ["undecided"]}}
        )
        assert differ(0)["action"] == "queued"

    def test_settings_page_allows_a_kind_again(self, ada, charlie):
        Agent.objects.filter(pk=ada.pk).update(config={"autonomy": {"asking": ["superseded"]}})
        url, admin = reverse("agent_context_settings", args=["ada"]), browser(charlie)
        page = markup(admin.get(url))
        assert 'value="superseded" id="id_autonomy_asking_0" checked' in page
        form = {"base_version": "0", "contested_order": "newest_first"}
        assert admin.post(url, form | {"autonomy_asking": ["confirmed"]}).status_code == 302
        ada.refresh_from_db()
        found = Autonomy.of_config(ada.config)
        assert (found.asking, list(found.measured_since)) == (("confirmed",), ["superseded"])


@given(st.integers(0, 500), st.integers(1, 500))
def test_wilson_bounds_enclose_the_rate_and_shrink_with_answers(errors, answers):
    errors = min(errors, answers)
    lower, upper = wilson_interval(errors, answers)
    assert 0 <= lower <= errors / answers <= upper <= 1
    more = wilson_interval(errors * 4, answers * 4)
    assert more[1] - more[0] < upper - lower
    mirrored = wilson_interval(answers - errors, answers)
    assert mirrored == pytest.approx((1 - upper, 1 - lower))


@pytest.mark.parametrize(
    ("errors", "answers", "bounds"),
    [(0, 0, (0, 1)), (0, 20, (0, 0.1611)), (1, 20, (0.0089, 0.2361)), (6, 20, (0.1455, 0.5190)), (20, 20, (0.8389, 1))],
)
def test_wilson_bounds_of_known_cases(errors, answers, bounds):
    assert wilson_interval(errors, answers) == pytest.approx(bounds, abs=1e-4)


@pytest.mark.parametrize("given", [{"max_error": 2}, {"asking": "superseded"}, {"asking": ["x"]}, [], {"nonsense": 1}])
def test_malformed_autonomy_counts_as_the_default(given):
    assert Autonomy.of_config({"autonomy": given}) == Autonomy()
    assert Autonomy.of_config({"autonomy": Autonomy(0.1, ("superseded",)).as_json()}).asking == ("superseded",)


def page_of(user, review):
    """The page of a review without keys, moments and tokens of forms, so that two of them can be compared."""
    page = markup(browser(user).get(review.get_absolute_url()))
    page = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{32}\b|\b\w{64}\b", "", page)
    page = re.sub(r"\d{4}-\d\d-\d\d[T ][\d:.]+(?:\+00:00|Z| UTC)?|\d\d:\d\d", "", page)
    return page.replace("bruno", "ada").replace("Bruno", "Ada").replace(">B</span>", ">A</span>")


@pytest.mark.parametrize("newer", [LINZ, "Tim's home is Graz."])
def test_page_of_a_sample_is_that_of_a_pair_about_which_people_decide(all_sampled, ada, bruno, bob, newer):
    pages = []
    for agent, asking in ((ada, []), (bruno, ["superseded", "confirmed"])):
        Agent.objects.filter(pk=agent.pk).update(config={"autonomy": {"asking": asking}})
        agent.refresh_from_db()
        by = make_principal(agent)
        for content in (GRAZ, newer):
            fact_learn(agent=agent, content=content, subject="Tim", by=by)
        review = MemoryReview.objects.get(agent=agent)
        assert ("blind" in review.details) == (not asking)
        pages.append(page_of(bob, review))
        review.delete()
    assert pages[0] == pages[1]

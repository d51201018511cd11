"""The pages of expectations: red and green, the change that broke each, by hand and by one click."""

import re
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from context.expectations.services import (
    expectation_create,
    expectation_retire,
    expectation_update,
    expectations_verify,
    request_of,
)
from context.models import Expectation, MemoryUsage
from context.services.context import context_outcome, context_respond
from identity.principal import Principal
from memory.models import Fact
from memory.services.facts import fact_invalidate, fact_restore, fact_supersede
from memory.services.reviews.resolve import review_resolve
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.lib import clock
from tests.factories import make_fact, make_review, make_run
from tests.http import signed_in

QUESTION = "Which database does the billing service use?"
PAGE = "/agents/ada/context/expectations/"


@pytest.fixture
def billing(ada, reviewer) -> Fact:
    fact = make_fact(ada, "The billing service uses the database PostgreSQL.", reviewer, subject="billing")
    embed_pending_rows()
    return fact


@pytest.fixture
def console(bob) -> Client:
    client = signed_in(bob)
    client.handler.enforce_csrf_checks = False
    return client


def text_of(answer) -> str:
    return " ".join(answer.content.decode().split())


def test_expectations_page_shows_what_broke_each(ada, billing, console, reviewer):
    assert "No expectations yet" in text_of(console.get(PAGE))
    one = expectation_create(
        agent=ada,
        by=reviewer,
        request=request_of(QUESTION),
        requirement="present",
        target="memory",
        item_type="fact",
        item_id=str(billing.pk),
    )
    expectations_verify(agent=ada, by=reviewer)
    fact_invalidate(fact=billing, by=reviewer, reason="Wrong.")
    answer = console.post(f"{PAGE}check/", follow=True)
    assert "Checked 1: 0 passed, 1 failed." in text_of(answer)
    shown = text_of(answer)
    assert "It is invalidated." in shown
    link = f'<a href="/agents/ada/facts/{billing.pk}/">{billing.content}</a>'
    assert f"the last change before it: the fact {link} was marked as wrong" in shown, "in the summary"
    assert f"The fact {link} was marked as wrong" in shown, "and as the cause"
    assert "by bob" in shown
    assert str(one.pk) not in text_of(console.get(f"{PAGE}?state=passed"))
    home = text_of(console.get("/"))
    assert "expectation of Ada" in home
    detail = text_of(console.get(f"{PAGE}{one.pk}/"))
    assert "was marked as wrong" in detail
    retired = console.post(f"{PAGE}{one.pk}/?list=1", {"action": "retire"})
    assert retired.url == PAGE, "the menu of a row leads back to the list"
    assert "expectation of Ada" not in text_of(console.get("/"))
    assert str(one.pk) in text_of(console.get(f"{PAGE}?state=retired"))


STATES = ("passed", "failed")


def test_expectations_page_shows_the_last_checks_of_each(ada, billing, console, reviewer):
    one = expectation_create(
        agent=ada, by=reviewer, request=request_of(QUESTION), requirement="present", target="text", text="PostgreSQL"
    )
    assert "is-passed" not in text_of(console.get(PAGE))
    for _ in range(2):
        expectations_verify(agent=ada, by=reviewer)
    fact_invalidate(fact=billing, by=reviewer, reason="Wrong.")
    expectations_verify(agent=ada, by=reviewer)
    page = console.get(PAGE)
    shown = text_of(page)
    assert [shown.count(f'<i class="is-{state}" title=') for state in STATES] == [2, 1]
    assert shown.count('title="No check"') == 17
    assert ", after fact marked as wrong" in shown.partition('class="is-failed" title="Failed ')[2][:60]
    assert 'aria-label="Passed, 2 times to' in shown
    moment = urlencode({"as_of": one.results.latest("since").checked_at.isoformat()})
    [then] = re.findall(rf'<a href="([^"]*{re.escape(moment)}[^"]*)" aria-label="Failed', shown)
    assert "PostgreSQL" not in console.get(then.replace("&amp;", "&")).context["shown"].record.system_prompt
    assert "1 of 1 fails</h2>" in shown
    assert re.search(r">Since [^<]*</time></span> <span ?> ?The fact ", shown), "since when, and what broke it"
    assert '<a href="/agents/ada/search/?q=PostgreSQL">Look for it in memory</a>' in shown
    assert page.context["layouts"] == [], "all have failed, so there is no choice"
    billing.refresh_from_db()
    fact_restore(fact=billing, by=reviewer)
    expectations_verify(agent=ada, by=reviewer)
    shown = text_of(console.get(PAGE))
    link = f'<a href="/agents/ada/facts/{billing.pk}/">{billing.content}</a>'
    told = (
        f"Failed 1 of the last 4 checks, after the fact {link} was marked as wrong, until the fact {link} was restored"
    )
    assert told in shown, "what caused it, and what ended it"
    one.results.filter(pk=one.results.earliest("since").pk).update(since=clock.now() - timedelta(days=2))
    shown = text_of(console.get(PAGE))
    assert len(re.findall("<time", shown.partition('class="checks-days"')[2].partition("</td>")[0])) == 2
    expectation_update(expectation=one, by=reviewer, text="Another word")
    assert "is-passed" not in text_of(console.get(PAGE)), "they were of what it required before"


def test_many_expectations_are_searched(ada, console, reviewer):
    for number in range(11):
        given = {"requirement": "present", "target": "text", "text": f"Pier {number}."}
        expectation_create(agent=ada, by=reviewer, request=request_of(f"Question {number}?"), **given)
    page = console.get(PAGE, {"q": "pier 7"})
    assert [row["one"].input for row in page.context["rows"]] == ["Question 7?"]
    assert 'name="q" value="pier 7"' in text_of(page)


def test_expectation_by_hand_and_edited(ada, billing, console):
    given = {"input": QUESTION, "target": "text", "requirement": "present", "text": "PostgreSQL"}
    answer = console.post(PAGE, given, follow=True)
    assert "It will be checked after every change." in text_of(answer)
    one = Expectation.objects.get()
    assert one.results.get().state == "passed"
    refused = console.post(PAGE, {**given, "target": "memory", "item": "nonsense"})
    assert refused.status_code == 422
    # Words are no mistake: what they find is there to choose from.
    offered = console.post(PAGE, {**given, "target": "memory", "item": "billing service"})
    assert f'value="fact {billing.pk}"' in offered.content.decode()
    assert Expectation.objects.count() == 1
    address = f"https://nous.example.org/agents/ada/facts/{billing.pk}/"
    console.post(PAGE, {**given, "target": "memory", "item": address, "text": ""})
    assert Expectation.objects.filter(item_type="fact", item_id=str(billing.pk)).count() == 1
    console.post(f"{PAGE}{one.pk}/", {**given, "text": "MariaDB", "action": "edit"})
    one.refresh_from_db()
    assert (one.text, one.revision, one.results.get(is_current=True).state) == ("MariaDB", 2, "failed")
    console.post(f"{PAGE}{one.pk}/", {**given, "requirement": "absent", "action": "edit"})
    named = f'The fact <a href="/agents/ada/facts/{billing.pk}/">“The billing service uses'
    assert all(named in text_of(console.get(page)) for page in (PAGE, f"{PAGE}{one.pk}/")), "by its text, not by its id"


def test_expectation_by_one_click_on_a_candidate_and_undone(ada, billing, console, bob, alice):
    run = make_run(ada, Principal.of_user(bob), QUESTION, budget=900)
    page = text_of(console.get(f"/agents/ada/context/{run.pk}/"))
    assert f'value="present fact {billing.pk}"' in page
    assert "Expect in prompt" not in text_of(signed_in(alice).get(f"/agents/ada/context/{run.pk}/"))
    demand = {"demand": f"absent fact {billing.pk}", "run": str(run.pk)}
    answer = console.post(f"{PAGE}demand/", demand, headers={"HX-Request": "true"})
    assert "failed" in text_of(answer)
    one = Expectation.objects.get()
    assert (one.requirement, one.request["budget"]) == ("absent", 900)
    undone = console.post(f"{PAGE}{one.pk}/undo/", headers={"HX-Request": "true"})
    assert "The expectation was removed" in text_of(undone)
    one.refresh_from_db()
    assert not one.active
    preview = {"demand": f"present fact {billing.pk}", "input": QUESTION, "profile": "knight_default"}
    console.post(f"{PAGE}demand/", preview, headers={"HX-Request": "true"})
    made = Expectation.objects.get(active=True)
    assert made.request["profile"] == "knight_default"
    assert made.results.get().state in ("passed", "failed")
    assert "present fact" in text_of(console.get("/agents/ada/context/", {"input": QUESTION, "tab": "memories"}))


def test_expectation_from_the_page_of_a_memory_without_script(ada, billing, console):
    back = "input%3DWhich%2Bdatabase%26budget%3D900"
    page = text_of(console.get(f"/agents/ada/facts/{billing.pk}/?back={back}"))
    assert f'value="only_of_subject fact {billing.pk}"' in page
    assert '<input type="hidden" name="back" value="input=Which+database&amp;budget=900">' in page
    assert ">Which database</textarea>" in page
    given = {"demand": f"only_of_subject fact {billing.pk}", "input": QUESTION, "back": "input=Which&budget=900"}
    assert "It will be checked after every change." in text_of(console.post(f"{PAGE}demand/", given, follow=True))
    one = Expectation.objects.get()
    assert (one.requirement, one.request["budget"]) == ("only_of_subject", 900)
    assert one.request["input"] == QUESTION
    # What an edit of the reason does not touch must not be lost by it.
    form = console.get(f"{PAGE}{one.pk}/").context["form"]
    given = {name: form[name].value() or "" for name in form.fields} | {"reason": "Support asks.", "action": "edit"}
    answer = console.post(f"{PAGE}{one.pk}/", {name: value for name, value in given.items() if value})
    assert answer.status_code == 302, answer.context["form"].errors
    one.refresh_from_db()
    assert (one.reason, one.revision, one.request["budget"]) == ("Support asks.", 1, 900)


def test_expectation_form_shows_each_of_its_fields(ada, console):
    answer = console.get(PAGE)
    assert [name for name in answer.context["new_form"].fields if f'name="{name}"' not in answer.content.decode()] == []


def test_broken_expectations_are_counted_in_the_navigation_and_on_home(ada, billing, reviewer, console):
    def badges(path):
        page = console.get(path)
        return {area["label"]: area["count"] for area in page.context["nav"]["rail"] if area["count"]}, page

    one = expectation_create(
        agent=ada, by=reviewer, request=request_of(QUESTION), requirement="present", target="text", text="MariaDB"
    )
    assert badges(PAGE)[0] == {}
    expectations_verify(agent=ada, by=reviewer)
    with CaptureQueriesContext(connection) as asked:
        found, _ = badges("/agents/ada/identity/")
    assert found == {"Home": 1, "Expectations": 1}
    counting = [query["sql"] for query in asked if "memory_memoryreview" in query["sql"]]
    assert [sql.count("context_expectationresult") > 0 for sql in counting] == [True], "in the one statement of all"
    home = text_of(console.get("/"))
    assert "expectation of Ada" in home
    expectation_retire(expectation=one, by=reviewer)
    assert badges(PAGE)[0] == {}


def test_expectation_names_its_section_as_prompts_head_it(ada, console, reviewer):
    expectation_create(
        agent=ada, by=reviewer, request=request_of("?"), requirement="present", target="section", section="user_profile"
    )
    shown = text_of(console.get(PAGE))
    assert "must have the section “User Profile”" in shown
    assert '<option value="user_profile">User Profile</option>' in shown


def test_suggested_are_the_latest_prompts_of_different_questions(ada, actor, console, reviewer, bob):
    held = "The pier closes in storms."
    review = make_review(ada, reviewer, held, "The pier stays open in storms.", subject="pier")
    embed_pending_rows()
    run = make_run(ada, actor, "Does the pier close in storms?", "s2")
    context_respond(run=run, response=held, by=actor)
    review_resolve(review=review, resolution="new_wrong", by=reviewer)
    asked = ["Where is the key?", *["Who is on call?"] * 6]
    runs = [make_run(ada, actor, question, f"f{place}") for place, question in enumerate(asked)]
    for one in runs:
        context_outcome(run=one, outcome="failure", by=actor)
    suggested = console.get(PAGE).context["suggested"]
    assert [row[:2] for row in suggested] == [(runs[-1], None), (runs[0], None), (run, review.old)]
    for group in bob.groups.all():
        group.permissions.remove(*Permission.objects.filter(codename="view_memoryreview"))
    suggested = console.get(PAGE).context["suggested"]
    assert [row[:2] for row in suggested] == [(runs[-1], None), (runs[0], None)], "without reviews, none of their facts"


def test_failed_prompts_and_resolved_contradictions_are_suggested(ada, actor, console, reviewer):
    failed = make_run(ada, actor, "Who is on call?", "s1")
    context_outcome(run=failed, outcome="failure", by=actor)
    type(failed).objects.filter(pk=failed.pk).update(created_at=clock.now() - timedelta(days=13))
    held = "The pier closes in storms."
    review = make_review(ada, reviewer, held, "The pier stays open in storms.", subject="pier")
    embed_pending_rows()
    run = make_run(ada, actor, "Does the pier close in storms?", "s2")
    context_respond(run=run, response=held, by=actor)
    assert [row[0] for row in console.get(PAGE).context["suggested"]] == [failed]
    review_resolve(review=review, resolution="new_wrong", by=reviewer)
    page = console.get(PAGE)
    assert [row[:2] for row in page.context["suggested"]] == [(failed, None), (run, review.old)]
    _, _, demand = page.context["suggested"][1]
    assert f'value="{demand}"' in text_of(page)
    added = console.post(f"{PAGE}demand/", {"run": str(run.pk), "demand": demand}, headers={"HX-Request": "true"})
    assert "Edit" in text_of(added)
    assert "Undo" in text_of(added)
    assert [row[0] for row in console.get(PAGE).context["suggested"]] == [failed]
    one = Expectation.objects.get()
    assert (one.input, one.requirement, one.item_id) == (run.input, "present", str(review.old_id))
    expectation_retire(expectation=one, by=reviewer)
    assert [row[0] for row in console.get(PAGE).context["suggested"]] == [failed], "it was not wanted"
    again = make_run(ada, actor, run.input, "s3")
    context_outcome(run=again, outcome="failure", by=actor)
    context_respond(run=again, response=held, by=actor)
    assert [row[0] for row in console.get(PAGE).context["suggested"]] == [again, failed], "but its cause came again"


def test_expectation_of_the_subconscious_takes_no_suggestion_away(ada, actor, console, charlie):
    failed = make_run(ada, actor, "Who is on call?", "s1")
    context_outcome(run=failed, outcome="failure", by=actor)
    own = {"agent": ada, "by": Principal.of_user(charlie), "request": request_of(failed.input)}
    demand = {"requirement": "present", "target": "section", "section": "user_profile"}
    expectation_create(**own, **demand, persona="subconscious")
    charlies = signed_in(charlie)
    assert [row[0] for row in console.get(PAGE).context["suggested"]] == [failed], "Bob cannot see it"
    assert [row[0] for row in charlies.get(PAGE).context["suggested"]] == [failed], "nor is it about this prompt"
    expectation_create(**own, **demand, persona="actor")
    assert console.get(PAGE).context["suggested"] == charlies.get(PAGE).context["suggested"] == []


def test_failed_prompt_with_a_contested_fact_suggests_to_resolve_it_and_no_side(ada, actor, console, reviewer, billing):
    held = "The pier closes in storms."
    review = make_review(ada, reviewer, held, "The pier stays open in storms.", subject="pier")
    embed_pending_rows()
    runs = [make_run(ada, actor, question) for question in ("Does the pier close in storms?", QUESTION)]
    for run in runs:
        context_respond(run=run, response=held, by=actor)
        context_outcome(run=run, outcome="failure", by=actor)
    # The second had a contested one too, but more can be said of one that is wrong.
    also = {"persona": "actor", "item_type": "fact", "item_id": review.new_id, "referenced": True, "overlap": 1}
    MemoryUsage.objects.create(agent=ada, run=runs[1], **also)
    fact_invalidate(fact=billing, reason="Never was.", by=reviewer)
    page = console.get(PAGE)
    assert [(run, demand) for run, _, demand in page.context["suggested"]] == [
        (runs[1], f"absent fact {billing.pk}"),
        (runs[0], ""),
    ]
    assert page.context["suggested"][1][1] == review.old, "of both sides the one that the answer refers to"
    assert f'href="{review.get_absolute_url()}"' in text_of(page)
    assert "had the contradicted fact" in text_of(page)


def test_failed_prompt_suggests_the_fact_that_took_the_place_of_one_it_had(ada, actor, console, reviewer, billing):
    other = make_fact(ada, "The billing service is deployed from Graz.", reviewer)
    runs = [make_run(ada, actor, question) for question in (QUESTION, "Where is the billing service deployed from?")]
    for run, fact in zip(runs, (billing, other), strict=True):
        context_respond(run=run, response=fact.content, by=actor)
        context_outcome(run=run, outcome="failure", by=actor)
    new = make_fact(ada, "The billing service uses the database MariaDB.", reviewer, subject="billing")
    fact_supersede(old=billing, new=new, by=reviewer)
    fact_invalidate(fact=other, reason="Never was.", by=reviewer)
    suggested = console.get(PAGE).context["suggested"]
    assert [demand for _, _, demand in suggested] == [f"absent fact {other.pk}", f"present fact {new.pk}"]

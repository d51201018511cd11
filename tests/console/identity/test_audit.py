"""The audit trail's page: by which way in a change came, and only those that came so."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
from django.core.management import call_command

from context.services.context import context_outcome
from identity.principal import Principal
from identity.services.personal_settings import demo_tour_begin
from identity.services.proposals import proposal_approve
from memory.services.censors import censor_check, censor_create, censor_update
from memory.services.erasure import event_erase
from memory.services.facts import fact_supersede
from memory.services.subjects.changes import subject_alias_add, subject_create, subject_edit
from nousweb.lib import clock
from tests.factories import make_events, make_fact, make_principal, make_proposal, make_review, make_run
from tests.http import browser

pytestmark = pytest.mark.django_db


def test_changes_are_found_by_their_way_in(api, ada, charlie, actor_token):
    proposal = {"content": "Truth.", "mode": "propose", "reason": "r"}
    api.as_token(actor_token).put("/identity/values", proposal)
    call_command("createtoken", "ada", persona="actor", name="of the shell")
    client = browser(charlie)
    client.post("/agents/ada/tokens/", {"name": "of the page", "persona": "actor", "scopes": ["memory:read"]})

    def shown(channel):
        page = client.get("/audit/", {"channel": channel, "agent": "ada"})
        assert page.status_code == 200
        return [(row.action, row.object_label.partition(" (")[0]) for row in page.context["rows"]]

    assert [action for action, _ in shown("api")] == ["proposal.create"]
    assert shown("command") == [("token.create", "of the shell")]
    assert ("token.create", "of the page") in shown("console")
    assert shown("mcp") == shown("import") == []
    assert "agent.create" in [action for action, _ in shown("itself")]
    assert b"through API" in client.get("/audit/", {"channel": "api"}).content
    assert client.get("/audit/", {"channel": "telepathy"}).context["form"].errors


def test_records_about_one_object_are_told_as_one(ada, actor, bob):
    run = make_run(ada, actor, "Which database?")
    for outcome in ("failure", "success", "success"):
        context_outcome(run=run, outcome=outcome, by=actor)
    rows = browser(bob).get("/audit/?about=all").context["rows"]
    assert [(row.who, row.verb, row.times, len(row.more)) for row in rows][:1] == [
        ("Ada", "reported success with the prompt", "twice", 1),
    ]


def test_request_id_that_two_callers_send_joins_nothing_of_both(api, ada, bob, actor_token):
    review = make_review(ada, make_principal(ada), "The lift never stops.", "The lift sometimes stops.")
    client = browser(bob)
    client.post(f"/review/memory/{review.pk}/", {"answer": "replace"}, headers={"X-Request-Id": "trace-7"})
    fact = {"content": "Tim likes tea.", "subject": "Tim"}
    api.as_token(actor_token).with_headers(X_Request_Id="trace-7").post("/facts", fact)
    rows = {row.action: row for row in client.get("/audit/").context["rows"]}
    for verb, who in (("memory_review.resolve", "bob"), ("fact.store", "Ada")):
        assert {each.author_name.partition(" ")[0].lower() for each in rows[verb].every} == {who.lower()}


def test_effects_of_one_request_stand_under_their_cause(api, ada, bob, actor_token):
    """So does what a person's decision changed; the records of one request can be listed one by one."""
    caller = api.as_token(actor_token)
    for content in ("Tim likes tea.", "Tim never likes tea."):
        caller.post("/facts", {"content": content, "subject": "Tim", "category": "preference"})
    review = make_review(ada, make_principal(ada), "The lift never stops.", "The lift sometimes stops.")
    client = browser(bob)
    client.post(f"/review/memory/{review.pk}/", {"answer": "replace"})
    rows = client.get("/audit/").context["rows"]
    told = [(row.action, row.edit, [each.action for each in row.more]) for row in rows]
    assert ("memory_review.resolve", "and replaced the fact The lift never stops.", ["fact.supersede"]) in told
    assert ("fact.store", "and replaced the fact Tim likes tea.", ["fact.supersede"]) in told
    assert ("fact.store", "and added the subject Tim", ["subject.create"]) in told
    stored = next(row.request_id for row in rows if row.action == "fact.store" and "replaced" in row.edit)
    request = client.get("/audit/", {"request": stored})
    assert [row.action for row in request.context["rows"]] == ["fact.supersede", "fact.store"]


def test_begun_tours_are_among_everything(ada, bob, charlie):
    for person in (bob, charlie):
        demo_tour_begin(agent=ada, by=Principal.of_user(person))
    client = browser(bob)
    pages = [client.get("/audit/", {"about": about}).context["rows"] for about in ("", "all")]
    assert [sum(row.action == "demo_tour.begin" for row in rows) for rows in pages] == [0, 2]


def test_successes_of_a_day_are_one_row_whatever_stands_between_them(ada, actor, bob):
    """Failures are rows of their own, and a corrected outcome stands with what it corrects."""
    runs = [make_run(ada, actor, f"Question {number}?") for number in range(4)]
    for run, outcome in zip(runs, ("success", "success", "success", "failure"), strict=True):
        make_proposal(ada, actor, "values", content=f"{run.pk}") if run is runs[2] else None
        context_outcome(run=run, outcome=outcome, by=actor)
    context_outcome(run=runs[1], outcome="failure", by=actor)
    context_outcome(run=runs[1], outcome="success", by=actor)
    context_outcome(run=runs[3], outcome="success", by=actor)
    context_outcome(run=runs[0], outcome="failure", by=actor)
    rows = browser(bob).get("/audit/?about=prompts").context["rows"]
    told = [(row.verb, row.is_quiet, len(row.more)) for row in rows if row.action == "context.outcome"]
    assert told == [
        ("reported failure with the prompt", False, 0),
        ("reported success with the prompt", True, 4),
        ("reported failure with the prompt", False, 1),
    ]


def test_changes_of_one_object_are_one_sentence_and_tell_old_and_new_values(ada, bob):
    by = Principal.of_user(bob)
    subject = subject_create(agent=ada, name="mail", by=by)
    subject_alias_add(subject=subject, spelling="e-mail", by=by)
    subject_edit(subject=subject, kind="system", by=by)
    page = browser(bob).get("/audit/")
    (row,) = [row for row in page.context["rows"] if row.object_type == "subject"]
    assert (row.verb, row.label, row.times) == ("changed the subject", "mail", "3 times")
    assert [each.action for each in row.every] == ["subject.edit", "subject.alias_add", "subject.create"]
    assert "kind: other → system" in page.content.decode()
    old, new = (make_fact(ada, f"The mail waits {number} seconds.", by) for number in (60, 90))
    fact_supersede(old=old, new=new, by=by)
    other = make_fact(ada, "Nobody reads the mail.", by)
    fact_supersede(old=new, new=other, by=by)
    page = browser(bob).get("/audit/?about=memory")
    told = [(each.verb, each.label, each.edit) for each in page.context["rows"] if each.action == "fact.supersede"]
    assert told == [
        ("replaced the fact", new.content, f"→ {other.content}"),
        ("replaced the fact", old.content, ""),
    ]
    assert "The mail waits <del>60</del><ins>90</ins> seconds." in page.content.decode()


def test_changes_of_a_section_tell_the_words_that_differ(ada, actor, bob):
    first = make_proposal(ada, actor, "values", content="Truth before speed.\nRest.")
    proposal_approve(proposal=first, base_version=0, by=Principal.of_user(bob))
    make_proposal(ada, actor, "values", content="Truth before comfort.\nRest.")
    page = browser(bob).get("/audit/?about=identity")
    told = [row.change for row in page.context["rows"] if row.action == "proposal.create"]
    assert "Truth before <del>speed</del><ins>comfort</ins>." in told[0]
    assert "<ins>Truth before speed.</ins>" in told[1]
    assert "and 1 more line" in told[1]
    assert told[0] in page.content.decode()


def test_check_tells_its_censor_and_a_failure_is_marked(ada, actor, bob):
    censor_create(agent=ada, pattern="password", severity="warn", reason="Secrets stay here.", by=actor)
    censor_check(text="My password.", agent=ada, by=actor, count=True)
    context_outcome(run=make_run(ada, actor, "Which database?"), outcome="failure", by=actor)
    page = browser(bob).get("/audit/?about=prompts")
    told = {row.action: (row.verb, row.label, row.edit) for row in page.context["rows"]}
    assert told["censor.trigger"] == ("triggered the censor", "Secrets stay here.", "warned")
    added = [row.label for row in browser(bob).get("/audit/").context["rows"] if row.action == "censor.create"]
    assert added == ["Secrets stay here."]
    assert told["context.outcome"][0] == "reported failure with the prompt"
    assert page.content.decode().count('class="down"') == 1


def test_audit_finds_all_records_of_a_censor_by_its_pattern_as_by_its_reason(ada, actor, system, bob):
    for pattern in ("passwords?", "pin code"):
        censor = censor_create(agent=ada, pattern=pattern, severity="warn", reason="Secrets stay here.", by=actor)
        censor_update(censor=censor, active=False, by=system)
    for words, found in (("PASSWORDS?", 2), ("Secrets stay", 4), ("nobody wrote this", 0)):
        page = browser(bob).get("/audit/", {"q": words})
        assert sum(len(row.every) for row in page.context["rows"]) == found, words


def test_audit_joins_records_alike_that_the_system_made(ada, actor, system, bob):
    for by in (system, system, system, actor, actor):
        make_events(ada, by, "It rains.")
    page = browser(bob).get("/audit/?about=all")
    assert [(row.author_kind, len(row.more)) for row in page.context["rows"]][:2] == [("token", 1), ("system", 2)]
    assert "2 more" in page.content.decode()


def test_audit_begins_with_changes_and_shows_what_each_view_is_about(ada, actor, system, bob):
    """Outcomes and what the system did itself are left out until they are asked for."""
    for by in (system, system, actor):
        make_events(ada, by, "It rains.")
    make_proposal(ada, actor, "values")
    context_outcome(run=make_run(ada, actor, "Which database?"), outcome="success", by=actor)
    client = browser(bob)

    def shown(**asked):
        page = client.get("/audit/", {"agent": "ada", **asked})
        found = {row.action for row in page.context["rows"]}
        return found, [view["label"] for view in page.context["layouts"] if view["active"]], page.content.decode()

    found, active, content = shown()
    assert (found, active) == ({"events.record", "proposal.create"}, ["Changes"])
    assert "?agent=ada&amp;about=identity" in content, "views keep the filters"
    found, active, content = shown(about="identity")
    assert ({action.partition(".")[0] for action in found} <= {"identity", "proposal"}, active) == (True, ["Identity"])
    assert '<input type="hidden" name="about" value="identity"' in content, "filters keep the view"
    assert shown(about="prompts")[:2] == ({"context.outcome"}, ["Prompts"])
    assert shown(about="decisions")[0] == set()
    found, active, _ = shown(about="all")
    assert found >= {"context.outcome", "agent.create"}
    for asked in ({"kind": "system"}, {"q": "It rains"}, {"action": "events.record"}):
        assert shown(**asked)[1] == ["Everything"], asked


def test_audit_lists_by_day(ada, actor, bob, alice):
    now = clock.now()
    for days in (9, 1, 0, 0):
        with clock.at(now - timedelta(days=days)):
            make_proposal(ada, actor, "values")
            make_events(ada, actor, "It rains.")
    run = make_run(ada, actor, "Which database?")
    with clock.at(now):
        context_outcome(run=run, outcome="success", by=actor)
    page = browser(bob).get("/audit/", {"kind": "token", "agent": "ada"})
    rows = page.context["rows"]
    assert list(dict.fromkeys(row.day for row in rows))[:2] == ["Today", "Yesterday"]
    assert page.content.decode().count("<h2>Today</h2>") == 1
    week = browser(bob).get("/audit/", {"kind": "token", "agent": "ada", "period": "7"})
    assert {row.day for row in rows} - {row.day for row in week.context["rows"]} == {rows[-1].day}
    assert "reported success with the prompt" in page.content.decode()
    assert "Which database?" in [row.label for row in rows]
    told = [(row.phrase, row.label) for row in rows]
    assert ("proposed the change of", "Values of Ada") in told, "the author is told once, and what it is"
    bob.user_permissions.clear()
    bob.groups.clear()
    bob.user_permissions.set(Permission.objects.filter(codename="view_auditevent"))
    assert "Which database?" not in browser(bob).get("/audit/").content.decode()


def test_each_erasure_is_a_line_of_its_own(ada, actor, charlie):
    """Its record is its receipt."""
    for event in make_events(ada, actor, "It rains.", "It pours.", loop_id="one"):
        event_erase(event=event, by=Principal.of_user(charlie), reason="Asked for.")
    rows = [row for row in browser(charlie).get("/audit/").context["rows"] if row.action == "event.erase"]
    assert [(row.times, row.more) for row in rows] == [("", [])] * 2

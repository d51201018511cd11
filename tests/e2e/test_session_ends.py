"""A session that ends while somebody types: the text survives the login, and the address bar holds pages only."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.urls import reverse
from playwright.sync_api import Page, expect

from identity.models import Agent, ChangeProposal
from identity.principal import Principal
from identity.services.proposals import proposal_reject
from memory.services.procedures import procedure_create, procedure_update
from tests.factories import make_proposal

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LogIn = Callable[..., Page]
COMMENT = "Too early: ask again when the trial is over."


def log_in_again(page: Page, user: User) -> None:
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    expect(page.get_by_text("Your input is kept")).to_be_visible()
    user.set_password("correct horse battery staple")
    user.save()
    page.get_by_label("Username").fill(user.username)
    page.get_by_label("Password").fill("correct horse battery staple")
    page.get_by_role("button", name="Log in").click()


def test_comment_on_a_decision_survives_the_login(log_in: LogIn, ada: Agent, actor: Principal, bob: User) -> None:
    proposal = make_proposal(ada, actor, "values")
    page = log_in(bob)
    page.goto(f"/review/{proposal.pk}/?risk=high")
    page.locator("#comment").fill(COMMENT)
    expect(page.locator(".item-why")).to_contain_text("No prompt to compare")
    Session.objects.all().delete()
    page.get_by_role("button", name="Reject").click()
    log_in_again(page, bob)
    expect(page.locator("#comment")).to_have_value(COMMENT)
    expect(page.get_by_text("Draft restored")).to_be_visible()
    assert page.url.endswith(f"/review/{proposal.pk}/?risk=high")
    assert ChangeProposal.objects.get(pk=proposal.pk).status == "pending", "nothing is sent without its person"
    page.get_by_role("button", name="Reject").click()
    expect(page.locator(".review-undo")).to_be_visible()
    assert ChangeProposal.objects.get(pk=proposal.pk).comment == COMMENT
    page.goto(f"/review/{proposal.pk}/")
    expect(page.get_by_text("Draft restored")).to_be_hidden()


def test_text_of_a_section_survives_the_login_in_a_live_form(log_in: LogIn, ada: Agent, bob: User) -> None:
    page = log_in(bob)
    page.goto("/agents/ada/identity/values/propose/")
    page.on("dialog", lambda dialog: dialog.accept())
    Session.objects.all().delete()
    page.locator("textarea").first.fill("Truth before comfort.")
    log_in_again(page, bob)
    expect(page.locator("textarea").first).to_have_value("Truth before comfort.")


def test_form_that_expired_by_another_login_keeps_its_text(
    log_in: LogIn, ada: Agent, actor: Principal, bob: User
) -> None:
    proposal = make_proposal(ada, actor, "values")
    page = log_in(bob)
    page.goto(f"/review/{proposal.pk}/")
    page.locator("#comment").fill(COMMENT)
    cookie = next(one for one in page.context.cookies() if one["name"] == "csrftoken")
    page.context.add_cookies([cookie | {"value": "b" * 32}])
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_role("heading", name="The form has expired")).to_be_visible()
    page.get_by_role("link", name="Open the page again").click()
    expect(page.locator("#comment")).to_have_value(COMMENT)


def test_form_with_a_draft_or_a_refusal_overwrites_and_loses_nothing(log_in: LogIn, ada: Agent, bob: User) -> None:
    """What others stored meanwhile is told of after the login too, and who leaves the refused form is asked."""
    by = Principal.of_user(bob)
    procedure = procedure_create(agent=ada, name="Deploy", steps=["Tag."], by=by)
    page = log_in(bob)
    page.goto(reverse("agent_procedure_edit", args=["ada", procedure.pk]))
    page.locator("#id_steps").fill("Tag.\nMine.")
    procedure_update(procedure=procedure, by=by, steps=["Tag.", "Theirs."])
    Session.objects.all().delete()
    page.get_by_role("button", name="Save").click()
    log_in_again(page, bob)
    expect(page.locator("#id_steps")).to_have_value("Tag.\nMine.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("It has changed since this page was opened")).to_be_visible()
    procedure.refresh_from_db()
    assert procedure.steps == ["Tag.", "Theirs."]
    with page.expect_event("dialog") as asked:
        page.once("dialog", lambda dialog: dialog.dismiss())
        page.get_by_role("navigation", name="Breadcrumb").get_by_role("link").last.click()
    assert asked.value.type == "beforeunload"
    expect(page.locator("#id_steps")).to_have_value("Tag.\nMine.")


def test_somebody_else_does_not_get_the_text(
    log_in: LogIn, ada: Agent, actor: Principal, bob: User, charlie: User
) -> None:
    proposal = make_proposal(ada, actor, "values")
    page = log_in(bob)
    page.goto(f"/review/{proposal.pk}/")
    page.locator("#comment").fill(COMMENT)
    expect(page.locator(".item-why")).to_contain_text("No prompt to compare")
    Session.objects.all().delete()
    page.get_by_role("button", name="Reject").click()
    log_in_again(page, charlie)
    expect(page.get_by_role("heading", level=1)).to_have_text("Values of Ada")
    expect(page.locator("#comment")).to_have_value("")
    assert page.evaluate("sessionStorage.getItem('nous-drafts')") is None


def test_refused_decision_stands_at_an_address_that_can_be_opened(
    log_in: LogIn, ada: Agent, actor: Principal, bob: User, charlie: User
) -> None:
    proposal = make_proposal(ada, actor, "values")
    page = log_in(bob)
    page.goto(f"/review/{proposal.pk}/")
    page.locator("#comment").fill(COMMENT)
    proposal_reject(proposal=proposal, by=Principal.of_user(charlie))
    page.get_by_role("button", name="Approve", exact=False).first.click()
    expect(page.get_by_text("already rejected by charlie")).to_be_visible()
    assert f"/review/{proposal.pk}/?" in page.url
    answer = page.goto(page.url)
    assert answer is not None
    assert answer.status == 200
    assert f"/review/{proposal.pk}/?" in page.url

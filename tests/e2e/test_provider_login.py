"""Log-in at a real provider of OpenID Connect that runs beside the product, and the second factor, in Chromium."""

import re
from typing import Any

import pyotp
import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from identity.principal import Principal
from identity.services.people import invitation_create
from nousweb.lib import clock
from tests.e2e.conftest import OpenPage, assert_accessible
from tests.factories import PASSWORD
from tests.oidc_provider import provider

__all__ = ["provider"]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    # The provider calls its own library by an older way.
    pytest.mark.filterwarnings("ignore:get_jwt_config:DeprecationWarning"),
]
ELSEWHERE = re.compile("^https:")


@pytest.fixture
def owner(transactional_db: None) -> User:
    return User.objects.create_superuser("olga", password=PASSWORD)


def provider_login(page: Page, subject: str, start: str = "/inbox/") -> None:
    # The provider's page asks for a style sheet of another machine.
    page.context.route(ELSEWHERE, lambda route: route.fulfill(body="", content_type="text/css"))
    page.goto(start)
    page.get_by_role("link", name="Log in with Harbour ID").click()
    provider_page(page, subject)


def provider_page(page: Page, subject: str) -> None:
    page.get_by_placeholder("sub").fill(subject)
    page.get_by_role("button", name="Authorize", exact=True).click()


def password_login(page: Page, name: str) -> None:
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()


def test_provider_login_makes_an_account_of_the_groups_role(open_page: OpenPage, provider: str, owner: User) -> None:
    page = open_page()
    provider_login(page, "1")
    page.wait_for_url("**/inbox/**")
    assert [group.name for group in User.objects.get(username="rosa").groups.all()] == ["Reviewer"]


def test_passwords_off_keep_the_last_owner_in(
    open_page: OpenPage, provider: str, owner: User, bob: User, settings: Any
) -> None:
    settings.PASSWORD_LOGIN = False
    page = open_page()
    page.goto("/login/")
    page.get_by_text("Log in with a password, as an owner").click()
    password_login(page, "bob")
    expect(page.get_by_role("alert")).to_be_visible()
    password_login(page, "olga")
    page.goto("/people/second-factor/")
    expect(page.get_by_text("Only owners can log in with passwords")).to_be_visible()
    expect(page.get_by_role("row", name="agents-reviewers Reviewer")).to_be_visible()
    # The last owner connects the log-in; a group of less does not take the role away.
    page.goto("/account/")
    page.get_by_role("button", name="Connect your account").click()
    page.context.route(ELSEWHERE, lambda route: route.fulfill(body="", content_type="text/css"))
    onward = page.get_by_role("link", name="Continue to Harbour ID")
    expect(onward).to_be_visible()
    assert_accessible(page)
    onward.click()
    provider_page(page, "4")
    expect(page.get_by_text("Your groups there decide your role")).to_be_visible()
    page.context.clear_cookies()
    provider_login(page, "4", "/people/")
    expect(page.get_by_role("heading", name="People")).to_be_visible()
    owner.refresh_from_db()
    assert owner.is_superuser


def test_invited_person_sets_up_a_second_factor_and_is_asked_for_it(open_page: OpenPage, owner: User) -> None:
    """By invitation into a role that requires a second factor; then the log-in with its two steps."""
    owners_page = open_page()
    owners_page.goto("/people/")
    password_login(owners_page, "olga")
    owners_page.get_by_role("link", name="Log-in", exact=True).click()
    owners_page.get_by_role("group", name="Required for").get_by_label("Reviewer").check()
    owners_page.get_by_role("button", name="Save").click()
    secret = invitation_create(role="Reviewer", by=Principal.of_user(owner))[1]
    page = open_page(width=390, height=844)
    page.goto(f"/invitation/{secret}/")
    page.get_by_label("Name").fill("dora")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Repeat the password").fill(PASSWORD)
    page.get_by_role("button", name="Create the account").click()
    expect(page.get_by_role("heading", name="Set up a second factor")).to_be_visible()
    assert page.get_by_alt_text("QR code").evaluate("image => image.complete && image.naturalWidth > 0")
    page.get_by_text("Or type the key").click()
    totp = pyotp.TOTP((page.locator("details code").text_content() or "").replace(" ", ""))
    page.get_by_label("Code").fill(totp.at(clock.now()))
    page.get_by_role("button", name="Set up", exact=True).click()
    codes = (page.locator(".recovery-codes").text_content() or "").split()
    assert len(codes) == 10
    assert_accessible(page)
    page.get_by_role("link", name="I have stored them").click()
    expect(page.get_by_text("10 recovery codes left")).to_be_visible()
    page.context.clear_cookies()
    page.goto("/inbox/")
    password_login(page, "dora")
    page.get_by_label("Code").fill(codes[0])
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/inbox/**")
    # She has lost both; the owner helps, and cannot take the last owner's role away, her own.
    owners_page.goto("/people/")
    owners_page.get_by_role("link", name="dora").first.click()
    owners_page.get_by_role("button", name="Reset the second factor").click()
    expect(owners_page.get_by_text("The second factor of dora was reset.")).to_be_visible()
    owners_page.goto(f"/people/{owner.pk}/")
    expect(owners_page.get_by_text("Another owner must change")).to_be_visible()
    expect(owners_page.get_by_role("button", name="Keep olga out")).to_have_count(0)

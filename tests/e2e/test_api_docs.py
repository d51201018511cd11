"""The API's reference, django-ninja's own, under the site's content security policy."""

import pytest
from playwright.sync_api import expect

from tests.api.test_openapi import OPERATIONS

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_reference_shows_every_operation_without_a_login(open_page):
    page = open_page()
    page.goto("/api/docs")
    expect(page.locator(".opblock")).to_have_count(len(OPERATIONS))
    learning = page.locator(".opblock-post", has=page.locator("[data-path='/api/facts']"))
    learning.locator(".opblock-summary").click()
    expect(learning).to_contain_text("Learn a fact")
    expect(learning).to_contain_text("application/problem+json")

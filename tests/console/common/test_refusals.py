"""Refused requests lead on: to the page as it is now, which gets back what was typed."""

from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.urls import reverse

from tests.http import browser

pytestmark = pytest.mark.django_db
PAGE = "/inbox/?sort=newest"


def test_refused_form_leads_to_its_page(bob: User) -> None:
    address = reverse("item_change", args=["memoryreview", uuid4(), "undo"])
    refused = browser(bob).post(address, headers={"Referer": f"http://testserver{PAGE}"})
    assert refused.status_code == 404
    text = refused.content.decode()
    assert f'href="{PAGE}"' in text
    assert "data-interrupted" in text, "the script keeps what was typed"
    elsewhere = browser(bob).post(address, headers={"Referer": "https://elsewhere.example/x"})
    assert "elsewhere" not in elsewhere.content.decode()
    part = browser(bob).post(address, headers={"HX-Request": "true", "HX-Current-URL": f"http://testserver{PAGE}"})
    assert f'href="{PAGE}"' in part.content.decode()


def test_refused_page_is_no_interruption(bob: User) -> None:
    refused = browser(bob).get(reverse("memory_review_detail", args=[uuid4()]))
    assert refused.status_code == 404
    assert "data-interrupted" not in refused.content.decode()
    assert "Back to Inbox" in refused.content.decode()


@pytest.mark.parametrize(
    ("address", "page"),
    [("/inbox/change/?risk=high", "/inbox/?risk=high"), ("/review/automatic/undo/", "/review/automatic/")],
)
def test_address_of_a_form_opened_by_hand_leads_to_its_page(bob: User, address: str, page: str) -> None:
    assert browser(bob).get(address, headers={"Accept": "text/html"})["Location"] == page


@pytest.mark.parametrize("template", ["500.html", "503.html"])
def test_failed_page_is_opened_again_with_what_was_typed(template: str) -> None:
    page = render_to_string(template, {"outage": {"title": "Down", "detail": "", "retry_after": 1}, "method": "POST"})
    assert "Open the page again" in page
    assert "data-interrupted" in page

"""Subjects by keyboard alone: merged, the merge undone, split, and renamed."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from memory.models import Subject, SubjectAlias
from tests.e2e.conftest import press_key
from tests.http import ApiClient

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def named() -> list[tuple[str, list[str]]]:
    """Each subject with its spellings."""
    rows = Subject.objects.standing().order_by("created_at")
    return [
        (row.name, sorted(SubjectAlias.objects.filter(subject=row).values_list("spelling", flat=True))) for row in rows
    ]


def test_subjects_are_merged_undone_and_split_by_key(log_in: Callable[..., Page], actor_token: str, bob: User) -> None:
    agent = ApiClient().as_token(actor_token)
    for name, said in (("Tim", "Tim lives in Rome."), ("the captain", "The captain owns two boats.")):
        agent.post("/facts", {"content": said, "subject": name})
    page = log_in(bob)
    page.goto("/agents/ada/subjects/")
    press_key(page, "j")
    press_key(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("the captain")

    press_key(page, "m")
    expect(page.get_by_role("combobox", name="Same subject as")).to_be_focused()
    page.keyboard.type("Tim")
    press_key(page, "Enter")
    expect(page.get_by_text("It can be undone below.")).to_be_visible()
    assert named() == [("Tim", ["Tim", "the captain"])]
    expect(page.get_by_text("2 facts over time")).to_be_visible()

    press_key(page, "u")
    expect(page.get_by_text("Undone:")).to_be_visible()
    assert named() == [("Tim", ["Tim"]), ("the captain", ["the captain"])]

    press_key(page, "n")
    page.keyboard.type("Timmy")
    press_key(page, "Enter")
    expect(page.get_by_text("is now a name of “Tim”")).to_be_visible()
    press_key(page, "l")
    expect(page.get_by_role("checkbox", name="Tim", exact=True)).to_be_focused()
    press_key(page, "Tab")
    press_key(page, "Space")
    press_key(page, "Enter")
    expect(page.get_by_text("It can be undone below.")).to_be_visible()
    assert named() == [("Tim", ["Tim"]), ("the captain", ["the captain"]), ("Timmy", ["Timmy"])]

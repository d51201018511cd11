"""An export in a real browser: started, written, downloaded, deleted."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from identity.models import Agent
from memory.lifecycle.runner import job_run
from memory.models import Job

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_an_agent_is_exported_and_downloaded(log_in: Callable[..., Page], ada: Agent, charlie: User) -> None:
    page = log_in(charlie, width=390)
    page.goto("/agents/ada/imports/")
    page.get_by_role("button", name="Export", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Export")
    expect(page.get_by_text("Running")).to_be_visible()
    job_run(Job.objects.get(handler="export_run").pk)
    with page.expect_download() as coming:
        page.get_by_role("link", name="Download").click()
    assert coming.value.suggested_filename.endswith(".jsonl")
    lines = Path(coming.value.path()).read_text().splitlines()
    assert json.loads(lines[0])["agent"]["slug"] == "ada"
    page.get_by_role("button", name="Delete the file").click()
    expect(page.get_by_text("The file was deleted.")).to_be_visible()
    expect(page.get_by_role("link", name="Download")).to_have_count(0)

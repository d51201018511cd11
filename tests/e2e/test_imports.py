"""An import in a real browser: uploaded in parts, checked, started, done; an upload that is cancelled."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, Route, expect

from identity.models import Agent
from memory.lifecycle.runner import job_run
from memory.models import Fact, FileRun, Job
from nousweb.console.memory.views import file_runs
from tests.e2e.conftest import press_key

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def work() -> None:
    for job in Job.objects.filter(handler="import_run", status="queued"):
        job_run(job.pk)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    texts = [f"The harbour light number {number} is green." for number in range(3)]
    path = tmp_path / "lights.jsonl"
    path.write_text("".join(json.dumps({"record": "fact", "content": text}) + "\n" for text in texts))
    return path


def test_a_file_is_uploaded_checked_and_imported(
    log_in: Callable[..., Page], ada: Agent, charlie: User, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_runs, "MAX_PART_BYTES", 64)
    page = log_in(charlie, width=390)
    page.goto("/agents/ada/imports/")
    page.get_by_label("File", exact=True).set_input_files(file)
    page.get_by_role("button", name="Upload and check").focus()
    press_key(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("lights.jsonl")
    expect(page.get_by_text("Being checked")).to_be_visible()
    work()
    expect(page.get_by_text("Checked, not started")).to_be_visible()
    expect(page.get_by_text("The harbour light number 0 is green.")).to_be_visible()
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_text("Running")).to_be_visible()
    work()
    expect(page.get_by_role("heading", name="Imported")).to_be_visible()
    page.locator("#run-state").get_by_role("link", name=re.compile("^fact ")).first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("The harbour light number")
    assert Fact.objects.count() == 3


def test_an_upload_is_cancelled_and_a_run_stopped(
    log_in: Callable[..., Page], ada: Agent, charlie: User, file: Path
) -> None:
    page = log_in(charlie)
    page.goto("/agents/ada/imports/")
    held: list[Route] = []
    page.route("**/part/**", lambda route: held.append(route))
    page.get_by_label("File", exact=True).set_input_files(file)
    with page.expect_request("**/part/**"):
        page.get_by_role("button", name="Upload and check").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("The upload was cancelled.")).to_be_visible()
    assert FileRun.objects.get().status == "uploading"
    page.unroute("**/part/**")
    page.get_by_role("button", name="Upload and check").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped", exact=True)).to_be_visible()
    page.get_by_role("button", name="Delete the file").click()
    expect(page.get_by_text("File deleted", exact=True)).to_be_visible()
    assert not Fact.objects.exists()

"""The page of background work: what failed comes first, what is done and the schedules have tabs of their own."""

import pytest
from django_q.models import Schedule

from memory.models import Job
from tests.http import browser, markup

pytestmark = pytest.mark.django_db
URL = "/lifecycle/"


@pytest.fixture
def jobs(ada):
    Job.objects.all().delete()
    statuses = ("done", "queued", "dead", "running", "failed")
    return [Job.objects.create(key=f"j{status}", handler="staleness", agent=ada, status=status) for status in statuses]


def shown(client, **query):
    return [run.status for run, *_ in client.get(URL, query).context["runs"]]


def test_failed_jobs_come_first_and_done_ones_have_a_tab(jobs, bob):
    client = browser(bob)
    assert shown(client) == ["dead", "failed", "running", "queued"]
    assert shown(client, status="done") == ["done"]
    assert shown(client, status="dead") == ["dead"]
    assert client.get(URL).context["tabs"][0]["count"] == 4
    assert "Retry</button>" in markup(client.get(URL))
    assert "Retry</button>" not in markup(client.get(URL, {"status": "done"}))


def test_page_says_that_nothing_failed_and_that_the_judge_was_not_asked(ada, bob):
    Job.objects.all().delete()
    page = markup(browser(bob).get(URL))
    assert "No open jobs" in page
    assert "The judge used no tokens in the last 14 days." in page
    assert '<svg class="spark"' not in page


def test_latest_done_jobs_are_shown_where_none_is_open(jobs, bob):
    Job.objects.exclude(status="done").delete()
    client = browser(bob)
    assert shown(client) == ["done"]
    assert "No open jobs" in markup(client.get(URL))
    assert shown(client, status="dead") == []


def test_schedule_is_paused_and_resumed_in_its_row(bob):
    client = browser(bob)
    schedule = Schedule.objects.earliest("name")
    for action, word in (("pause", "resume"), ("resume", "pause")):
        answer = client.post(f"{URL}schedules/{schedule.pk}/", {"action": action}, follow=True)
        assert answer.redirect_chain[-1][0] == f"{URL}?tab=schedules"
        row = next(row for row in markup(answer).split("<tr>") if schedule.name in row and "<th scope" in row)
        assert f'value="{word}"' in row
        assert ("Paused" in row) == (action == "pause")

"""The home page: what needs a person, what changed since they were here, and whether all is well."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django_q.models import OrmQ

from context.expectations.services import expectation_create, expectations_verify, request_of
from context.models import ContextRun, ExpectationResult
from identity.models import Agent, AuditEvent, LogSeal, LogVerification, SignIn, Webhook
from identity.principal import Principal
from identity.services.proposals import identity_propose, proposal_approve
from identity.services.webhooks import webhook_create
from memory.models import EmbeddingModel, Fact, IndexStatus, Job, JudgeCall, MemoryReview, SearchItem
from memory.services.censors import censor_create
from memory.services.facts import fact_learn, fact_supersede
from nousweb.console.home import system_health
from nousweb.console.home.dashboard import Dashboard, dashboard
from nousweb.console.home.period import Trend
from nousweb.console.home.system_health import ERROR_CHARACTERS, HealthCheck, index_check
from nousweb.console.home.views import BREAK
from nousweb.lib import clock
from tests.cluster import CITUS_URL
from tests.console.home.moments import DAY, HOUR, NOON, ago, noon
from tests.http import browser


def board(user: User, since: datetime | None = None) -> Dashboard:
    """What this person, who was here before a week ago, sees at noon."""
    with noon():
        return dashboard(Principal.of_user(user), since or ago(days=7))


def check(shown: Dashboard, name: str) -> HealthCheck:
    return next(one for one in shown.checks if one.name == name)


def text_of(client: Client) -> str:
    return " ".join(client.get(reverse("home")).content.decode().split())


def run(agent: Agent, at: datetime, tokens: int = 100, **fields: Any) -> ContextRun:
    given = {
        "agent": agent,
        "persona": "actor",
        "session_id": "s",
        "input": "Hello",
        "request": {},
        "system_prompt": "",
        "sections": [],
        "tokens": tokens,
        "duration_ms": 10.0,
        "principal_name": "tests",
        "created_at": at,
    }
    return ContextRun.objects.create(**(given | fields))


@pytest.fixture
def well(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system in which nothing fails: a worker answers, and the log was verified."""
    monkeypatch.setattr(system_health, "worker_states", lambda: ["idle"])
    OrmQ.objects.all().delete()
    LogVerification.objects.create(status="done", asked_by="schedule", finished_at=ago(hours=2))


# What needs a person


def test_items_are_titled_by_what_they_change(
    ada: Agent, bruno: Agent, actor: Principal, bob: User, alice: User
) -> None:
    with clock.at(ago(days=3)):
        identity_propose(
            agent=ada, section="values", content="# Values\n- Truth first. Never promise a date.", by=actor
        )
    with clock.at(ago(days=1)):
        identity_propose(agent=ada, section="preferences", content="Tea.", by=actor)
    shown = board(bob)
    assert [(str(item.title), item.kind, item.agent, item.entry.risk, item.when[1]) for item in shown.items] == [
        ("Adds “Truth first. Never promise a date.” and 1 more line", "Values", "Ada", "high", ago(days=3)),
    ]
    assert shown.waiting == 1
    client = browser(bob)
    page = text_of(client)
    assert "1 item waits for your review" in page
    told = f'<a href="{reverse("inbox")}?view=applied" class="small">1 applied without review</a>'
    assert told in page, "it is in effect, and waits for nobody"
    waits = re.search(r'hx-get="([^"]*)" hx-select="\.queue-title"', page)
    assert waits, "whenever it was"
    listed = " ".join(client.get(waits[1]).content.decode().split())
    assert re.search('class="queue-title"[^>]*>.{,80}<ins>Tea.</ins>', listed)
    with noon():
        page = text_of(client)
        viewers = text_of(browser(alice))
    assert re.search("Applied without review</h3> <a[^>]*>Keep or undo</a> .*<ins>Tea.</ins>", page)
    assert "Applied without review</h3> </div>" in viewers, "who may do neither"
    for item in shown.items:
        assert f'href="{item.url}"' in page
        assert client.get(item.url).status_code == 200


def test_rivals_are_one_item_that_leads_to_their_comparison(ada: Agent, actor: Principal, bob: User) -> None:
    for text in ("Truth first.", "Speed first.", "Kindness first."):
        identity_propose(agent=ada, section="values", content=text, by=actor)
    shown = board(bob)
    assert ([item.entry.members for item in shown.items], shown.waiting) == ([3], 3)
    client = browser(bob)
    assert f'<a href="{shown.items[0].group_url}">Compare 3</a>' in text_of(client)
    assert client.get(shown.items[0].group_url).status_code == 200


def ask(agent: Agent, kind: str, at: datetime, persona: str = "actor", **fields: Any) -> None:
    count = MemoryReview.objects.count()
    MemoryReview.objects.create(
        agent=agent, persona=persona, kind=kind, about=f"test:{count}", created_at=at, expires_at=at + 90 * DAY,
        **fields,
    )  # fmt: skip


def test_reviews_are_titled_by_the_fact_at_stake_and_no_more_than_five_are_listed(
    ada: Agent, system: Principal, alice: User, bob: User, charlie: User
) -> None:
    tea = fact_learn(agent=ada, content="Likes tea.", by=system).fact
    ask(ada, "contradiction", ago(days=3), new=tea)
    for number in range(9):
        ask(ada, "compaction", ago(days=1, hours=number), subject=f"subject {number}", facts=[tea.pk])
    ask(ada, "escalation", ago(days=2), persona="subconscious", subject="a secret", facts=[tea.pk])
    shown = board(bob)
    assert (len(shown.items), shown.waiting) == (5, 10)
    assert (str(shown.items[0].title), shown.items[0].kind) == ("Claims “Likes tea.”", "Contradiction")
    assert "1 fact about subject 8" in [str(item.title) for item in shown.items]
    assert board(charlie).waiting == 11
    assert shown.items_left == 5
    assert "5 more" in text_of(browser(bob))
    assert "10 items wait for a reviewer" in text_of(browser(alice))


def test_failed_jobs_are_told_with_their_remedy(ada: Agent, bruno: Agent, bob: User) -> None:
    for number, status in enumerate(("dead", "dead", "failed", "done")):
        Job.objects.create(
            key=f"k{number}", handler="webhook", agent=ada, status=status, finished_at=ago(hours=number + 1)
        )
    (failure,) = board(bob).failures
    assert (failure.title, failure.brief, failure.at) == ("2 jobs failed permanently", "2 jobs failed", ago(hours=2))
    page = text_of(browser(bob))
    assert '<a class="queue-title" href="/lifecycle/?status=dead">2 jobs failed permanently</a>' in page
    assert "remove the causes and try them again" in page


def test_failing_webhooks_are_told_to_those_who_manage_them(ada: Agent, bob: User, charlie: User) -> None:
    admin = Principal.of_user(charlie)
    url = "https://hooks.example.org/secret-path"
    first, _ = webhook_create(agent=ada, url=url, scopes=["memory:read"], by=admin)
    assert board(charlie).failures == []
    Webhook.objects.filter(pk=first.pk).update(failures=3)
    (failure,) = board(charlie).failures
    assert failure.title == "The webhook of Ada to hooks.example.org does not deliver after 3 failed attempts"
    Webhook.objects.filter(pk=first.pk).update(failures=12, state="disabled")
    (failure,) = board(charlie).failures
    assert "was disabled after 12 failed attempts" in failure.title
    assert "then activate it" in failure.remedy
    page = text_of(browser(charlie))
    assert f'href="{first.get_absolute_url()}"' in page
    assert "secret-path" not in page
    assert board(bob).failures == []


def test_a_failing_expectation_is_told_by_its_question(ada: Agent, bob: User, reviewer: Principal) -> None:
    given = {"agent": ada, "by": reviewer, "requirement": "present", "target": "text"}
    one = expectation_create(**given, request=request_of("Which database?"), text="MariaDB")
    expectations_verify(agent=ada, by=reviewer)
    shown = dashboard(Principal.of_user(bob), clock.now() - HOUR)
    assert [failure.title for failure in shown.failures] == ["The expectation of Ada for “Which database?” fails"]
    assert shown.failures[0].url == one.get_absolute_url()
    assert [(group["title"], group["lines"][0]["what"]) for group in shown.news or []] == [
        ("Expectations that began to fail", "Which database?")
    ]
    assert dashboard(Principal.of_user(bob), clock.now() + HOUR).news == []
    expectation_create(**given, request=request_of("Which queue?"), text="RabbitMQ")
    expectations_verify(agent=ada, by=reviewer)
    shown = dashboard(Principal.of_user(bob), clock.now())
    assert [failure.title for failure in shown.failures] == ["2 expectations of Ada fail"]


def test_items_are_listed_by_risk_and_then_by_age(ada: Agent, bruno: Agent, system: Principal, bob: User) -> None:
    tea = fact_learn(agent=ada, content="Likes tea.", by=system).fact
    for _ in range(10):
        run(ada, ago(days=1))
    ask(ada, "compaction", ago(days=5), subject="tea", facts=[tea.pk])
    with clock.at(ago(days=2)):
        identity_propose(agent=bruno, section="values", content="Truth first.", by=system)
    ask(ada, "contradiction", ago(days=3), new=tea)
    assert [(item.entry.risk, item.when[1]) for item in board(bob).items] == [
        ("high", ago(days=2)), ("medium", ago(days=3)), ("low", ago(days=5))
    ]  # fmt: skip


# What changed since they were here


def test_changes_of_others_are_told_by_what_they_are_about(
    ada: Agent, actor: Principal, bob: User, charlie: User
) -> None:
    other = Principal.of_user(charlie)
    with clock.at(ago(days=2)):
        proposal = identity_propose(agent=ada, section="values", content="Truth first.", by=actor).proposal
        proposal_approve(proposal=proposal, by=other)
        old = fact_learn(agent=ada, content="Lives in Oslo.", by=other).fact
        new = fact_learn(agent=ada, content="Moved to Bergen.", exclude=[old.pk], by=other).fact
        fact_supersede(old=old, new=new, by=other)
        censor_create(agent=ada, pattern="rm -rf", severity="block", by=other)
    with clock.at(ago(hours=1)):
        identity_propose(agent=ada, section="preferences", content="Tea.", by=actor)
        older = fact_learn(agent=ada, content="Drinks tea.", by=actor).fact
        newer = fact_learn(agent=ada, content="Drinks water.", exclude=[older.pk], by=actor).fact
        fact_supersede(old=older, new=newer, by=actor)
    told = {
        group["title"]: [(line["did"], line["what"], line["by"]) for line in group["lines"]]
        for group in board(bob).news or []
    }
    assert told == {
        "Applied without review": [("wrote", "Preferences version 1", "")],
        "Identity": [("approved", "Values version 1", "")],
        "Facts changed by people": [("replaced the fact", "Lives in Oslo.", "Moved to Bergen.")],
        "Decided without people": [("replaced the fact", "Drinks tea.", "Drinks water.")],
        "Censors": [("added the censor", "rm -rf", "")],
    }
    identity_propose(agent=ada, section="values", content="Truth last.", by=other)
    assert "Truth <del>first</del><ins>last</ins>." in text_of(browser(bob))
    assert [group["title"] for group in board(bob, since=ago(days=1)).news or []] == [
        "Applied without review",
        "Identity",
        "Decided without people",
    ]
    # One's own changes are no news.
    assert [group["title"] for group in board(charlie).news or []] == [
        "Applied without review",
        "Decided without people",
    ]
    client = browser(bob)
    for group in board(bob).news or []:
        urls = [group["url"], *(line["url"] for line in group["lines"])]
        assert [client.get(url).status_code for url in urls] == [200] * len(urls)


def test_many_changes_are_counted_and_the_latest_are_told(ada: Agent, system: Principal, bob: User) -> None:
    for number in range(5):
        with clock.at(ago(hours=5 - number)):
            censor_create(agent=ada, pattern=f"pattern {number}", severity="warn", by=system)
    (group,) = board(bob).news or []
    assert ([line["what"] for line in group["lines"]], group["rest"]) == (["pattern 4", "pattern 3", "pattern 2"], "2")


def test_changes_of_the_subconscious_need_the_permission(ada: Agent, bob: User, charlie: User) -> None:
    AuditEvent.objects.create(
        author_kind="token", author_id="1", author_name="dreams", agent=ada, agent_slug="ada", persona="subconscious",
        action="fact.supersede", object_type="fact", object_id="x", object_label="Seems tired.", at=ago(hours=1),
    )  # fmt: skip
    assert board(bob).news == []
    assert [group["title"] for group in board(charlie).news or []] == ["Decided without people"]


def test_a_visit_lasts_until_home_was_not_opened_for_half_an_hour(ada: Agent, bob: User) -> None:
    client = browser(bob)
    start = clock.now() - 5 * DAY

    def since(after: timedelta) -> timedelta:
        with clock.at(start + after):
            told: timedelta = client.get(reverse("home")).context["board"].since - start
        # The browser keeps whole seconds.
        return timedelta(seconds=round(told.total_seconds() / 10) * 10)

    assert since(timedelta()) == -14 * DAY
    assert "Changed by others in the last 14 days" in text_of(browser(bob))
    assert since(BREAK / 2) == BREAK / 2 - 14 * DAY
    assert since(2 * HOUR) == BREAK / 2
    assert since(2 * HOUR + BREAK / 2) == BREAK / 2
    assert "Changed by others since you were here" in text_of(client)
    # Where the browser knows of no visit, a log-in elsewhere tells of one.
    SignIn.objects.create(person=bob, session_key="elsewhere", created_at=start - 2 * DAY)
    client.cookies.pop("last_visit")
    assert since(timedelta()) == -2 * DAY


@pytest.mark.parametrize("value", ["", "1", "1.2.3.4", "9.9999999999.9999999999", "x.y.z", "-1.0.0"])
def test_a_visit_that_was_written_by_others_is_ignored_or_harmless(ada: Agent, bob: User, value: str) -> None:
    client = browser(bob)
    client.cookies["last_visit"] = value.replace("9.", f"{bob.pk}.", 1)
    answer = client.get(reverse("home"))
    assert answer.status_code == 200
    assert answer.context["board"].since <= clock.now()


# Prompts


def test_prompts_are_compared_with_the_days_before_where_both_have_enough(ada: Agent, bruno: Agent, bob: User) -> None:
    for number in range(4):
        run(ada, ago(hours=number + 1))
        run(ada, ago(days=8))
    run(bruno, ago(days=1))
    run(ada, ago(days=1), persona="subconscious")
    run(ada, ago(days=20))
    assert (board(bob).figures[0].value, board(bob).figures[0].trend) == ("9", None)
    for _ in range(4):
        run(ada, ago(days=20))
    assert board(bob).figures[0].trend == Trend(9, 5)


def test_prompts_of_fourteen_days_are_drawn_with_their_reported_success(ada: Agent, bob: User) -> None:
    assert board(bob).figures == []
    for outcome in ("success", "failure", ""):
        run(ada, ago(days=2), tokens=300, outcome=outcome)
    shown = board(bob).figures
    assert [(figure.label, figure.value, figure.unit) for figure in shown] == [
        ("Prompts", "3", "1 of 2 reported succeeded"), ("Mean prompt", "≈ 300", "tokens")
    ]  # fmt: skip
    assert [figure.points[-3][1] for figure in shown] == [3, 300]
    assert shown[0].failed[-3] == 1
    assert [figure.points[-1] for figure in shown] == [("Today", 0), ("Today", None)]
    run(ada, clock.now(), outcome="success")
    page = text_of(browser(bob))
    assert "Prompts: at most 1, Today 1" in page
    assert 'text-anchor="middle">1</text>' in page, "the greatest column says its value"
    assert page.count("<span>Today</span>") == 2
    assert f'href="{reverse("usage")}">Usage</a>' in page


def test_expectations_of_fourteen_days_are_drawn_with_those_that_failed(
    ada: Agent, bob: User, reviewer: Principal
) -> None:
    run(ada, ago(days=2))
    given = {"agent": ada, "by": reviewer, "requirement": "present", "target": "text", "text": "MariaDB"}
    one, other = (expectation_create(**given, request=request_of(words)) for words in ("Which?", "Where?"))
    for expectation, state, days in (
        (one, "failed", 20),
        (one, "passed", 5),
        (other, "passed", 3),
        (other, "failed", 1),
    ):
        ExpectationResult.objects.filter(expectation=expectation).update(is_current=False)
        ExpectationResult.objects.create(agent=ada, expectation=expectation, state=state, since=ago(days=days))
    shown = board(bob).figures[-1]
    assert (shown.label, shown.value, shown.unit) == ("Expectations", "1", "of 2 hold")
    assert [value for _, value in shown.points] == [1] * 10 + [2] * 4
    assert shown.failed == [1] * 8 + [0] * 4 + [1] * 2
    with noon():
        page = text_of(browser(bob))
    assert "Expectations: 10 of 14 days with a failure" in page
    assert (page.count('<rect class="spark-passed"'), page.count('<rect class="chart-failed"')) == (4, 10)
    ExpectationResult.objects.filter(state="failed").update(state="passed")
    shown = board(bob).figures[-1]
    assert ([value for _, value in shown.points], any(shown.failed)) == ([1] * 10 + [2] * 4, False)
    assert shown.note.startswith("No failure in 14 days")


def test_prompts_that_failed_are_listed_with_what_failed(ada: Agent, bob: User, charlie: User) -> None:
    run(ada, ago(days=20), outcome="failure")
    run(ada, ago(days=1), outcome="success")
    run(ada, ago(days=3), input="Which queue?", outcome="failure", response="The old one.")
    run(ada, ago(days=2), input="Which database?", failed_sections=[["episodes", "timeout"]])
    run(ada, ago(hours=1), input="A secret", outcome="failure", persona="subconscious")
    run(ada, ago(hours=2), input="Which disk?", outcome="success", finding="changed")
    assert [(one["question"], one["answer"], one["why"]) for one in board(bob).failed_prompts] == [
        ("Which database?", "", "Section missing"), ("Which queue?", "The old one.", ""),
        ("Which disk?", "", "Not supported by memory"),
    ]  # fmt: skip
    assert len(board(charlie).failed_prompts) == 4
    client = browser(bob)
    with noon():
        page = text_of(client)
    for one in board(bob).failed_prompts:
        assert client.get(reverse("agent_context_run", args=[one["slug"], one["key"]])).status_code == 200
        assert reverse("agent_context_bisect", args=[one["slug"], one["key"]]) in page
        assert f"{reverse('agent_expectations', args=['ada'])}?run={one['key']}#new" in page


def test_failures_rose_is_said_only_where_it_cannot_be_chance(ada: Agent, bob: User) -> None:
    for number in range(12):
        run(ada, ago(days=1), outcome="failure" if number < 1 else "success")
        run(ada, ago(days=16), outcome="success")
    client = browser(bob)
    with noon():
        page = text_of(client)
    assert "Failures rose" not in page, "one of twelve may be chance"
    link = f"{reverse('agent_context_runs', args=['ada'])}?outcome=failure"
    assert f'<a href="{link}">All that failed</a>' in page
    assert {shown.outcome for shown in client.get(link).context["rows"]} == {"failure"}
    for _ in range(8):
        run(ada, ago(days=1), outcome="failure")
    rose = "<p>Failures rose: <strong>9 of 20</strong> reported prompts failed, in the 14 days before 0 of 12.</p>"
    with noon():
        assert rose in text_of(client)


# Health


def test_all_is_well_only_when_it_is(
    well: None, ada: Agent, actor: Principal, alice: User, bob: User, charlie: User
) -> None:
    def told(person: User) -> tuple[str, list[tuple[str, str]]]:
        shown = board(person)
        return shown.state, [(alert["words"], alert["kind"]) for alert in shown.alerts]

    run(ada, ago(days=1))
    assert told(charlie) == ("All is well", [])
    # Who may not see webhooks cannot say so.
    assert told(bob) == ("Nothing waits for review", [])
    Job.objects.create(key="k", handler="webhook", agent=ada, status="dead", finished_at=ago(hours=1))
    assert told(charlie) == ("Nothing waits for review", [("1 job failed", "block")])
    Job.objects.all().delete()
    LogVerification.objects.update(problems=2)
    assert told(charlie) == ("Nothing waits for review", [("The log is not as it was sealed", "block")])
    LogVerification.objects.update(problems=0, finished_at=ago(days=9))
    assert told(charlie) == ("Nothing waits for review", [("The log is verified too long ago", "warn")])
    LogVerification.objects.all().delete()
    assert told(charlie) == ("Nothing waits for review", [])
    seal = {
        "format": 1,
        "kind": "audit",
        "persona": "actor",
        "number": 1,
        "first": 1,
        "count": 1,
        "root": "",
        "hash": "",
    }
    LogSeal.objects.create(serial=1, sealed_at=ago(days=3), **seal)
    assert told(charlie) == ("Nothing waits for review", [("The log is not verified", "warn")])
    assert f'<a class="badge badge-warn" href="{reverse("integrity")}">The log is not' in text_of(browser(charlie))
    LogVerification.objects.create(status="done", asked_by="schedule", finished_at=ago(hours=2))
    identity_propose(agent=ada, section="values", content="Truth first.", by=actor)
    assert told(charlie) == ("1 item waits for your review", [])
    assert board(alice).state == "1 item waits for a reviewer"
    run(ada, ago(hours=1), failed_sections=[["episodes", "timeout"]])
    assert told(charlie) == (
        "1 item waits for your review", [("The assembly of prompts is incomplete", "warn")]
    )  # fmt: skip


def test_fine_checks_are_folded(well: None, ada: Agent, bob: User) -> None:
    run(ada, clock.now() - DAY)
    LogVerification.objects.update(finished_at=clock.now())
    assert sum(one.is_fine for one in board(bob).checks) == 8
    page = text_of(browser(bob))
    assert "<summary>System checks: nothing is wrong</summary>" in page
    assert "badge-warn" not in page


def test_health_names_a_silent_worker(ada: Agent, bob: User, charlie: User) -> None:
    OrmQ.objects.all().delete()
    worker = check(board(charlie), "Background worker")
    assert (worker.kind, worker.word) == ("block", "silent")
    assert worker.detail.endswith("Nothing waits.")
    OrmQ.objects.create(key="nous", payload="", lock=ago(hours=2))
    OrmQ.objects.create(key="nous", payload="", lock=NOON + HOUR)
    worker = check(board(charlie), "Background worker")
    assert (worker.detail.endswith("1 task waits."), worker.at) == (True, ago(hours=2))
    # The subconscious's tasks are among them.
    worker = check(board(bob), "Background worker")
    assert (worker.kind, "task" in worker.detail, worker.at) == ("block", False, None)


def test_health_tells_waiting_memories_the_same_in_whatever_order_the_database_groups_them() -> None:
    waiting = [
        ("pending", "ada", "Ada", kind, count, NOON) for kind, count in (("fact", 1), ("event", 2), ("decision", 1))
    ]
    told = {index_check(rows, both=False).detail for rows in (waiting, waiting[::-1])}
    assert told == {"2 events, 1 decision and 1 fact cannot be found by meaning yet."}


def test_health_says_which_memories_cannot_be_found(ada: Agent, bruno: Agent, system: Principal, bob: User) -> None:
    assert check(board(bob), "Search index").is_fine
    for agent, content in ((ada, "Likes tea."), (ada, "Lives in Oslo."), (bruno, "Sings.")):
        with clock.at(ago(hours=2)):
            fact_learn(agent=agent, content=content, by=system)
    SearchItem.objects.update(status=IndexStatus.PENDING)
    assert check(board(bob), "Search index").is_fine, "only passages wait"
    SearchItem.objects.update(model="", embedding=None)
    index = check(board(bob), "Search index")
    assert (index.kind, index.word, index.at) == ("warn", "behind", ago(hours=2))
    assert index.detail == "3 facts cannot be found by meaning yet."
    SearchItem.objects.filter(agent=ada).update(status=IndexStatus.FAILED, error="refused")
    index = check(board(bob), "Search index")
    assert (index.kind, index.detail) == ("block", "2 facts of Ada cannot be found by meaning.")
    client = browser(bob)
    assert f'<a href="{index.url}">{index.remedy}</a>' in text_of(client)
    assert client.get(index.url).status_code == 200
    SearchItem.objects.update(status=IndexStatus.FAILED)
    assert check(board(bob), "Search index").detail == "3 facts of Ada and Bruno cannot be found by meaning."


def test_health_names_the_index_model_and_its_migration(ada: Agent, bob: User, settings: Any) -> None:
    EmbeddingModel.objects.all().delete()
    assert check(board(bob), "Embedding model").word == "not used yet"
    settings.EMBEDDER, settings.EMBED_MODEL = "openai", "new"
    EmbeddingModel.objects.create(name="openai:old", dimension=1_536, state="active")
    assert check(board(bob), "Embedding model").word == "different from the settings"
    EmbeddingModel.objects.create(name="openai:new", dimension=768, state="building")
    assert check(board(bob), "Embedding model").word == "moving"
    settings.EMBED_MODEL = "old"
    EmbeddingModel.objects.filter(state="building").delete()
    assert check(board(bob), "Embedding model").detail == "openai:old, 1,536 dimensions."


def test_health_shows_the_judges_spending_and_last_error(ada: Agent, bob: User, settings: Any) -> None:

    def call(at: datetime, tokens: int, error: str = "", persona: str = "actor", task: str = "relation") -> None:
        JudgeCall.objects.create(
            agent=ada, persona=persona, task=task, model="m", prompt_version="1", attempts=1,
            tokens_in=tokens, duration_ms=1, error=error, created_at=at,
        )  # fmt: skip

    call(ago(days=1), 100, error="The model is busy.", task="chat")
    assert check(board(bob), "Judge").word == "off"
    settings.JUDGE = "anthropic"
    settings.JUDGE_DAILY_TOKENS = 0
    call(ago(days=8), 500)
    call(ago(days=1), 200)
    assert check(board(bob), "Judge").kind == "ok"
    call(ago(hours=2), 0, error="x" * 500)
    call(ago(hours=1), 0, error="of the subconscious", persona="subconscious")
    judge = check(board(bob), "Judge")
    assert (judge.kind, judge.at) == ("warn", ago(hours=2))
    assert judge.detail.startswith("1 of 2 calls failed")
    assert judge.detail.endswith("The last error: " + "x" * ERROR_CHARACTERS)
    # The budget is of the real day, whatever day is told.
    call(datetime.now(UTC), 1_000)
    settings.JUDGE_DAILY_TOKENS = 1_000
    assert check(board(bob), "Judge").word == "out of tokens for today"
    assert "1,000 of 1,000 (100 %) tokens today" in check(board(bob), "Judge").detail


# The page


def test_home_without_a_role_shows_nothing_and_says_why(ada: Agent, db: None) -> None:
    run(ada, clock.now() - HOUR)
    page = text_of(browser(User.objects.create_user("nobody")))
    assert "Your account has no role" in page
    # As a word: a random token of the page may hold these letters.
    assert not re.search(r"\bAda\b", page)


def test_home_part_needs_the_permission_of_its_page(ada: Agent, actor: Principal, db: None) -> None:
    identity_propose(agent=ada, section="values", content="Truth first.", by=actor)
    run(ada, ago(hours=1))
    person = User.objects.create_user("dora")

    def may(*codenames: str) -> Dashboard:
        person.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        return board(User.objects.get(pk=person.pk))

    def names(*codenames: str) -> list[str]:
        return [one.name for one in may(*codenames).checks]

    shown = may("view_agent")
    assert (shown.items, shown.failures, shown.figures, shown.news) == ([], [], [], None)
    assert [one.name for one in shown.checks] == ["Background worker"]
    assert names("view_searchitem") == ["Search index", "Embedding model", "Judge"]
    assert names("view_contextrun") == ["Assembly of prompts"]
    assert names("view_auditevent") == ["Log"]
    assert names("view_expectation", "view_job", "manage_webhook") == ["Expectations", "Jobs", "Webhooks"]
    assert [str(item.title) for item in may("view_changeproposal").items] == ["Adds “Truth first.”"]
    assert may("view_memoryreview").items == []
    assert may("view_auditevent").news is not None


def test_home_of_a_person_with_some_agents_tells_of_no_other(
    ada: Agent, bruno: Agent, actor: Principal, reviewer: Principal, bob: User
) -> None:
    from identity.models import AgentLimit

    AgentLimit.objects.create(person=bob, agents=[bruno.pk])
    identity_propose(agent=ada, section="values", content="Truth first.", by=actor)
    run(ada, ago(hours=1), failed_sections=[["episodes", "timeout"]])
    Job.objects.create(key="k", handler="webhook", agent=ada, status="dead", finished_at=ago(hours=1))
    fact_learn(agent=ada, content="Likes tea.", by=actor)
    SearchItem.objects.update(status=IndexStatus.FAILED)
    AuditEvent.objects.create(
        author_kind="token", author_id="1", author_name="one", agent=ada, agent_slug="ada", persona="actor",
        action="censor.create", object_type="censor", object_id="x", object_label="rm", at=ago(hours=1),
    )  # fmt: skip
    shown = board(User.objects.get(pk=bob.pk))
    assert (shown.items, shown.waiting, shown.failures, shown.news) == ([], 0, [], [])
    assert shown.figures == []
    assert {"Search index", "Assembly of prompts"} <= {one.name for one in shown.checks if one.is_fine}
    assert not re.search(r"\bAda\b", text_of(browser(bob)))


def test_home_of_a_new_installation_shows_the_next_step(bob: User, charlie: User) -> None:
    assert reverse("agent_new") in text_of(browser(charlie))
    page = text_of(browser(bob))
    assert "An administrator connects the first agent" in page
    assert reverse("agent_new") not in page


def test_home_offers_a_token_for_a_silent_agent(ada: Agent, bob: User, charlie: User) -> None:
    page = text_of(browser(charlie))
    assert "No memories yet" in page
    assert f'<a class="btn" href="{reverse("agent_connect", args=["ada"])}"' in page
    assert "Connect your agent" not in text_of(browser(bob))
    Fact.objects.create(agent=ada, content="Likes tea.")
    assert "No memories yet" not in text_of(browser(charlie))


# What it costs


def test_home_number_of_queries_is_constant(
    ada: Agent, actor: Principal, bob: User, django_assert_num_queries: Any
) -> None:
    client = browser(bob)
    client.cookies["agent"] = "ada"
    url = reverse("home")
    identity_propose(agent=ada, section="values", content="Truth first.", by=actor)
    ask(ada, "compaction", ago(days=1), subject="tea", facts=[])
    run(ada, clock.now() - HOUR)
    LogVerification.objects.create(status="done", asked_by="schedule", finished_at=ago(hours=2))
    client.get(url)
    now = clock.now()
    for number in (0, 400):
        Fact.objects.bulk_create(
            Fact(agent=ada, content=f"Fact {place}.", recorded_at=now - place * HOUR) for place in range(number)
        )
        Agent.objects.bulk_create(Agent(slug=f"a{place}", name=f"A{place}") for place in range(number // 10))
        for place in range(number // 20):
            run(ada, now - place * HOUR)
        with django_assert_num_queries(QUERIES):
            assert client.get(url).status_code == 200


QUERIES = 21 if CITUS_URL else 11
"""Of one page for a reviewer: five of the session and the console's frame, the rest as told in each reader."""

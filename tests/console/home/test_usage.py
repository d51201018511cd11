"""The page of usage: its figures on a history that is told, who sees what, and what it costs."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from context.models import ContextRun, MemoryUsage
from identity.models import Agent
from identity.principal import Principal
from identity.services.proposals import identity_propose
from memory.models import Event, Fact
from memory.services.decisions import decision_record
from memory.services.facts import fact_invalidate, fact_learn, fact_supersede
from nousweb.console.home.context_calls import RUNS_READ, usage_refresh
from nousweb.console.home.period import Period, Trend
from nousweb.console.home.usage import Usage, usage
from nousweb.console.templatetags.parts import chart_columns, trend
from nousweb.lib import clock
from tests.console.home.moments import DAY, HOUR, NOON, ago, noon
from tests.http import browser


def board(user: User, **query: str) -> Usage:
    """What this person sees at noon, of seven days."""
    asked = QueryDict(mutable=True)
    asked.update({"days": "7"} | query)
    with noon():
        return usage(Principal.of_user(user), asked)


def run(agent: Agent, at: datetime, tokens: int = 100, **fields: Any) -> ContextRun:
    sections = [
        {"label": "Identity", "tier": 1, "tokens": tokens // 2, "items": []},
        {"label": "Relevant Facts", "tier": 3, "tokens": tokens - tokens // 2, "items": []},
    ]
    given = {
        "agent": agent,
        "persona": "actor",
        "session_id": "s",
        "input": "Hello",
        "request": {},
        "system_prompt": "",
        "sections": sections,
        "tokens": tokens,
        "duration_ms": 10.0,
        "principal_name": "tests",
        "created_at": at,
    }
    return ContextRun.objects.create(**(given | fields))


def use(of: ContextRun, item: str, tokens: int, referenced: bool, at: datetime) -> None:
    MemoryUsage.objects.create(
        run=of, agent=of.agent, persona=of.persona, item_type="fact", item_id=item, referenced=referenced,
        overlap=1.0, tokens=tokens, section="Relevant Facts", at=at,
    )  # fmt: skip


def growth(shown: Usage, key: str) -> Any:
    return next(row for row in shown.memory if row.counted_type.key == key)


def states(shown: Usage, key: str) -> dict[str, float]:
    return {state.label: state.value for state in growth(shown, key).states}


# Periods


def test_period_of_a_week_is_whole_days_compared_with_the_week_before() -> None:
    period = Period(7, NOON)
    assert period.start == datetime(2026, 3, 4, tzinfo=UTC)
    assert period.moments[-1] == datetime(2026, 3, 10, tzinfo=UTC)
    assert len(period.moments) == 7
    assert period.earlier == datetime(2026, 2, 25, tzinfo=UTC)
    assert period.name(period.moments[-1]) == "Tue 10 Mar"


def test_period_of_a_day_is_whole_hours() -> None:
    period = Period(1, NOON + timedelta(minutes=20))
    assert period.moments[0] == datetime(2026, 3, 9, 13, tzinfo=UTC)
    assert period.moments[-1] == NOON
    assert len(period.moments) == 24
    assert period.earlier == datetime(2026, 3, 8, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "before", "arrow", "words"),
    [
        (120, 100, "↑", "20 from 100"),
        (9, 10, "↓", "1 from 10"),
        (5, 5, "", "unchanged"),
        (0, 0, "", "unchanged"),
        (3, 0, "↑", "3 from 0"),
        (2.6, 1.25, "↑", "2 from 1"),
        (19.4, 18.6, "", "unchanged"),
        (2_000, 1_204, "↑", "796 from 1,204"),
        (500, 10, "↑", "490 from 10"),
        (127, 27, "↑", "100 from 27"),
        (2_500, 100, "↑", "2,400 from 100"),
        (None, 5, "", "unchanged"),
        (5, None, "", "no earlier data"),
        (1_001, 1_000, "", "unchanged"),
    ],
)
def test_trend_names_how_a_figure_moved(now: float | None, before: float | None, arrow: str, words: str) -> None:
    assert (Trend(now, before).arrow, Trend(now, before).words) == (arrow, words)


def test_the_percentage_of_a_change_stands_beside_it_where_it_says_something() -> None:
    shown = trend(Trend(2_000, 1_204), "the week before")
    assert '>up </span>796 from 1,204<span class="faint"> (66 %)</span></span>' in shown
    assert [Trend(*of).percent for of in ((9, 10), (2_500, 100), (1_001, 1_000), (None, 500))] == [""] * 4
    assert Trend(2_000, 1_204).sentence("the week before") == "66 % more than in the week before"


def test_trend_of_a_share_is_in_points() -> None:
    assert (Trend(35, 40, points=True).arrow, Trend(35, 40, points=True).words) == ("↓", "5 points from 40 %")
    assert Trend(1, 0, points=True).words == "1 point from 0 %"
    assert Trend(35, 40, points=True).sentence("the week before") == "5 points less than in the week before"
    assert Trend(40.2, 40, points=True).words == "unchanged"
    assert Trend(17.4, 23.6, points=True).words == "7 points from 24 %", "the difference of the numbers shown"


# Memory


def test_memory_figures_count_by_state_and_by_time(ada: Agent, system: Principal, bob: User) -> None:
    with clock.at(ago(days=10)):
        old = fact_learn(agent=ada, content="Lives in Bergen.", by=system).fact
        wrong = fact_learn(agent=ada, content="Hates tea.", by=system).fact
    with clock.at(ago(days=2)):
        new = fact_learn(agent=ada, content="Lives in Oslo.", exclude=[old.pk], by=system).fact
        fact_supersede(old=old, new=new, by=system)
        fact_invalidate(fact=wrong, reason="A joke.", by=system)
        decision_record(agent=ada, description="Use Postgres.", by=system)
    shown = board(bob)
    assert states(shown, "fact") == {"active": 1, "marked as wrong": 1, "replaced": 1}
    assert states(shown, "decision") == {"to review": 1}
    assert {sum(state.width for state in row.states) for row in shown.memory if row.total} == {100.0}, "each its own"
    facts = growth(shown, "fact")
    assert (facts.total, facts.new) == (3, Trend(1, 2))
    assert [(label, count) for label, count in facts.added if count] == [("Sun 8 Mar", 1)]
    assert growth(shown, "event").total == 0
    assert growth(board(bob, days="1"), "fact").new == Trend(0, 0)
    assert growth(board(bob, days="30"), "fact").new == Trend(3, 0)
    assert dict(shown.memory_rows)["Sun 8 Mar"][0] == 1


def test_memory_figures_of_the_subconscious_need_the_permission(ada: Agent, bob: User, charlie: User) -> None:
    Fact.objects.create(agent=ada, content="Seems tired.", persona="subconscious", recorded_at=ago(days=1))
    run(ada, ago(hours=2), persona="subconscious")
    assert growth(board(bob), "fact").total == 0
    assert growth(board(charlie), "fact").total == 1
    mine, all_of_it = board(bob).calls, board(charlie).calls
    assert (mine.calls.now, all_of_it.calls.now) == (0, 1)


# Calls


def test_context_calls_are_counted_timed_and_compared(ada: Agent, bruno: Agent, bob: User) -> None:
    run(ada, ago(hours=1), tokens=300, duration_ms=10, responded_at=ago(hours=1), outcome="success")
    run(ada, ago(days=1, hours=1), tokens=100, duration_ms=30)
    run(bruno, ago(days=1, hours=1), tokens=200, duration_ms=20, outcome="failure")
    run(ada, ago(days=8), tokens=150, duration_ms=40)
    # Later in the day than now, a week earlier: the two periods have the same length.
    run(ada, ago(days=7) + HOUR)
    run(ada, ago(days=40))
    calls = board(bob).calls
    assert calls.calls == Trend(3, 1)
    assert calls.trends["tokens"] == Trend(200, 150)
    assert calls.trends["p95"] == Trend(pytest.approx(29), 40)
    assert calls.trends["answered"] == Trend(33.33, 0)
    assert calls.trends["success"] == Trend(50, None)
    assert [figure.unit for figure in calls.figures if "%" in figure.value] == ["of 3 prompts", "of 2 reported"]
    by_day = {column.label: column for column in calls.columns}
    assert (by_day["Tue 10 Mar"].calls, by_day["Mon 9 Mar"].calls, by_day["Mon 9 Mar"].calls_before) == (1, 2, 1)
    assert (by_day["Mon 9 Mar"].tokens, by_day["Sun 8 Mar"].tokens) == (150, None)
    chart = calls.drawing.chart
    monday = next(column for column in chart.columns if column.title == "Mon 9 Mar: 2 prompts, 1 failed")
    assert (monday.bar.height, monday.value, chart.axis) == (160, "2", ("2", "1", "0"))
    assert chart.note == "A dot is a day without prompts: 5 of 7."
    assert not any(one.point.told_before for one in chart.columns), "with one prompt of the period before"
    outcomes = board(bob, chart="success").calls.drawing.chart
    assert outcomes.parts == (
        ("1 succeeded", "chart-bar"), ("1 not reported", "chart-rest"), ("1 failed", "chart-failed")
    )  # fmt: skip
    monday = next(column for column in outcomes.columns if column.place == monday.place)
    assert monday.title == "Mon 9 Mar: 2 prompts (1 not reported, 1 failed)"
    assert [(look, height) for look, _, height in monday.parts if height] == [("chart-rest", 80), ("chart-failed", 80)]
    ContextRun.objects.filter(outcome="success").update(finding="coming")
    assert board(bob, chart="success").calls.drawing.chart.parts[0] == ("1 not supported by memory", "seg-3")
    assert {board(bob, chart=figure.key).calls.drawing.key for figure in calls.figures} == {
        "calls", "tokens", "p95", "answered", "referenced", "success"
    }  # fmt: skip
    alone = board(bob, agent="ada").calls
    assert alone.calls == Trend(2, 1)
    in_a_day = board(bob, days="1").calls
    assert in_a_day.calls == Trend(1, 2)


def test_context_calls_sections_have_tokens_and_references(ada: Agent, bob: User) -> None:
    first, second = run(ada, ago(hours=3), tokens=100), run(ada, ago(hours=2), tokens=300)
    use(first, "a", 30, True, ago(hours=3))
    use(first, "b", 10, False, ago(hours=3))
    use(second, "a", 40, False, ago(hours=2))
    earlier = run(ada, ago(days=8), tokens=80)
    use(earlier, "a", 20, True, ago(days=8))
    ContextRun.objects.filter(pk=first.pk).update(failed_sections=[["episodes", "timeout"]])
    calls = board(bob).calls
    found = {section.label: section for section in calls.sections}
    assert found["Identity"].tokens == Trend(100, 40)
    assert found["Identity"].share == Trend(None, None)
    assert found["Relevant Facts"].share == Trend(37.5, 100)
    assert (found["Relevant Facts"].width, found["Relevant Facts"].referenced_width) == (100, 37.5)
    assert calls.trends["referenced"] == Trend(37.5, 100)
    assert (calls.runs_read, calls.failed_sections) == (2, 1)


def test_shares_of_whole_days_are_those_that_were_summed(ada: Agent, bob: User) -> None:
    """Whenever the worker summed them, each period has the figures that its rows give."""
    told = run(ada, ago(hours=1))
    for place in range(190):
        use(told, f"f{place}", 10 + place % 7, place % 3 == 0, ago(days=place, hours=place % 13))

    def shown() -> list[Any]:
        boards = (
            board(bob, **query)
            for days in ["1", "7", "30", "90"]
            for query in ({"days": days}, {"days": days, "agent": "ada"})
        )
        return [(one.calls.trends["referenced"], [section.share for section in one.calls.sections]) for one in boards]

    live = shown()
    assert all(now != before for (now, before) in ((one.now, one.before) for one, _ in live))
    for summed in (ago(days=100), ago(days=10, hours=3), ago(hours=1)):
        with clock.at(summed):
            usage_refresh(ada, both=False)
            usage_refresh(None, both=False)
        assert shown() == live
    MemoryUsage.objects.filter(at__lt=NOON.replace(hour=0)).delete()
    # The part of a day with which the period before ends, and hours, are of the rows; whole days are of the last sum.
    assert [one.now for one, _ in shown()[2:]] == [one.now for one, _ in live[2:]]


def test_few_points_are_drawn_as_more_are(ada: Agent, bob: User) -> None:
    now = clock.now()
    Fact.objects.create(agent=ada, content="Likes tea.", recorded_at=now)
    run(ada, now)
    day = Period(7, now).name(Period(7, now).moments[-1])
    client = browser(bob)

    def page() -> str:
        return " ".join(client.get(reverse("usage")).content.decode().split())

    shown = page()
    assert re.findall(r'<text class="chart-value[^>]*>([^<]*)</text>', shown) == ["1"]
    assert re.search(rf'aria-label="New facts by day: at most 1, {day} 1"', shown)
    for days in (1, 1, 2):
        run(ada, now - days * DAY)
        Fact.objects.create(agent=ada, content=f"Likes {days}.", recorded_at=now - days * DAY)
    shown = page()
    values = re.findall(r'<text class="chart-value[^>]*>([^<]*)</text>', shown)
    assert [int(value) for value in values] == [1, 2, 1], "each of few"
    assert re.search(r"<text class=\"spark-most[^>]*>2</text>", shown), "on its column"
    period = Period(14, clock.now())
    ends = f"<span>{period.short(period.moments[0])}</span><span>Today</span>"
    assert f'New by day <span class="figure-days" aria-hidden="true">{ends}' in shown, "the time at both ends"
    assert "None in the last 14 days" in shown, "a type without new memories has no chart"
    small = re.search(r'<svg class="spark"[^>]*aria-label="New facts by day: at most 2, [^"]* 1">(.*?)</svg>', shown)
    assert small
    assert re.findall(r"<title>[^<]*: ([^<]*)</title>", small[1]) == ["0"] * 11 + ["1", "2", "1"]
    assert 'id="calls-chart-title"' in shown


def test_failed_prompts_are_drawn_on_top_of_the_others(ada: Agent, bob: User) -> None:
    for days in range(3):
        run(ada, ago(days=days, hours=1), outcome="success")
        run(ada, ago(days=days, hours=1), outcome="failure" if days == 1 else "success")
    drawn = board(bob).calls.drawing.chart
    (failed,) = [column for column in drawn.columns if column.title.endswith("2 prompts, 1 failed")]
    assert [(look, tall) for look, _, tall in failed.parts if tall] == [
        ("chart-bar", failed.bar.height / 2),
        ("chart-failed", failed.bar.height / 2),
    ]
    assert (drawn.every, drawn.parts) == ("5 succeeded", (("1 failed", "chart-failed"),))


def test_means_are_compared_only_where_both_periods_have_prompts_enough(ada: Agent, bob: User) -> None:
    for _ in range(4):
        run(ada, ago(hours=1), tokens=200)
        run(ada, ago(days=8), tokens=100)
    run(ada, ago(hours=1), tokens=200)
    assert {figure.trend for figure in board(bob).calls.figures} == {None}
    run(ada, ago(days=8), tokens=100)
    calls = board(bob).calls
    assert next(figure for figure in calls.figures if figure.label == "Mean prompt").trend == Trend(200, 100)
    tokens = board(bob, chart="tokens").calls.drawing
    assert tokens.said == "≈ 200 tokens on average, 100 % more than in the 7 days before"
    assert calls.drawing.said == "5 in total, about as many as in the 7 days before"
    titles = [column.title for column in calls.drawing.chart.columns]
    assert "Mon 9 Mar: 0 prompts. 7 days earlier: 5" in titles
    assert chart_columns(calls.drawing.chart).count("7 days earlier: ") == 7, "each day says it where it is pointed at"


def test_context_calls_over_the_limit_use_the_latest(ada: Agent, bob: User) -> None:
    old = run(ada, ago(days=2), tokens=10)
    copies = []
    for number in range(RUNS_READ):
        copy = ContextRun(**{f.name: getattr(old, f.name) for f in ContextRun._meta.fields if f.name != "id"})
        copy.created_at = ago(hours=1) + timedelta(milliseconds=number)
        copy.sections = [{"label": "Identity", "tier": 1, "tokens": 500, "items": []}]
        copies.append(copy)
    ContextRun.objects.bulk_create(copies)
    shown = board(bob)
    assert [(section.label, section.tokens.now) for section in shown.calls.sections] == [("Identity", 500)]
    assert shown.calls.runs_read == RUNS_READ


# Agents


def test_agents_with_pending_items_are_listed_first(ada: Agent, bruno: Agent, actor: Principal, bob: User) -> None:
    run(bruno, ago(hours=1))
    Fact.objects.create(agent=bruno, content="Likes tea.")
    with clock.at(ago(days=1)):
        identity_propose(agent=ada, section="values", content="Truth first.", by=actor)
    rows = board(bob).agents
    assert [(row["agent"].slug, *list(row.values())[1:]) for row in rows] == [
        ("ada", 1, 0, Trend(0, 0), None),
        ("bruno", 0, 1, Trend(1, 0), ago(hours=1)),
    ]


# The page


def test_usage_without_prompts_is_a_sentence(ada: Agent, bob: User) -> None:
    page = browser(bob).get("/usage/").content.decode()
    assert "No prompt in the last 14 days, and none in the 14 days before." in page
    assert "Mean prompt" not in page, "no figures that nothing was measured for"


def test_usage_shows_the_figures_with_links(ada: Agent, bob: User) -> None:
    run(ada, clock.now() - HOUR, tokens=1_234)
    fact_learn(agent=ada, content="Likes tea.", by=Principal.of_system("tests"))
    page = browser(bob).get(reverse("usage"), {"days": "1", "agent": "ada"}).content.decode()
    assert "≈ 1,234" in page
    assert '<option value="ada" selected>' in page
    assert 'href="?days=30&amp;agent=ada"' in page
    assert 'href="/agents/ada/facts/"' in page
    assert "style=" not in page


def test_usage_ignores_an_unknown_period_and_refuses_an_unknown_agent(ada: Agent, bob: User) -> None:
    for days in ("", "0", "-1", "8", "seven", "٧"):
        assert board(bob, days=days).period.days == 14
    client = browser(bob)
    assert client.get(reverse("usage"), {"agent": "nobody"}).status_code == 404
    assert client.get(reverse("usage"), {"agent": "a\x00"}).status_code == 400


def test_usage_part_needs_the_permission_of_its_page(ada: Agent, db: None) -> None:
    run(ada, ago(hours=1))
    Fact.objects.create(agent=ada, content="Likes tea.")
    person = User.objects.create_user("dora")

    def may(*codenames: str) -> User:
        person.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        return User.objects.get(pk=person.pk)

    assert browser(may("view_agent")).get(reverse("usage")).status_code == 403
    shown = board(may("view_contextrun"))
    assert (shown.memory, shown.agents, shown.calls.calls) == ([], [], Trend(1, 0))
    shown = board(may("view_contextrun", "view_agent"))
    assert (shown.agents[0]["facts"], shown.agents[0]["calls"]) == (0, Trend(1, 0))
    assert [row.counted_type.key for row in board(may("view_contextrun", "view_fact")).memory] == ["fact"]


# What it costs


def test_usage_number_of_queries_is_constant(ada: Agent, bob: User, django_assert_num_queries: Any) -> None:
    client = browser(bob)
    url = reverse("usage")
    client.get(url)
    now = clock.now()
    for number in (0, 400):
        Fact.objects.bulk_create(
            Fact(agent=ada, content=f"Fact {place}.", recorded_at=now - place * HOUR) for place in range(number)
        )
        Event.objects.bulk_create(
            Event(agent=ada, persona="actor", ts=now, loop_id="l", kind="user_input", visibility="self", content="x")
            for _ in range(number)
        )
        Agent.objects.bulk_create(Agent(slug=f"a{place}", name=f"A{place}") for place in range(number // 10))
        for place in range(number // 20):
            use(run(ada, now - place * HOUR), f"i{place}", 5, True, now - place * HOUR)
        for days in ("1", "7", "30", "90"):
            with django_assert_num_queries(QUERIES):
                assert client.get(url, {"days": days}).status_code == 200
    with django_assert_num_queries(QUERIES - 2):
        assert client.get(url, {"agent": "ada"}).status_code == 200


def test_usage_queries_read_one_period_or_count(ada: Agent, bob: User) -> None:
    client = browser(bob)
    client.get(reverse("usage"))
    with CaptureQueriesContext(connection) as queries:
        client.get(reverse("usage"))
    runs = [query["sql"] for query in queries if 'FROM "context_contextrun"' in query["sql"]]
    assert runs
    assert all('"created_at" >=' in sql and '"created_at" <' in sql for sql in runs)


QUERIES = 15
"""Of one page for a reviewer: five of the session and the console's frame, the rest as told in each reader."""

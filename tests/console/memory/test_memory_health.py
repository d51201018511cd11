"""The health of a memory: each finding lists its facts, the score follows, and nobody sees the other persona's."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from context.feedback.health_findings import FINDINGS
from context.models import MemoryUsage
from context.services.agent_settings import context_pin
from identity.models import AuditEvent
from memory.models import Episode, EpisodeEvent, Fact
from memory.services.facts.changes import fact_invalidate
from nousweb.console.memory.views import memory_health
from nousweb.console.tasks import keep_figures, keep_health_scores
from nousweb.lib import clock
from tests.factories import make_events, make_facts, make_principal, make_review, make_run
from tests.http import browser

PAGE = "/agents/ada/health/"
LONG_AGO = timedelta(days=200)


def listed(person, finding, query=""):
    return [row.content for row in person.get(f"{PAGE}{finding}/{query}").context["rows"]]


def numbers(person, query=""):
    health = person.get(f"{PAGE}{query}").context["health"]
    return health, {count.finding.key: count.number for count in health.counts if count.number}


def show(run, fact, times=1, **more):
    """Note `fact` as shown in so many prompts like `run`."""
    for _ in range(times):
        run.pk = None if _ else run.pk
        if run.pk is None:
            run._state.adding = True
            run.pk = run._meta.pk.get_default()
            run.save()
        MemoryUsage.objects.create(
            run=run, agent=run.agent, persona=run.persona, item_type="fact", item_id=str(fact.pk),
            **{"referenced": False, "overlap": 0.0, "tokens": 10, **more},
        )  # fmt: skip


def test_each_finding_lists_its_facts(ada, actor, system, bob):
    person, now = browser(bob), clock.now()
    assert person.get(PAGE).context["health"].score is None
    old = {"recorded_at": now - LONG_AGO}
    sound, fading = make_facts(ada, ["The harbour has a crane.", "The dock has rust."], system, **old)
    make_facts(ada, ["Tea is at four."], system, recorded_at=now - timedelta(days=1))
    make_facts(ada, ["tea is at four"], system)
    make_facts(ada, ["Tea is at four.", "The fair has ended."], system, valid_until=now - timedelta(days=1))
    make_facts(ada, ["The fair will begin."], system, valid_from=now + timedelta(days=1), **old)
    (often,) = make_facts(ada, ["Rope is sold by the metre."], system)
    (taste,) = make_facts(ada, ["Mira prefers tables to prose."], system, category="preference")
    (wish,) = make_facts(ada, ["Chain is sold by weight."], system)
    context_pin(agent=ada, item_type="fact", item_id=str(wish.pk), by=system)
    run = make_run(ada, actor)
    for fact in (often, taste, wish):
        show(run, fact, 5)
    show(run, sound, referenced=True)
    review = make_review(ada, system, "The pier closes in storms.", "The pier stays open in storms.", subject="pier")
    (gone,) = make_facts(ada, ["Mira keeps bees."], system, active=False, retired_at=now, recorded_at=now - LONG_AGO)
    show(make_run(ada, actor), gone)
    (again,) = make_facts(ada, ["Mira keeps bees!"], system)
    expected = {
        "duplicates": ["tea is at four"],
        "stale": ["The dock has rust."],
        "unshown": ["The dock has rust."],
        "unreferenced": ["Rope is sold by the metre."],
        "contested": [review.new.content, review.old.content],
        "loops": [again.content],
    }
    for finding in FINDINGS:
        assert listed(person, finding) == expected.get(finding, []), finding
    health, found = numbers(person)
    assert found == {key: len(facts) for key, facts in expected.items()}
    total = Fact.objects.current().filter(agent=ada).count()
    lost = sum(FINDINGS[key].weight * number for key, number in found.items())
    assert (health.facts, health.score) == (total, int(10 * (100 - 100 * lost / total)) / 10)
    segments = person.get(PAGE).context["segments"]
    assert sum(segment.value for segment in segments) == pytest.approx(100)
    problems = person.get(PAGE).context["problems"]
    assert all(person.get(one["url"]).status_code == 200 for one in problems)
    assert f"of {total} facts, " in " ".join(person.get(PAGE).content.decode().split())
    (contested,) = [one for one in problems if one["finding"].key == "contested"]
    assert contested["formula"] == f"2 of {total} × 50"
    assert sum(one["points"] for one in problems) == pytest.approx(100 - health.score), "one rounding"
    facts = {text for text, _ in contested["facts"]}
    assert facts == {review.new.content, review.old.content}, "each finding names its facts"
    assert [person.get(url).status_code for _, url in contested["facts"]] == [200, 200]
    points = [one["points"] for one in problems]
    assert points == sorted(points, reverse=True), "what costs most first"
    assert {one.finding.key for one in person.get(PAGE).context["sound"]} == FINDINGS.keys() - found.keys()
    page = person.get(f"{PAGE}contested/").content.decode()
    assert review.get_absolute_url() in page
    assert f"/facts/{fading.pk}/confirm/" in person.get(f"{PAGE}stale/").content.decode()
    page = person.get(f"{PAGE}unreferenced/").content.decode()
    assert f"/facts/{often.pk}/supersede/" in page
    assert f"/facts/{often.pk}/invalidate/" not in page, "nobody has contradicted it"
    assert "data-bulkbar" not in page, "nothing helps several at once"


def test_many_facts_are_changed_at_once_and_taken_back(ada, actor, system, alice, bob):
    old = {"recorded_at": clock.now() - LONG_AGO}
    first, second, third = make_facts(
        ada, ["The dock has rust.", "The pier is wet.", "The lamp is out."], system, **old
    )
    show(make_run(ada, actor), make_facts(ada, ["Tea is at four."], system)[0])
    person, bulk = browser(bob), f"{PAGE}stale/changes/"
    chosen = {"fact": [first.pk, second.pk], "reason": "Nobody knows."}
    assert browser(alice).post(bulk, chosen | {"action": "invalidate"}).status_code == 403
    assert "Select" not in browser(alice).get(f"{PAGE}stale/").content.decode()
    foreseen = person.post("/agents/ada/context/blast/", chosen).content.decode()
    assert "2 facts marked as wrong together" in foreseen
    assert len(listed(person, "stale")) == 3, "nothing is written by looking"
    page = person.post(bulk, chosen | {"action": "invalidate"}, follow=True)
    assert page.context["rows"] == [third]
    assert set(Fact.objects.exclude(invalidated_at=None)) == {first, second}
    assert set(AuditEvent.objects.filter(action="fact.invalidate").values_list("message", flat=True)) == {
        "Nobody knows."
    }
    undo = page.context["undo"]
    assert (undo["what"], undo["many"]) == ("2 facts", True)
    again = person.post(bulk, chosen | {"action": "invalidate"}, follow=True).content.decode()
    assert "already marked as wrong" in again
    assert "Restored: 2 facts." in person.post(undo["url"], follow=True).content.decode()
    assert len(listed(person, "stale")) == 3
    assert "Confirmed: 2 facts." in person.post(bulk, chosen | {"action": "confirm"}, follow=True).content.decode()
    assert listed(person, "stale") == ["The lamp is out."]
    assert "Nothing was selected." in person.post(bulk, {"action": "confirm"}, follow=True).content.decode()
    assert person.post(bulk, chosen | {"action": "forget"}).status_code == 404


def test_finding_with_many_facts_names_some_of_them(ada, system, bob):
    told = [f"Lamp {number} is out." for number in range(7)]
    make_facts(ada, told, system, recorded_at=clock.now() - LONG_AGO)
    person = browser(bob)

    def named():
        page = " ".join(person.get(PAGE).content.decode().split())
        assert "and 4 more" in page
        return [text for text in told if f">{text}</a>" in page]

    assert len(named()) == 3
    assert named() == named(), "the same ones each time"


def test_scores_of_past_days_are_kept_and_drawn_from_the_second_on(ada, actor, system, bob):
    person, now = browser(bob), clock.now()
    make_facts(ada, ["Tea is at four.", "Rope is sold by the metre."], system, recorded_at=now - LONG_AGO)
    assert "drawn here from the second day on" in person.get(PAGE).content.decode()
    with clock.at(now - timedelta(days=1)):
        assert keep_health_scores() == 2, "for those who see the actor's memory, and for those who see both"
        assert keep_health_scores() == 0, "nothing is new"
    make_facts(ada, ["tea is at four"], system)
    trend = person.get(PAGE).context["trend"]
    shown = [column.point for column in trend["chart"].columns]
    before, today = (point.value for point in shown[-2:])
    assert ({point.value for point in shown[:-2]}, today) == ({None}, person.get(PAGE).context["score"])
    assert before == 75 > today == person.get(PAGE).context["health"].score
    assert f"{today:g} today, {before - today:g} points lower than on" in trend["said"]
    assert [point.mark for point in shown[-2:]] == ["", "ring"], "where a kind of finding began"
    assert trend["chart"].columns[-1].title.endswith(f": {today:g} of 100, “Duplicates” began")
    page = person.get(PAGE).content.decode()
    assert f">{today:g}</text>" in page, "the last one is told"
    changed = f'<span>{now.day} {now:%b}</span> <span class="grow">“Duplicates” began</span>'
    assert f"{changed} <span>{before:g} → {today:g}</span>" in " ".join(page.split())
    assert "Prompts tell the agent the same thing twice." in page
    yesterday = now - timedelta(days=1)
    assert keep_health_scores() == 2
    make_facts(ada, ["TEA is at four"], system)
    make_run(ada, actor)
    assert keep_health_scores() == 2, "it is that of now, as the page counts it"
    home = " ".join(person.get("/").content.decode().split())
    assert f"{person.get(PAGE).context['score']:g} <small>of 100</small>" in home
    assert f"since {yesterday.day} {yesterday:%b}: duplicates" in home, "what made it drop"
    trend = person.get(PAGE).context["trend"]
    assert keep_figures() == 0
    assert person.get(PAGE).context["trend"] == trend, "they are not deleted with the figures of large memories"


def test_chart_names_the_finding_that_ended(ada, system, bob):
    past = clock.now() - timedelta(days=2)
    _, again = make_facts(ada, ["Tea is at four.", "tea is at four"], system, recorded_at=past)
    with clock.at(clock.now() - timedelta(days=1)):
        keep_health_scores()
    fact_invalidate(fact=again, by=system)
    assert "“Duplicates” ended</span>" in browser(bob).get(PAGE).content.decode()


def test_near_repetition_of_what_the_session_was_told_is_a_loop(ada, actor, system, bob):
    told, other = make_facts(
        ada, ["Mira keeps forty bees behind the old boathouse.", "Rope is sold by the metre."], system
    )
    run = make_run(ada, actor, session="bees")
    show(run, told)
    show(run, other)
    (event,) = make_events(ada, actor, "We spoke of Mira.", loop_id="bees")
    episode = Episode.objects.create(agent=ada, title="Bees")
    EpisodeEvent.objects.create(agent=episode.agent, episode=episode, event=event)
    make_facts(
        ada,
        ["mira keeps forty bees behind the old boathouse, too", "Rope is sold."],
        system,
        source_episode=episode,
    )
    assert listed(browser(bob), "loops") == ["mira keeps forty bees behind the old boathouse, too"]


def test_held_fact_is_listed_with_its_question(ada, actor, bob, api, actor_token):
    told = {"content": "The password of the harbour master is hunter2hunter2, key AKIAIOSFODNN7EXAMPLE."}
    answer = api.as_token(actor_token).post("/facts", told)
    assert answer.status_code < 300, answer.content
    person = browser(bob)
    assert len(listed(person, "quarantined")) == 1
    assert "Open the review" in person.get(f"{PAGE}quarantined/").content.decode()
    health, found = numbers(person)
    assert (found, health.score) == ({"quarantined": 1}, 0)


def test_ledger_puts_tokens_without_use_first(ada, actor, system, bob):
    cheap, useful, costly = make_facts(ada, ["Cheap.", "Useful.", "Costly."], system)
    run = make_run(ada, actor)
    show(run, cheap)
    show(run, useful, tokens=900, referenced=True)
    show(run, costly, 2, tokens=400)
    person = browser(bob)

    def rows(query=""):
        return [
            (row["use"].text, row["use"].included, row["use"].percent)
            for row in person.get(f"{PAGE}tokens/{query}").context["rows"]
        ]

    assert rows() == [("Costly.", 800, 0), ("Cheap.", 10, 0), ("Useful.", 900, 100)]
    assert [text for text, *_ in rows("?sort=told")] == ["Useful.", "Costly.", "Cheap."]
    assert [text for text, *_ in rows("?sort=most&days=7")] == ["Useful.", "Costly.", "Cheap."]
    MemoryUsage.objects.update(at=clock.now() - timedelta(days=8))
    assert rows("?days=7") == []


def test_other_persona_is_for_those_with_the_right(ada, actor, system, bob, charlie):
    dreamer = make_principal(ada, "subconscious")
    make_facts(ada, ["A dream of the sea.", "a dream of the sea"], system, persona="subconscious")
    secret = make_run(ada, dreamer)
    show(secret, Fact.objects.get(content="A dream of the sea."))
    person = browser(bob)
    assert numbers(person)[0].score is None
    assert person.get(f"{PAGE}tokens/").context["rows"] == []
    assert person.get(f"{PAGE}?persona=subconscious").status_code == 403
    owner = browser(charlie)
    assert listed(owner, "duplicates") == []
    assert listed(owner, "duplicates", "?persona=subconscious") == ["a dream of the sea"]
    [problem] = [one for one in owner.get(f"{PAGE}?persona=subconscious").context["problems"] if one["facts"]]
    assert owner.get(problem["facts"][0][1]).status_code == 200
    assert len(owner.get(f"{PAGE}tokens/?persona=subconscious").context["rows"]) == 1


@pytest.mark.parametrize("page", ["", "duplicates/", "loops/", "tokens/"])
def test_number_of_statements_stays_and_lists_are_paged(ada, actor, system, bob, page):
    person = browser(bob)

    def counted():
        with CaptureQueriesContext(connection) as asked:
            answer = person.get(f"{PAGE}{page}")
        assert answer.status_code == 200
        return len(asked), answer

    run = make_run(ada, actor)
    show(run, make_facts(ada, ["Number one"], system)[0])
    make_facts(ada, ["number one.", "Number one!"], system)
    counted()
    before, _ = counted()
    show(run, make_facts(ada, ["Number one"] * 60, system)[0])
    after, answer = counted()
    assert after == before
    if page in ("duplicates/", "loops/"):
        first = answer.context["page"]
        second = person.get(f"{PAGE}{page}?after={first.next}").context["page"]
        assert len(first.rows) == 50
        assert second.rows
        assert not {fact.pk for fact in first.rows} & {fact.pk for fact in second.rows}


def test_finding_says_in_how_many_prompts_its_facts_were(ada, actor, system, bob, monkeypatch):
    facts = make_facts(ada, ["Tea is at four.", "tea is at four"], system)
    person = browser(bob)
    assert "answered prompt" not in person.get(PAGE).content.decode()
    run = make_run(ada, actor)
    for fact in facts:
        show(run, fact)
    assert "In 1 answered prompt of the last 7 days." in person.get(PAGE).content.decode()
    monkeypatch.setattr(memory_health, "USES_READ", 2)
    run = make_run(ada, actor)
    for fact in facts:
        show(run, fact)
    assert "In at least 2 answered prompts of the last 7 days." in person.get(PAGE).content.decode(), "not all are read"

"""The page of one fact, and what reviewers do there."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils.html import escape

from context.services.context import context_respond
from identity.models import Agent, AuditEvent
from identity.principal import Principal
from memory.models import Fact, SearchItem
from memory.services.facts import fact_invalidate, fact_learn, fact_restore, fact_supersede
from nousweb.console.memory.timeline import known_spans, timeline_of
from nousweb.lib import clock
from tests.factories import make_events, make_fact, make_run
from tests.http import browser, markup

URL = "agent_fact"


@pytest.fixture
def subconscious(ada: Agent, subconscious_token: str) -> Principal:
    return Principal.of_token(ada.tokens.get(persona="subconscious"))


@pytest.fixture
def fact(ada: Agent, actor: Principal) -> Fact:
    return fact_learn(agent=ada, content="Tim <b>sails</b>.", subject="Tim", tags=["sport"], by=actor).fact


def page_of(user: User, fact: Fact, query: str = "") -> Any:
    return browser(user).get(reverse(URL, args=["ada", fact.pk]) + query)


def change(user: User, fact: Fact, what: str, **given: str) -> Any:
    return browser(user).post(reverse("agent_fact_change", args=["ada", fact.pk, what]), given)


def test_fact_page_names_its_sources_down_to_the_event(
    ada: Agent, actor: Principal, subconscious: Principal, alice: User, fact: Fact
) -> None:
    run = make_run(ada, actor, "Where is Tim?", "loop 1/a")
    told, dreamt = (
        make_events(ada, by, "Good morning. Tim took the boat.", loop_id="loop 1/a")[0] for by in (actor, subconscious)
    )
    known = fact_learn(agent=ada, content="Tim took a boat.", source=f"event {told.pk}", by=actor).fact
    text = page_of(alice, known).content.decode()
    assert "<mark>Tim took the boat.</mark>" in text
    assert reverse("agent_event", args=["ada", told.pk]) in text
    assert reverse("agent_loop", args=["ada", "loop 1/a"]) in text
    assert run.get_absolute_url() in text
    assert "Where is Tim?" in text
    text = page_of(alice, fact).content.decode()
    assert "Tim &lt;b&gt;sails&lt;/b&gt;." in text
    assert "none recorded" in text
    # What another persona holds is no source that can be read.
    other = fact_learn(agent=ada, content="Tim dives.", source=f"event {dreamt.pk}", by=actor).fact
    assert other.source_event is None
    assert "took the boat" not in page_of(alice, other).content.decode()


def test_fact_page_chain_is_ordered_on_each_of_its_facts(ada: Agent, actor: Principal, bob: User, fact: Fact) -> None:
    by = Principal.of_user(bob)
    chain = [fact]
    for content in ("Tim rows.", "Tim swims.", "Tim rests."):
        new = fact_learn(agent=ada, content=content, by=actor).fact
        fact_supersede(old=chain[-1], new=new, by=by, reason="Older now.", score=0.875)
        chain.append(new)
    alone = fact_learn(agent=ada, content="Tim reads.", by=actor).fact
    for link in chain:
        line = page_of(bob, link).context["line"]
        assert [lane.fact.pk for lane in line.lanes] == [each.pk for each in chain]
    text = page_of(bob, chain[0]).content.decode()
    assert "Older now." in text
    assert "0.875" in text
    assert page_of(bob, alone).context["line"] is None


def test_fact_page_offers_viewers_no_change(alice: User, fact: Fact, subtests: pytest.Subtests) -> None:
    text = page_of(alice, fact).content.decode()
    for what in ["confirm", "supersede", "invalidate", "edit"]:
        with subtests.test(what=what):
            assert reverse("agent_fact_change", args=["ada", fact.pk, what]) not in text
            assert change(alice, fact, what, content="Tim rows.").status_code == 403
            assert Fact.objects.get() == fact
            assert fact.changes.count() == 1


def test_fact_is_confirmed_superseded_and_restored(bob: User, fact: Fact) -> None:
    assert change(bob, fact, "confirm", reason="Saw it.").status_code == 302
    answer = change(bob, fact, "supersede", content="Tim rows.", reason="He sold the boat.")
    new = Fact.objects.get(content="Tim rows.")
    assert answer.url == reverse(URL, args=["ada", new.pk])
    fact.refresh_from_db()
    assert (fact.superseded_by, fact.confirmation_count, new.subject, new.tags) == (new, 1, "Tim", ["sport"])
    assert change(bob, fact, "restore").status_code == 302
    fact.refresh_from_db()
    assert fact.active
    assert [each.action for each in fact.changes.all()] == ["restored", "superseded", "confirmed", "stored"]


def test_replacement_states_the_new_value_of_the_attribute(bob: User, fact: Fact) -> None:
    Fact.objects.filter(pk=fact.pk).update(attribute="hobby", value="sailing")
    assert change(bob, fact, "supersede", content="Tim rows.", value="rowing").status_code == 302
    new = Fact.objects.get(content="Tim rows.")
    assert (new.attribute, new.value) == ("hobby", "rowing")
    assert (
        change(bob, new, "supersede", content="Tim is a pilot.", attribute="Job_title", value="pilot").status_code
        == 302
    )
    new = Fact.objects.get(content="Tim is a pilot.")
    assert (new.attribute, new.value) == ("job title", "pilot")


def test_fact_replacement_refused_leaves_nothing_learned(bob: User, fact: Fact) -> None:
    answer = change(bob, fact, "supersede", content="Tim rows.", at="2999-01-01T00:00")
    assert answer.status_code == 422
    assert "Tim rows." in answer.content.decode()
    assert Fact.objects.count() == 1


def test_fact_change_after_a_concurrent_one_is_refused(bob: User, fact: Fact) -> None:
    assert change(bob, fact, "invalidate").status_code == 302
    answer = change(bob, fact, "invalidate", reason="Again.")
    assert answer.status_code == 409
    assert "already marked as wrong" in answer.content.decode()


def test_fact_recategorisation_keeps_the_content(bob: User, fact: Fact) -> None:
    given = {"category": "person", "scope": "task", "importance": "0.9", "tags": "sea, sport", "content": "Tim rows."}
    assert change(bob, fact, "edit", **given).status_code == 302
    fact.refresh_from_db()
    assert (fact.content, fact.category, fact.scope, fact.tags) == (
        "Tim <b>sails</b>.",
        "person",
        "task",
        ["sea", "sport"],
    )
    assert change(bob, fact, "edit", **{**given, "category": "No Word"}).status_code == 422


def test_fact_change_of_an_unknown_kind_is_not_found(bob: User, fact: Fact) -> None:
    assert browser(bob).get(reverse("agent_fact_change", args=["ada", fact.pk, "forget"])).status_code == 404


def test_fact_page_of_the_subconscious_needs_the_permission(
    ada: Agent, subconscious: Principal, bob: User, charlie: User
) -> None:
    hidden = fact_learn(agent=ada, content="It hesitates.", by=subconscious).fact
    facts = reverse("agent_facts", args=["ada"])
    assert "It hesitates." not in browser(charlie).get(facts).content.decode()
    shown = browser(charlie).get(f"{facts}?persona=subconscious").content.decode()
    assert "It hesitates." in shown
    assert "Subconscious</span>" in shown
    assert browser(bob).get(f"{facts}?persona=subconscious").status_code == 403
    assert page_of(charlie, hidden).status_code == 404
    assert page_of(charlie, hidden, "?persona=subconscious").status_code == 200
    assert page_of(bob, hidden, "?persona=subconscious").status_code == 403


def test_timeline_tells_which_prompts_had_each_version(ada: Agent, actor: Principal, alice: User, bob: User) -> None:
    """Where their answers were reported; of what is wrong, its button stands beside that to confirm it."""
    by, question = Principal.of_user(bob), "How long do carts live?"
    old = make_fact(ada, "The carts of checkout live for 24 hours.", by)
    make_run(ada, actor, question, "unanswered")
    for number in range(2):
        run = make_run(ada, actor, question, f"s{number}")
        context_respond(run=run, response="The carts live for 24 hours.", by=actor)
    new = make_fact(ada, "The carts of checkout live for 30 minutes.", by)
    fact_supersede(old=old, new=new, by=by)
    page = page_of(bob, new)
    assert [len(lane.dots) for lane in page.context["line"].lanes] == [2, 0]
    address = f"{reverse('agent_context_runs', args=['ada'])}?memory=fact:{old.pk}&answered=1"
    assert f'href="{escape(address)}">in 2 answered prompts</a>' in markup(page)
    listed = browser(bob).get(address).context["rows"]
    assert {row.pk for row in listed} == {run for _, _, run in page.context["line"].lanes[0].dots}
    assert all(f'href="{row.get_absolute_url()}" tabindex="-1"' in markup(page) for row in listed), "a dot each"
    records = browser(bob).get(f"{reverse('audit')}?object=fact:{new.pk}")
    assert f'href="{records.wsgi_request.get_full_path()}"' in markup(page)
    assert "Mark as wrong" not in markup(page_of(alice, new))


def test_facts_filters_of_tags_scope_state_and_time(ada: Agent, actor: Principal, bob: User, fact: Fact) -> None:
    before = clock.now()
    wrong = fact_learn(agent=ada, content="Tim flies.", scope="task", by=actor).fact
    fact_invalidate(fact=wrong, by=Principal.of_user(bob))

    def shown(**query: str) -> list[str]:
        return [each.content for each in browser(bob).get(reverse("agent_facts", args=["ada"]), query).context["page"]]

    assert shown(tag="sport") == [fact.content]
    assert shown(scope="task") == []
    assert shown(scope="task", state="wrong") == ["Tim flies."]
    assert shown(as_of=before.isoformat()) == [fact.content]
    assert shown(as_of=(before - timedelta(days=1)).isoformat()) == []


@pytest.mark.parametrize("days", [5, 29, 400])
def test_timeline_names_the_days_of_changes_and_between_them_midnights_at_even_distances(days: int) -> None:
    now = clock.now()
    line = timeline_of([Fact(content="A fact.", recorded_at=now - timedelta(days=days, hours=5))])
    recorded, *named = (day for _, day in line.ticks)
    assert recorded == now - timedelta(days=days, hours=5)
    assert {(day.hour, day.minute) for day in named} == {(0, 0)}
    assert len({after - before for before, after in pairwise(named)}) <= 1
    assert [x for x, _ in line.ticks] == [
        pytest.approx(100 * (day - line.begin) / (line.end - line.begin)) for day in (recorded, *named)
    ]


def test_fact_bitemporal_chart_follows_what_happened(ada: Agent, actor: Principal, bob: User, fact: Fact) -> None:
    by = Principal.of_user(bob)
    fact_restore(fact=fact_invalidate(fact=fact, by=by), by=by)
    fact.refresh_from_db()
    changes = list(fact.changes.all())
    gone, back = changes[1].at, changes[0].at
    assert known_spans(fact, changes) == [(fact.recorded_at, gone), (back, None)]
    (lane,) = timeline_of([fact], changes).lanes
    assert [bar.end is None or bar.end == gone for bar in lane.known] == [True, False]
    assert [stroke.look for stroke in lane.strokes] == ["known", "known"]
    assert all(stroke.x >= 0 and stroke.x + stroke.width <= 100.001 for stroke in lane.strokes)
    fact.valid_from, fact.valid_until = clock.now().replace(year=1), clock.now().replace(year=9999)
    (lane,) = timeline_of([fact], changes).lanes
    assert lane.valid.width == pytest.approx(100, abs=5)
    assert [stroke.look for stroke in lane.strokes] == ["valid", "known", "known"]


def test_fact_page_number_of_queries_is_constant(
    ada: Agent, actor: Principal, bob: User, fact: Fact, django_assert_num_queries: Any
) -> None:
    for number in range(5):
        new = fact_learn(agent=ada, content=f"Tim rows {number}.", by=actor).fact
        fact = fact_supersede(old=fact, new=new, by=Principal.of_user(bob))[1]
    client = browser(bob)
    client.get("/login/")
    with django_assert_num_queries(19):
        client.get(reverse(URL, args=["ada", fact.pk]))


def test_fact_erasure_gives_a_receipt(bob: User, charlie: User, fact: Fact) -> None:
    url = reverse("agent_fact_erase", args=["ada", fact.pk])
    assert browser(bob).get(url).status_code == 403
    client = browser(charlie)
    assert client.post(url, {"reason": "Asked by Tim.", "name": "bruno"}).status_code == 422
    assert Fact.objects.exists()
    answer = client.post(url, {"reason": "Asked to.", "name": "ada"}, follow=True)
    assert "Erased permanently" in answer.content.decode()
    assert "sails" not in answer.content.decode()
    assert not Fact.objects.exists()
    assert not SearchItem.objects.filter(item_type="fact").exists()
    assert AuditEvent.objects.filter(action="fact.erase").count() == 1


def test_subject_erasure_by_an_administrator(ada: Agent, actor: Principal, charlie: User, fact: Fact) -> None:
    fact_learn(agent=ada, content="Ann rows.", subject="Ann", by=actor)
    url = f"{reverse('agent_subject_erase', args=['ada'])}?subject=tim"
    assert browser(charlie).post(url, {"reason": "Asked to.", "name": "tim"}).status_code == 302
    assert [each.subject for each in Fact.objects.all()] == ["Ann"]
    assert browser(charlie).get(url).status_code == 404


def test_facts_count_of_one_is_singular(ada: Agent, actor: Principal, alice: User, fact: Fact) -> None:
    page = markup(browser(alice).get(reverse("agent_facts", args=["ada"])))
    assert "> 1 fact </p>" in page
    fact_learn(agent=ada, content="Bananas are yellow.", by=actor)
    page = markup(browser(alice).get(reverse("agent_facts", args=["ada"])))
    assert "> 2 facts </p>" in page

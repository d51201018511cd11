"""What happens to a fact after it was learned, in valid and in recorded time."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from identity.models import AuditEvent
from identity.principal import Principal
from memory.models import SAME_WORDS, Fact, FactChange, SearchItem
from memory.services.facts import fact_confirm, fact_invalidate, fact_learn, fact_restore, fact_supersede
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, DomainError, NotAllowed, NotFound
from tests.api.problems import assert_problem

DAY = [datetime(2026, 3, day, 12, tzinfo=UTC) for day in range(1, 29)]


def learn(agent, by, content, at=None, **fields):
    with clock.at(at or DAY[0]):
        return fact_learn(agent=agent, by=by, content=content, **fields).fact


@pytest.fixture
def person(bob):
    return Principal.of_user(bob)


@pytest.fixture
def chain(ada, actor):
    """A from day 0, replaced by B on day 5, replaced by C on day 10."""
    towns = (("Rome", DAY[0]), ("Oslo", DAY[5]), ("Lima", DAY[10]))
    facts = [learn(ada, actor, f"Tim lives in {town}.", at) for town, at in towns]
    return [Fact.objects.get(pk=fact.pk) for fact in facts]


def test_fact_chain_has_only_its_last_active(chain):
    assert list(Fact.objects.active()) == [chain[2]]
    assert [fact.superseded_by_id for fact in chain] == [chain[1].pk, chain[2].pk, None]
    assert dict(SearchItem.objects.values_list("item_id", "active")) == {
        str(chain[0].pk): False,
        str(chain[1].pk): False,
        str(chain[2].pk): True,
    }


def test_fact_chain_has_one_fact_at_every_moment(chain, subtests):
    for day, expected in [(0, [0]), (3, [0]), (5, [1]), (7, [1]), (10, [2]), (20, [2])]:
        with subtests.test(day=day, expected=expected):
            shown = [chain[place] for place in expected]
            assert list(Fact.objects.as_of(DAY[day])) == shown
            assert list(Fact.objects.recorded_as_of(DAY[day])) == shown
            assert list(Fact.objects.valid_at(DAY[day])) == shown


def test_fact_history_is_empty_before_it_was_recorded(chain):
    moment = DAY[0] - timedelta(seconds=1)
    assert not Fact.objects.as_of(moment).exists()
    assert not Fact.objects.recorded_as_of(moment).exists()
    # The first has no beginning in the world that anyone told.
    assert list(Fact.objects.valid_at(moment)) == [chain[0]]


def test_fact_learned_late_was_valid_before_it_was_recorded(ada, actor):
    rome, oslo = learn(ada, actor, "Rome"), learn(ada, actor, "Oslo", DAY[9])
    with clock.at(DAY[10]):
        fact_supersede(old=rome, new=oslo, by=actor, at=DAY[4])
    rome.refresh_from_db(), oslo.refresh_from_db()
    assert (rome.valid_until, rome.retired_at, oslo.valid_from) == (DAY[4], DAY[10], DAY[4])
    assert list(Fact.objects.recorded_as_of(DAY[6])) == [rome]
    assert list(Fact.objects.valid_at(DAY[6])) == [oslo]
    assert not Fact.objects.as_of(DAY[6]).exists()


def test_fact_superseded_stays_in_the_past_and_invalidated_leaves_it(ada, actor, person):
    was, never = learn(ada, actor, "was true"), learn(ada, actor, "never was")
    new = learn(ada, actor, "is true", DAY[5])
    with clock.at(DAY[5]):
        fact_supersede(old=was, new=new, by=person)
        fact_invalidate(fact=never, by=person, reason="a typo")
    assert list(Fact.objects.as_of(DAY[3])) == [was]
    assert set(Fact.objects.recorded_as_of(DAY[3])) == {was, never}
    assert list(Fact.objects.recorded_as_of(DAY[6])) == [new]
    assert never not in Fact.objects.valid_at(DAY[3])


def test_fact_superseded_may_be_invalidated(chain, person):
    with clock.at(DAY[12]):
        fact_invalidate(fact=chain[0], by=person)
    old = Fact.objects.get(pk=chain[0].pk)
    assert (old.retired_at, old.invalidated_at) == (DAY[5], DAY[12])
    assert not Fact.objects.as_of(DAY[3]).exists()
    with pytest.raises(Conflict):
        fact_invalidate(fact=old, by=person)


def test_fact_restored_was_not_recorded_while_retired(chain, person):
    with clock.at(DAY[15]):
        restored = fact_restore(fact=chain[1], by=person, reason="Lima was a holiday")
    assert (restored.active, restored.retired_at, restored.superseded_by, restored.valid_until) == (
        True, None, None, None,
    )  # fmt: skip
    lima = Fact.objects.get(pk=chain[2].pk)
    assert lima.active
    assert lima.valid_from is None, "its beginning came from taking the place, which is undone"
    assert chain[1] in Fact.objects.recorded_as_of(DAY[7])
    assert chain[1] not in Fact.objects.recorded_as_of(DAY[12])
    assert chain[1] in Fact.objects.recorded_as_of(DAY[16])
    assert SearchItem.objects.get(item_id=str(restored.pk)).active
    actions = list(FactChange.objects.filter(fact=restored).order_by("id").values_list("action", flat=True))
    assert actions == ["stored", "edited", "superseded", "restored"]
    with pytest.raises(Conflict):
        fact_restore(fact=restored, by=person)


def test_fact_restored_gets_its_end_back(ada, actor, person):
    end = datetime(2027, 1, 1, tzinfo=UTC)
    old, new = learn(ada, actor, "until January", valid_until=end), learn(ada, actor, "other", valid_from=DAY[2])
    for _ in range(2):
        with clock.at(DAY[5]):
            fact_supersede(old=old, new=new, by=person)
        fact_invalidate(fact=old, by=person)
        old = fact_restore(fact=old, by=person)
        assert (old.valid_until, old.invalidated_at) == (end, None)
    new.refresh_from_db()
    assert new.valid_from == DAY[2]


def test_fact_ended_before_keeps_its_end(ada, actor):
    old = learn(ada, actor, "ended", valid_until=DAY[1])
    new = learn(ada, actor, "new", DAY[8])
    with clock.at(DAY[8]):
        old, new = fact_supersede(old=old, new=new, by=actor)
    assert (old.valid_until, new.valid_from) == (DAY[1], DAY[8])


@pytest.mark.parametrize("places", [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (0, 2)])
def test_fact_chain_never_closes_a_circle(chain, actor, places):
    with pytest.raises(DomainError) as refused:
        fact_supersede(old=chain[places[0]], new=chain[places[1]], by=actor)
    assert refused.value.status in (409, 422)
    assert [fact.superseded_by_id for fact in Fact.objects.order_by("recorded_at")] == [
        chain[1].pk, chain[2].pk, None,
    ]  # fmt: skip


def test_fact_replaced_and_active_is_refused_by_the_database(chain):
    with pytest.raises(IntegrityError), transaction.atomic():
        Fact.objects.filter(pk=chain[2].pk).update(superseded_by=chain[0].pk)
    with pytest.raises(IntegrityError), transaction.atomic():
        Fact.objects.filter(pk=chain[0].pk).update(superseded_by=chain[0].pk)


def test_fact_interval_cannot_be_reversed(ada, actor):
    old, new = learn(ada, actor, "since day 5", valid_from=DAY[5]), learn(ada, actor, "new", DAY[6])
    for at in (DAY[5], DAY[2], clock.now() + timedelta(days=1)):
        with pytest.raises(DomainError) as refused:
            fact_supersede(old=old, new=new, by=actor, at=at)
        assert (refused.value.status, refused.value.extra["field"]) == (422, "at")
    assert Fact.objects.active().count() == 2


def test_fact_rule_is_replaced_only_with_the_permission_for_rules(ada, actor, person):
    rule, new = learn(ada, person, "Never guess.", category="rule"), learn(ada, actor, "Guess freely.")
    with pytest.raises(NotAllowed):
        fact_supersede(old=rule, new=new, by=actor)
    fact_supersede(old=rule, new=new, by=person)


def test_fact_changes_are_separate_by_persona(ada, actor, subconscious_token, api, system):
    mine = learn(ada, actor, "the actor's")
    dreams = api.as_token(subconscious_token)
    hidden = dreams.post("/facts", {"content": "the subconscious's"}).json()["fact"]["id"]
    assert_problem(dreams.post(f"/facts/{mine.pk}/confirm"), 403, "not_allowed")
    assert_problem(dreams.post(f"/facts/{mine.pk}/supersede", {"fact_id": hidden}), 403, "not_allowed")
    with pytest.raises(NotFound):
        fact_confirm(fact=Fact.objects.get(pk=hidden), by=actor)
    with pytest.raises(DomainError):
        fact_supersede(old=mine, new=Fact.objects.get(pk=hidden), by=system)
    assert Fact.objects.active().count() == 2


def test_fact_confirmation_counts_and_has_a_time(api, ada, actor_token):
    caller = api.as_token(actor_token)
    fact = caller.post("/facts", {"content": "Tim drinks tea."}).json()["fact"]
    for count in (1, 2):
        answer = caller.post(f"/facts/{fact['id']}/confirm", {"reason": "said again"})
        assert (answer.status_code, answer.json()["confirmation_count"]) == (200, count)
    assert answer.json()["last_confirmed_at"] is not None
    history = caller.get(f"/facts/{fact['id']}/history").json()
    assert [(change["action"], change["reason"]) for change in history["items"]] == [
        ("confirmed", "said again"), ("confirmed", "said again"), ("stored", ""),
    ]  # fmt: skip
    assert history["next"] is None
    audited = AuditEvent.objects.filter(action="fact.confirm").order_by("id")
    assert [row.after["confirmation_count"] for row in audited] == [1, 2]


def test_fact_is_superseded_over_http(api, ada, actor_token):
    caller = api.as_token(actor_token)
    said = {"content": "Tim lives in Rome.", "subject": "Tim", "category": "person", "tags": ["home"]}
    old = caller.post("/facts", said).json()["fact"]["id"]
    body = {"by": {"content": "Tim lives in Oslo.", "tags": []}, "reason": "he moved"}
    answer = caller.post(f"/facts/{old}/supersede", body)
    assert answer.status_code == 200, answer.content
    new = answer.json()["new"]
    assert answer.json()["old"]["superseded_by"] == new["id"]
    assert (new["subject"], new["category"], new["tags"]) == ("Tim", "person", [])
    assert [fact["content"] for fact in caller.get("/facts").json()["items"]] == ["Tim lives in Oslo."]
    again = caller.post(f"/facts/{old}/supersede", body)
    assert assert_problem(again, 409, "conflict")["superseded_by"] == new["id"]
    assert Fact.objects.count() == 2, "a refused replacement leaves nothing learned"
    change = caller.get(f"/facts/{old}/history").json()["items"][0]
    assert (change["action"], change["other"], change["reason"]) == ("superseded", new["id"], "he moved")
    assert AuditEvent.objects.get(action="fact.supersede").message == "he moved"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"by": {"content": "x"}, "fact_id": "00000000-0000-0000-0000-000000000000"},
        {"by": {"content": ""}},
        {"by": {"content": "x", "persona": "subconscious"}},
        {"by": {"content": "a\x00b"}},
        {"by": {"content": "x"}, "at": "2999-01-01T00:00:00Z"},
        {"by": {"content": "x"}, "at": "2026-01-01T00:00:00"},
        {"fact_id": "no"},
        {"by": {"content": "x"}, "reason": "x" * 2_001},
    ],
)
def test_fact_invalid_replacement_changes_nothing(api, ada, actor_token, body):
    caller = api.as_token(actor_token)
    old = caller.post("/facts", {"content": "Rome"}).json()["fact"]
    assert_problem(caller.post(f"/facts/{old['id']}/supersede", body), 422, "invalid")
    assert caller.get(f"/facts/{old['id']}").json() == old
    assert Fact.objects.count() == 1


def test_fact_change_of_another_agent_is_not_found(api, ada, actor_token, other_token):
    fact = api.as_token(actor_token).post("/facts", {"content": "Ada's"}).json()["fact"]["id"]
    bruno = api.as_token(other_token)
    his = bruno.post("/facts", {"content": "Bruno's"}).json()["fact"]["id"]
    for path, body in (("confirm", None), ("supersede", {"by": {"content": "x"}})):
        assert_problem(bruno.post(f"/facts/{fact}/{path}", body), 404, "not_found")
    assert_problem(bruno.post(f"/facts/{his}/supersede", {"fact_id": fact}), 404, "not_found")
    assert_problem(bruno.get(f"/facts/{fact}/history"), 404, "not_found")


@pytest.mark.parametrize(("method", "path"), [("POST", "/invalidate"), ("POST", "/restore"), ("PATCH", "")])
def test_fact_invalidation_is_refused_to_tokens(api, ada, all_scopes_token, bob, alice, method, path):
    fact = api.as_token(all_scopes_token).post("/facts", {"content": "Rome"}).json()["fact"]["id"]
    refused = api.as_token(all_scopes_token).request(method, f"/facts/{fact}{path}", body={})
    assert_problem(refused, 403, "not_allowed", detail="Only a signed-in person")
    refused = api.as_person(alice).request(method, f"/facts/{fact}{path}", body={}, query={"agent": "ada"})
    assert_problem(refused, 403, "not_allowed")
    assert Fact.objects.get().active


def test_fact_is_invalidated_and_restored_by_a_reviewer(api, ada, actor_token, bob):
    fact = api.as_token(actor_token).post("/facts", {"content": "Rome"}).json()["fact"]["id"]
    caller = api.as_person(bob)
    wrong = caller.post(f"/facts/{fact}/invalidate", {"reason": "a joke"}, {"agent": "ada"}).json()
    assert (wrong["active"], wrong["retired_at"]) == (False, wrong["invalidated_at"])
    assert_problem(api.as_token(actor_token).post(f"/facts/{fact}/confirm"), 409, "conflict")
    right = caller.post(f"/facts/{fact}/restore", {}, {"agent": "ada"}).json()
    assert (right["active"], right["retired_at"], right["invalidated_at"]) == (True, None, None)


def test_fact_is_recategorised_by_a_reviewer(api, ada, actor_token, bob):
    fact = api.as_token(actor_token).post("/facts", {"content": "Rome", "tags": ["a"]}).json()["fact"]["id"]
    body = {"tags": ["b"], "importance": 0.9, "category": "person", "scope": "project", "reason": "sorted"}
    filed = api.as_person(bob).request("PATCH", f"/facts/{fact}", body=body, query={"agent": "ada"})
    assert filed.status_code == 200, filed.content
    assert {name: filed.json()[name] for name in body if name != "reason"} == {
        name: value for name, value in body.items() if name != "reason"
    }
    change = FactChange.objects.filter(fact=fact).first()
    assert (change.action, change.before["tags"], change.reason) == ("edited", ["a"], "sorted")
    item = SearchItem.objects.get(item_id=fact)
    assert (item.tags, item.category, item.scope, item.importance) == (["b"], "person", "project", 0.9)
    count = FactChange.objects.count()
    api.as_person(bob).request("PATCH", f"/facts/{fact}", body=body, query={"agent": "ada"})
    assert FactChange.objects.count() == count, "what changes nothing leaves no trace"
    for bad in ({"content": "Oslo"}, {"importance": 2}, {"category": "Not A Word"}, {"scope": ""}, {"tags": None}):
        refused = api.as_person(bob).request("PATCH", f"/facts/{fact}", body=bad, query={"agent": "ada"})
        assert_problem(refused, 422, "invalid")


def test_facts_list_is_filtered_by_words_tag_scope_and_time(api, chain, actor, ada, actor_token):
    learn(ada, actor, "Percent: 100%_", DAY[1], tags=["odd"], scope="task", subject="Signs")
    caller = api.as_token(actor_token)

    def shown(**query):
        return [fact["content"] for fact in caller.get("/facts", query).json()["items"]]

    assert shown(q="lima") == ["Tim lives in Lima."]
    assert shown(q="sIGNS") == shown(q="%_") == shown(tag="odd") == shown(scope="task") == ["Percent: 100%_"]
    assert shown(q="lives", as_of=DAY[3].isoformat()) == ["Tim lives in Rome."]
    assert shown(q="lives", recorded_as_of=DAY[7].isoformat()) == ["Tim lives in Oslo."]
    assert shown(q="lives", valid_at=DAY[12].isoformat()) == ["Tim lives in Lima."]
    for bad in ({"as_of": "yesterday"}, {"scope": "all"}, {"q": "x" * 201}, {"limit": 0}):
        assert_problem(caller.get("/facts", bad), 422, "invalid")


@pytest.mark.django_db(transaction=True)
def test_fact_concurrent_replacements_have_one_winner(ada, actor):
    old = learn(ada, actor, "Rome")
    rivals = [learn(ada, actor, town) for town in ("Oslo", "Lima")]
    ready, came = threading.Barrier(2), []

    def replace(new):
        try:
            ready.wait(10)
            fact_supersede(old=old, new=new, by=actor)
            came.append("won")
        except Conflict:
            came.append("conflict")
        finally:
            connection.close()

    threads = [threading.Thread(target=replace, args=(new,)) for new in rivals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(came) == ["conflict", "won"]
    old.refresh_from_db()
    assert old.superseded_by in rivals
    assert FactChange.objects.filter(action="superseded").count() == 1


@pytest.mark.django_db(transaction=True)
def test_fact_concurrent_mutual_replacements_close_no_circle(ada, actor):
    pair = [learn(ada, actor, "Rome"), learn(ada, actor, "Oslo")]
    ready, came = threading.Barrier(2), []

    def replace(old, new):
        try:
            ready.wait(10)
            fact_supersede(old=old, new=new, by=actor)
            came.append("won")
        except Conflict:
            came.append("conflict")
        finally:
            connection.close()

    threads = [threading.Thread(target=replace, args=order) for order in (pair, pair[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(came) == ["conflict", "won"]
    assert Fact.objects.active().count() == 1


def test_index_of_words_has_the_expression_that_looks_facts_up(db: None) -> None:
    """With any other, each learned fact and each prompt of seeded preferences would go through all facts."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_indexdef('memory_fact_words'::regclass)")
        [(definition,)] = cursor.fetchall()
    assert SAME_WORDS.format("content") in definition.replace("::text", "")

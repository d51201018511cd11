"""Facts and documents that expire, over HTTP: left out everywhere from then on, and erased after the retention."""

from datetime import timedelta

import pytest

from identity.models import AuditEvent
from identity.principal import Principal
from memory.models import Document, Fact, FactChange, SearchItem
from memory.services.erasure.memories import expired_purge
from memory.services.facts import fact_invalidate, fact_learn
from memory.services.search_index.row_embedding import embed_pending_rows
from memory.tasks import purge_expired
from nousweb.lib import clock
from tests.api.problems import assert_problem
from tests.memory.test_documents import found, item, put

CODE, PLACE = "The code of the vault is heron.", "The vault stands in the cellar of the mill."
ASKED = "Tell me about the vault: code, place"
HOUR = timedelta(hours=1)


@pytest.fixture
def caller(api, ada, actor_token):
    return api.as_token(actor_token)


@pytest.fixture
def admin(api, charlie):
    return api.as_person(charlie)


def learn(caller, content=CODE, status=201, **more):
    answer = caller.post("/facts", {"content": content, "category": "technical"} | more)
    assert answer.status_code == status, answer.content
    return answer.json()["fact"] if status == 201 else answer


def told(caller, **more):
    """The sentences that prompts and recall tell, and those of the core memory."""
    prompt = caller.post("/context", {"session_id": "s", "input": ASKED} | more).json()
    recall = caller.get("/recall", {"q": ASKED, "min_score": 0} | more).json()
    shown = {text for text in (CODE, PLACE) if text in prompt["system_prompt"]}
    return shown, {hit["content"] for hit in recall["items"]}


@pytest.mark.parametrize("category", ["technical", "person"])
def test_expired_fact_is_in_no_prompt_list_or_search_but_in_those_of_the_past(caller, category):
    now = clock.now()
    with clock.at(now - 3 * HOUR):
        fact = learn(caller, ttl=3600, category=category)
        learn(caller, PLACE)
        assert fact["validity"] == "current"
    embed_pending_rows()
    searched = {CODE, PLACE} if category == "technical" else {PLACE}
    with clock.at(now - 2.5 * HOUR):
        assert told(caller) == ({CODE, PLACE}, searched | {CODE})
    assert told(caller) == ({PLACE}, {PLACE})
    assert CODE in told(caller, as_of=(now - 2.5 * HOUR).isoformat())[0]
    assert CODE not in told(caller, as_of=(now - HOUR).isoformat())[0]
    states = {state: len(caller.get("/facts", {"state": state}).json()["items"]) for state in ("active", "expired")}
    assert states == {"active": 1, "expired": 1}
    assert CODE not in caller.get("/profile").content.decode()
    verdicts = caller.post("/context", {"session_id": "s", "input": ASKED, "explain": True}).json()["candidates"]
    assert f"Expired on {now - 2 * HOUR:%Y-%m-%d}." in {one["reason"] for one in verdicts}


def test_expired_document_is_gone_until_it_is_stored_again(caller):
    now = clock.now()
    with clock.at(now - 3 * HOUR):
        first = put(caller, expires_at=(now - 2 * HOUR).isoformat(), value={"text": CODE})["document"]
        put(caller, "place", value={"text": PLACE})
    embed_pending_rows()
    assert told(caller)[1] == {PLACE}
    assert CODE in told(caller, as_of=(now - 2.5 * HOUR).isoformat())[0]
    assert CODE not in told(caller, as_of=(now - HOUR).isoformat())[0]
    assert found(caller) == found(caller, query=ASKED) == ["place"]
    assert_problem(item(caller), 404, "not_found")
    assert [row["key"] for row in caller.get("/documents", {"state": "expired"}).json()["items"]] == ["tea"]
    again = put(caller, value={"text": CODE}, base_version=0)
    assert (again["action"], again["document"]["version"], again["document"]["expires_at"]) == ("created", 2, None)
    assert again["document"]["first_created_at"] > first["first_created_at"]
    assert len(found(caller)) == 2


def test_end_of_a_document_is_stated_anew_by_each_write(caller):
    document = put(caller, ttl=60)["document"]
    assert document["ttl"] == 60
    kept = put(caller)
    assert (kept["action"], kept["document"]["expires_at"], kept["document"]["ttl"]) == ("unchanged", None, None)
    end = (clock.now() + HOUR).isoformat()
    assert put(caller, expires_at=end)["document"]["expires_at"] is not None
    assert put(caller, value={"text": "Tim likes coffee."})["document"]["expires_at"] is None
    moved = AuditEvent.objects.filter(action="document.update")
    assert moved.count() == 2
    assert set(moved.first().before) == {"expires_at", "ttl"}


def test_end_that_is_none_is_refused_and_changes_nothing(caller, subtests):
    for bad in [
        {"ttl": 0}, {"ttl": -5}, {"ttl": 10**12}, {"ttl": 1.5}, {"ttl": "soon"}, {"ttl": True},
        {"expires_at": "2020-01-01T00:00:00Z"}, {"expires_at": "2099-01-01T00:00:00"},
        {"expires_at": "9999-12-31T23:59:59-12:00"},
        {"expires_at": "2099-01-01T00:00:00Z", "ttl": 60},
    ]:  # fmt: skip
        with subtests.test(bad=bad):
            fact = learn(caller, PLACE)
            document = put(caller)["document"]
            problems = [learn(caller, status=422, **bad)]
            body = {"namespace": ["n"], "key": "k", "value": {"text": "x"}}
            problems.append(caller.request("PUT", "/documents", body=body | bad))
            problems += [
                caller.post(f"/{kind}/{one['id']}/expiry", bad)
                for kind, one in (("facts", fact), ("documents", document))
            ]
            for problem in problems:
                assert problem.status_code == 422, problem.content
                assert any(f'"{name}"' in problem.content.decode() for name in bad)
            assert (Fact.objects.count(), Document.objects.count(), SearchItem.objects.count()) == (1, 1, 2)
            for model in (Fact, Document):
                assert not model.objects.exclude(expires_at=None).exists()


def test_fact_learned_again_keeps_the_later_of_two_stated_ends(caller, admin):
    soon, later = (clock.now() + hours * HOUR for hours in (1, 2))
    fact = learn(caller, expires_at=soon.isoformat())
    for again, end in (
        ({}, soon),
        ({"expires_at": later.isoformat()}, later),
        ({"expires_at": soon.isoformat()}, later),
    ):
        assert learn(caller, **again)["id"] == fact["id"]
        assert Fact.objects.get().expires_at == end
    kept = learn(caller, PLACE)
    assert (learn(caller, PLACE, ttl=60)["id"], Fact.objects.get(content=PLACE).expires_at) == (kept["id"], None)
    # People's end is people's.
    assert admin.post(f"/facts/{fact['id']}/expiry?agent=ada", {"expires_at": soon.isoformat()}).status_code == 200
    learn(caller, expires_at=later.isoformat())
    assert Fact.objects.get(content=CODE).expires_at == soon
    assert_problem(caller.post(f"/facts/{fact['id']}/expiry", {}), 409, "conflict")


def test_replacement_expires_with_what_it_replaces_unless_it_says_otherwise(caller):
    end = clock.now() + HOUR
    for more, expected in (({}, end), ({"expires_at": None}, None)):
        old = learn(caller, f"The gate is painted {'red' if more else 'green'}.", expires_at=end.isoformat())
        new = {"content": f"The gate has the colour of {'sand' if more else 'chalk'} now."} | more
        answer = caller.post(f"/facts/{old['id']}/supersede", {"by": new})
        assert answer.status_code == 200, answer.content
        assert Fact.objects.get(pk=answer.json()["new"]["id"]).expires_at == expected


def test_keeping_a_fact_removes_its_end_with_a_history(caller, admin):
    fact = learn(caller, ttl=60)
    kept = admin.post(f"/facts/{fact['id']}/expiry?agent=ada", {"reason": "It holds."}).json()
    assert kept["expires_at"] is None
    change = FactChange.objects.get(action="edited")
    assert (set(change.before), change.reason) == ({"expires_at", "endorsed"}, "It holds.")
    assert SearchItem.objects.get().valid_until is None
    kinds = [one["kind"] for one in caller.get("/changes", {"limit": 200}).json()["items"]]
    assert "fact.edited" in kinds


def test_refresh_moves_the_end_of_what_has_a_time_to_live(caller):
    now = clock.now()
    with clock.at(now - HOUR):
        keys = [put(caller, "ttl", ttl=7200), put(caller, "moment", expires_at=(now + HOUR).isoformat()), put(caller)]
    ids = [one["document"]["id"] for one in keys]
    assert caller.post("/documents/refresh", {"ids": ids}).json() == {"refreshed": 1}
    assert Document.objects.get(key="ttl").expires_at > now + 1.9 * HOUR
    assert SearchItem.objects.get(item_id=ids[0]).valid_until > now + 1.9 * HOUR
    # A read at once after it is no write.
    assert caller.post("/documents/refresh", {"ids": ids}).json() == {"refreshed": 0}


def test_purge_erases_what_was_meant_to_expire_after_the_retention(caller, ada, settings, actor, reviewer):
    now = clock.now()
    retention = timedelta(days=settings.CONTEXT_RETENTION_DAYS)
    system = Principal.of_system("schedule")
    with clock.at(now - 2 * retention):
        ends = {"Gone.": {"ttl": 60}, "Ended.": {"valid_until": clock.now() + HOUR}, "Kept.": {}, "Wrong.": {"ttl": 60}}
        facts = {text: fact_learn(agent=ada, content=text, by=actor, **more).fact for text, more in ends.items()}
        fact_invalidate(fact=facts["Wrong."], by=reviewer)
        put(caller, "gone", ttl=60)
        put(caller, "again", value={"text": "The first text of it."}, ttl=60)
    with clock.at(now - HOUR):
        recent = fact_learn(agent=ada, content="Recent.", by=actor, ttl=60).fact
        put(caller, "again", value={"text": "The second text of it."})
    with clock.at(now - 1.5 * retention):
        assert expired_purge(by=system) == 0
    purge_expired()
    assert set(Fact.objects.values_list("content", flat=True)) == {"Ended.", "Kept.", "Wrong.", recent.content}
    assert set(Document.objects.values_list("key", "version")) == {("again", 1), ("again", 2)}
    gone = str(facts["Gone."].pk)
    assert not SearchItem.objects.filter(item_id=gone).exists()
    assert not FactChange.objects.filter(fact=gone).exists()
    receipts = AuditEvent.objects.filter(action__endswith=".erase")
    assert sorted(receipts.values_list("action", flat=True)) == ["document.erase", "fact.erase"]
    assert {one.message for one in receipts} == {"It expired, and its retention is over."}
    assert not AuditEvent.objects.filter(after__icontains="Gone.").exists()
    assert expired_purge(by=system) == 0

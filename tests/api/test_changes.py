"""The change feed over HTTP: what is told, to whom, in which order, and how one waits for it."""

import threading
import time

import pytest
from django.db import close_old_connections, connection, transaction
from django.test import override_settings
from django.utils import timezone

from identity.api.changes import cursor_decode, cursor_encode
from identity.models import AgentLimit, AuditEvent, Change, ChangeStream
from identity.policy.changes import ACTIONS, CHANGE_KINDS
from identity.principal import Principal
from identity.services.agents import agent_update
from identity.services.change_feed import (
    StreamPosition,
    changes_purge,
    feed_change_record,
    stream_publish,
    streams_publish,
)
from identity.services.proposals import identity_propose, proposal_approve, proposal_reject
from identity.services.tokens import token_create, token_revoke
from memory.services.censors import censor_check, censor_create
from memory.services.erasure import agent_erase, fact_erase
from memory.services.facts import fact_learn
from nousweb.lib import clock
from nousweb.lib.shutdown import stopping


def record(agent, object_id="x", persona="actor", kind="fact.learned"):
    feed_change_record(kind=kind, agent=agent, persona=persona, object_type="fact", object_id=object_id)


def page(caller, **query):
    answer = caller.get("/changes", query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def ids(found):
    return [item["object_id"] for item in found["items"]]


@pytest.fixture
def caller(api, actor_token):
    return api.as_token(actor_token)


@pytest.fixture
def now(caller):
    """The cursor after all that making Ada has brought."""
    return page(caller, after="now")["next"]


def test_each_thing_that_happens_is_told_once_and_in_order(caller, now, ada):
    fact = caller.post("/facts", {"content": "Tim sails."}).json()["fact"]
    caller.post(f"/facts/{fact['id']}/supersede", {"by": {"content": "Tim rows."}})
    episode = caller.post("/episodes", {"title": "A regatta"}).json()
    caller.post(f"/episodes/{episode['id']}/close", {"outcome": "success"})
    caller.post("/censors", {"pattern": "capsize"})
    caller.post("/censors/check", {"text": "We capsize."})
    caller.post("/events", {"events": [{"kind": "user_input", "content": "Go.", "loop_id": "l"}]})
    caller.post("/loops/l/close")
    run = caller.post("/context", {"session_id": "s", "input": "Who sails?"}).json()
    caller.post(f"/context/{run['id']}/response", {"response": "Tim."})
    caller.post(f"/context/{run['id']}/outcome", {"outcome": "success"})
    caller.put("/identity/protocols", {"content": "Check twice."})
    caller.put("/identity/values", {"content": "Calm."})
    caller.put("/working/s", {"task": "Sail."})

    found = page(caller, after=now)
    assert [item["kind"] for item in found["items"]] == [
        "fact.learned", "fact.learned", "fact.superseded", "episode.opened", "episode.closed", "censor.created",
        "censor.triggered", "events.recorded", "loop.closed", "context.assembled", "context.answered",
        "context.outcome", "identity.changed", "proposal.created", "working.changed",
    ]  # fmt: skip
    told = {item["kind"]: item for item in found["items"]}
    assert told["fact.superseded"]["object_id"] == fact["id"]
    assert told["fact.superseded"]["details"] == {"superseded_by": found["items"][1]["object_id"]}
    assert told["context.assembled"]["object_id"] == run["id"]
    assert told["loop.closed"]["object_id"] == "l"
    assert told["working.changed"]["object_id"] == "s"
    assert told["identity.changed"]["details"] == {"section": "protocols", "version": 1}
    assert all(item["body"] is None for item in found["items"])
    assert not found["more"]
    assert page(caller, after=found["next"])["items"] == []


def test_nothing_of_a_memory_is_kept_with_a_change(caller, ada):
    caller.post("/facts", {"content": "Tim keeps a zeppelin.", "subject": "zeppelin", "tags": ["zeppelin"]})
    caller.post("/context", {"session_id": "s", "input": "zeppelin"})
    caller.post("/episodes", {"title": "zeppelin", "detail": "zeppelin"})
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM identity_change c WHERE to_jsonb(c)::text LIKE %s", ["%zeppelin%"])
        assert cursor.fetchone() == (0,)


def test_pages_lead_through_everything(caller, now, ada):
    for number in range(25):
        record(ada, number)
    seen, cursor = [], now
    for expected in (10, 10, 5, 0):
        found = page(caller, after=cursor, limit=10)
        assert len(found["items"]) == expected
        assert found["more"] == (expected == 10)
        seen += ids(found)
        cursor = found["next"]
    assert seen == [str(number) for number in range(25)]


def test_kinds_choose(caller, now, ada):
    record(ada, "1")
    record(ada, "2", kind="episode.closed")
    record(ada, "3", kind="fact.merged")
    assert ids(page(caller, after=now, kinds="fact.*")) == ["1", "3"]
    assert ids(page(caller, after=now, kinds="episode.closed,fact.merged")) == ["2", "3"]
    assert caller.get("/changes", {"kinds": "fact.*,nothing"}).status_code == 422


def test_what_is_not_for_a_reader_is_passed_over_once(caller, now, ada):
    for number in range(30):
        record(ada, number)
    found = page(caller, after=now, kinds="episode.*", limit=5)
    assert (found["items"], found["more"]) == ([], False)
    record(ada, "last", kind="episode.closed")
    assert ids(page(caller, after=found["next"], kinds="episode.*")) == ["last"]


def test_bodies_are_those_of_now(caller, now, ada, actor, system):
    fact = fact_learn(agent=ada, content="Tim sails.", by=actor).fact
    censor_create(agent=ada, pattern="storm", by=actor)
    identity_propose(agent=ada, section="values", content="Calm.", by=actor)
    found = page(caller, after=now, bodies="true")["items"]
    assert [item["body"].get("content") or item["body"].get("pattern") for item in found] == [
        "Tim sails.", "storm", "Calm."
    ]  # fmt: skip
    fact_erase(fact=fact, by=system, reason="Asked.")
    found = page(caller, after=now, bodies="true")["items"]
    assert [(item["kind"], item["body"] is None) for item in found if item["object_id"] == str(fact.pk)] == [
        ("fact.learned", True),
        ("fact.erased", True),
    ]


class TestWhoLearnsWhat:
    def test_the_actor_nothing_of_the_subconscious(self, api, caller, now, ada, subconscious_token):
        before = caller.get("/changes", {"after": now}).json()
        for number in range(7):
            record(ada, number, persona="subconscious")
        subconscious = api.as_token(subconscious_token)
        subconscious.post("/facts", {"content": "Tim dreams."})
        subconscious.put("/identity/values", {"content": "Dream."})
        assert len(page(subconscious)["items"]) >= 9
        assert caller.get("/changes", {"after": now}).json() == before

    def test_a_decision_about_what_the_subconscious_proposed(self, caller, now, ada, charlie, system):
        token, _ = token_create(agent=ada, persona="subconscious", name="s", by=system)
        one, other = (
            identity_propose(agent=ada, section="values", content=text, by=Principal.of_token(token)).proposal
            for text in ("Dream.", "Sleep.")
        )
        proposal_reject(proposal=one, by=Principal.of_user(charlie))
        assert page(caller, after=now)["items"] == []
        proposal_approve(proposal=other, by=Principal.of_user(charlie))
        # The text is the actor's own now, whoever wished it.
        assert [item["kind"] for item in page(caller, after=now)["items"]] == ["identity.changed"]

    def test_the_subconscious_both(self, api, ada, subconscious_token):
        caller = api.as_token(subconscious_token)
        streams_publish()
        cursor = page(caller, after="now")["next"]
        record(ada, "1", persona="actor")
        record(ada, "2", persona="subconscious")
        record(ada, "3", persona="actor")
        assert ids(page(caller, after=cursor)) == ["2"]
        streams_publish()
        assert ids(page(caller, after=cursor)) == ["1", "2", "3"]
        assert ids(page(caller, after=page(caller, after=cursor, limit=2)["next"])) == ["3"]

    def test_another_agent_is_not_there(self, api, ada, bruno, other_token):
        record(ada, "secret")
        assert "secret" not in ids(page(api.as_token(other_token)))
        assert api.as_token(other_token).get("/changes", {"agent": "ada"}).status_code == 404

    def test_scopes(self, api, ada, system):
        for kind in ("fact.learned", "identity.changed", "context.assembled"):
            record(ada, kind, kind=kind)
        groups = {"identity:read": {"agent", "identity"}, "memory:read": {"fact"}, "context:read": {"context"}}
        for scope, expected in groups.items():
            _, secret = token_create(agent=ada, persona="actor", name=scope, scopes=[scope], by=system)
            found = page(api.as_token(secret))
            assert {item["kind"].partition(".")[0] for item in found["items"]} == expected
        _, secret = token_create(agent=ada, persona="actor", name="w", scopes=["memory:write"], by=system)
        refused = api.as_token(secret).get("/changes")
        assert refused.status_code == 403
        assert "needs a scope that reads" in refused.json()["detail"]

    def test_people_by_their_rights(self, api, ada, alice, charlie):
        record(ada, "1")
        record(ada, "2", persona="subconscious")
        viewer, administrator = api.as_person(alice), api.as_person(charlie)
        assert "2" not in ids(page(viewer, agent="ada"))
        assert {"1", "2"} <= set(ids(page(administrator, agent="ada")))
        assert viewer.get("/changes").status_code == 422

    def test_numbers_that_everybody_shares_are_not_given_out(self, caller, ada):
        agent_update(agent=ada, name="Ada L.", kind="knight", by=Principal.of_system("tests"))
        found = page(caller)["items"]
        assert {item["object_id"] for item in found if item["object_type"] == "agent"} == {"ada"}
        assert all(len(item["id"]) == 36 for item in found)


class TestCursors:
    @pytest.mark.parametrize("cursor", ["x", "W10", "A" * 300, "W1siYWN0b3IiLC0xLCIiXV0", "bnVsbA", "é", "[]"])
    def test_that_nobody_gave_out(self, caller, cursor):
        assert caller.get("/changes", {"after": cursor}).status_code in (200, 422)

    def test_round_trip(self):
        positions = {"actor": StreamPosition(17, "00ff00ff"), "subconscious": StreamPosition(0, "")}
        assert cursor_decode(cursor_encode(positions)) == positions

    def test_older_than_what_is_kept(self, caller, ada):
        first = page(caller, limit=1)["next"]
        end = page(caller)["next"]
        before = timezone.now()
        record(ada, "new")
        assert changes_purge(before=before) > 0
        refused = caller.get("/changes", {"after": first})
        assert (refused.status_code, refused.json()["code"]) == (410, "cursor_gone")
        assert ids(page(caller, after=end)) == ["new"]
        assert ids(page(caller)) == ["new"]

    def test_purging_all_keeps_the_place(self, caller, ada):
        end = page(caller)["next"]
        changes_purge(before=timezone.now())
        assert not Change.objects.exists()
        record(ada, "next")
        assert ids(page(caller, after=end)) == ["next"]

    def test_of_another_database(self, caller, ada):
        end = page(caller)["next"]
        positions = cursor_decode(end)
        ahead = cursor_encode({"actor": StreamPosition(positions["actor"].number + 5, "")})
        other = cursor_encode({"actor": StreamPosition(positions["actor"].number, "0badcafe")})
        assert caller.get("/changes", {"after": ahead}).status_code == 410
        assert caller.get("/changes", {"after": other}).status_code == 410


def test_an_erased_agent_leaves_no_changes(ada, system):
    record(ada, "1")
    stream_publish(ada.pk, "actor")
    agent_erase(agent=ada, by=system, reason="Asked.")
    assert not Change.objects.exists()
    assert not ChangeStream.objects.exists()


def test_actions_name_kinds_of_change_that_are_declared():
    assert {kind for _, kind in ACTIONS.values() if kind} <= CHANGE_KINDS.keys()
    assert all("." in kind for kind in CHANGE_KINDS)


def in_thread(work):
    def run():
        close_old_connections()
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.django_db(transaction=True)
class TestAtTheSameTime:
    def test_a_transaction_held_open_stops_nobody_and_is_not_missed(self, api, ada, actor_token):
        caller = api.as_token(actor_token)
        cursor = page(caller, after="now")["next"]
        written, finish = threading.Event(), threading.Event()

        def hold():
            with transaction.atomic():
                record(ada, "held")
                written.set()
                finish.wait(30)

        thread = in_thread(hold)
        assert written.wait(30)
        record(ada, "later")
        first = page(caller, after=cursor)
        assert ids(first) == ["later"]
        finish.set()
        thread.join()
        assert ids(page(caller, after=first["next"])) == ["held"]
        assert ids(page(caller, after=cursor)) == ["later", "held"]

    def test_rolled_back_is_never_told(self, api, ada, actor_token):
        caller = api.as_token(actor_token)
        cursor = page(caller, after="now")["next"]
        with transaction.atomic():
            record(ada, "gone")
            transaction.set_rollback(True)
        record(ada, "kept")
        assert ids(page(caller, after=cursor)) == ["kept"]

    def test_many_writers_and_readers(self, ada, api, actor_token):
        writers, each = 8, 40
        stop = threading.Event()
        seen = [[] for _ in range(3)]
        cursor = page(api.as_token(actor_token), after="now")["next"]

        def write(number):
            def work():
                for step in range(each):
                    with transaction.atomic():
                        record(ada, f"{number}-{step}")
                        if step % 3 == 0:
                            time.sleep(0.002)
                        if step % 10 == 9:
                            transaction.set_rollback(True)

            return work

        def read(number):
            def work():
                position, caller = cursor, api.as_token(actor_token)
                while True:
                    last = stop.is_set()
                    found = page(caller, after=position, limit=7)
                    seen[number] += [item["object_id"] for item in found["items"]]
                    position = found["next"]
                    if last and not found["items"]:
                        return

            return work

        readers = [in_thread(read(number)) for number in range(3)]
        for thread in [in_thread(write(number)) for number in range(writers)]:
            thread.join()
        stop.set()
        for thread in readers:
            thread.join()
        assert seen[0] == seen[1] == seen[2]
        assert len(set(seen[0])) == len(seen[0]) == writers * each * 9 // 10
        for number in range(writers):
            steps = [int(one.split("-")[1]) for one in seen[0] if one.startswith(f"{number}-")]
            assert steps == sorted(steps)
        positions = Change.objects.filter(agent=ada, persona="actor").order_by("position")
        numbers = list(positions.values_list("position", flat=True))
        assert numbers == list(range(1, len(numbers) + 1))

    def test_a_publisher_that_hangs_stops_no_reader_of_another_persona(self, api, ada, actor_token, system):
        token, _ = token_create(agent=ada, persona="subconscious", name="s", by=system)
        caller = api.as_token(actor_token)
        cursor = page(caller, after="now")["next"]
        record(ada, "1")
        held, finish = threading.Event(), threading.Event()

        def hold():
            from identity.services.change_feed import changes_await

            with transaction.atomic():
                record(ada, "2", persona="subconscious")
                changes_await(agent=ada, by=Principal.of_token(token), after={}, kinds=CHANGE_KINDS.keys(), limit=10)
                held.set()
                finish.wait(30)

        thread = in_thread(hold)
        assert held.wait(30)
        assert ids(page(caller, after=cursor)) == ["1"]
        finish.set()
        thread.join()


@pytest.mark.django_db(transaction=True)
class TestWaiting:
    def test_ends_with_the_first_change(self, api, ada, actor_token):
        caller = api.as_token(actor_token)
        cursor = page(caller, after="now")["next"]
        thread = in_thread(lambda: (time.sleep(0.6), record(ada, "1")))
        began = time.monotonic()
        assert ids(page(caller, after=cursor, wait=20)) == ["1"]
        assert 0.3 < time.monotonic() - began < 10
        thread.join()

    def test_ends_empty_when_its_time_is_over(self, api, ada, actor_token):
        caller = api.as_token(actor_token)
        cursor = page(caller, after="now")["next"]
        began = time.monotonic()
        found = page(caller, after=cursor, wait=1)
        assert found == {"items": [], "next": cursor, "more": False}
        assert 0.9 < time.monotonic() - began < 5

    def test_does_not_end_with_what_is_not_for_it(self, api, ada, actor_token):
        caller = api.as_token(actor_token)
        cursor = page(caller, after="now")["next"]
        thread = in_thread(lambda: (record(ada, "1"), time.sleep(0.6), record(ada, "2", kind="episode.closed")))
        assert ids(page(caller, after=cursor, wait=20, kinds="episode.*")) == ["2"]
        thread.join()

    @pytest.mark.parametrize("lost", ["revoked", "expired", "not renewed", "deactivated", "role", "agent", "deleted"])
    def test_tells_nothing_to_who_lost_access_meanwhile(self, api, ada, actor_token, bob, charlie, lost):
        of_token = lost in ("revoked", "expired", "not renewed")
        caller = api.as_token(actor_token) if of_token else api.as_person(bob)
        cursor = page(caller, agent="ada", after="now")["next"]
        losses = {
            "revoked": lambda: token_revoke(token=ada.tokens.get(), by=Principal.of_user(charlie)),
            "expired": lambda: ada.tokens.update(expires_at=clock.now()),
            "not renewed": lambda: ada.tokens.update(secret_expires_at=clock.now()),
            "deactivated": lambda: type(bob).objects.filter(pk=bob.pk).update(is_active=False),
            "role": bob.groups.clear,
            "agent": lambda: AgentLimit.objects.create(person=bob, agents=[]),
            "deleted": lambda: type(bob).objects.filter(pk=bob.pk).delete(),
        }

        def revoke():
            time.sleep(0.6)
            losses[lost]()
            record(ada, "1")

        thread = in_thread(revoke)
        answer = caller.get("/changes", {"agent": "ada", "after": cursor, "wait": 20})
        assert (answer.status_code, "items" in answer.json()) == (403, False)
        thread.join()

    def test_so_many_at_a_time(self, api, ada, bruno, actor_token, other_token):
        caller, other = api.as_token(actor_token), api.as_token(other_token)
        cursor = page(caller, after="now")["next"]
        theirs = page(other, after="now")["next"]
        answers = []
        with override_settings(CHANGE_WAITERS=2):
            first = in_thread(lambda: answers.append(page(caller, after=cursor, wait=3)))
            time.sleep(0.5)
            refused = caller.get("/changes", {"after": cursor, "wait": 1})
            assert (refused.status_code, refused["Retry-After"]) == (429, "2")
            assert page(other, after=theirs, wait=1)["items"] == []
            # Who does not wait needs no place.
            assert page(caller, after=cursor)["items"] == []
            record(ada, "1")
            first.join()
        assert [ids(answer) for answer in answers] == [["1"]]

    def test_ends_with_the_process(self, api, ada, actor_token):
        caller = api.as_token(actor_token)
        cursor = page(caller, after="now")["next"]
        timer = threading.Timer(0.4, stopping.set)
        timer.start()
        try:
            began = time.monotonic()
            assert page(caller, after=cursor, wait=20)["items"] == []
            assert time.monotonic() - began < 10
        finally:
            timer.join()
            stopping.clear()


def test_checks_of_people_trigger_too(ada, bob, caller, now):
    censor = censor_create(agent=ada, pattern="storm", by=Principal.of_user(bob))
    censor_check(text="A storm.", agent=ada, by=Principal.of_user(bob), count=True)
    found = page(caller, after=now)["items"]
    assert [(item["kind"], item["object_id"]) for item in found] == [
        ("censor.created", str(censor.pk)),
        ("censor.triggered", str(censor.pk)),
    ]
    assert AuditEvent.objects.filter(action="censor.trigger").count() == 1

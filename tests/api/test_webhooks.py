"""Webhooks: who makes them, where they point, what is sent, how it is signed, tried again, given up and replayed."""

import json
import socket
import threading
import uuid
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.db import connection
from django.test import override_settings
from django.utils import timezone

from identity.models import AuditEvent, Change, Webhook, WebhookDelivery
from identity.policy.webhooks import AT_ONCE, CHANGES_IN_A_MESSAGE, CHANGES_WITH_BODIES, DELIVERY, DISABLED_AFTER
from identity.principal import Principal
from identity.services.agents import agent_update
from identity.services.change_feed import feed_change_draft, feed_change_record, feed_changes_record, streams_publish
from identity.services.webhook_address import NotSent, message_send, url_check
from identity.services.webhook_delivery import webhook_serve, webhook_signature, webhooks_due, webhooks_look
from identity.services.webhooks import deliveries_replay, webhook_create, webhook_delete, webhook_update
from memory.services.erasure import agent_erase, fact_erase
from memory.services.facts import fact_learn
from nousweb.lib.errors import Invalid, NotAllowed

SCOPES = ["identity:read", "memory:read", "context:read"]


class Receiver:
    """An address that keeps what it is sent, and answers what `answers` gives next, else 200."""

    def __init__(self):
        self.got, self.headers, self.answers = [], [], []

    @property
    def messages(self):
        return [json.loads(body) for body in self.got]

    @property
    def objects(self):
        return [change["object_id"] for message in self.messages for change in message["changes"]]


@contextmanager
def receiving():
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            receiver.got.append(self.rfile.read(int(self.headers["Content-Length"])))
            receiver.headers.append(dict(self.headers))
            status = receiver.answers.pop(0) if receiver.answers else 200
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook?a=1"
    try:
        with override_settings(WEBHOOK_ALLOW_PRIVATE=True):
            yield receiver
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def receiver():
    with receiving() as one:
        yield one


@pytest.fixture
def admin(charlie):
    return Principal.of_user(charlie)


def record(agent, object_id, persona="actor", kind="fact.learned"):
    feed_change_record(kind=kind, agent=agent, persona=persona, object_type="fact", object_id=object_id)


def record_many(agent, count):
    made = [str(uuid.uuid4()) for _ in range(count)]
    feed_changes_record(feed_change_draft("fact.learned", agent, "actor", "fact", one) for one in made)
    return made


def serve(webhook, *, now=True):
    if now:
        Webhook.objects.filter(pk=webhook.pk).update(due_at=timezone.now())
    return webhook_serve(webhook.pk) if webhook.pk in webhooks_due() else 0


def test_what_happens_is_sent_signed_and_once(ada, admin, receiver):
    webhook, secret = webhook_create(agent=ada, url=receiver.url, scopes=SCOPES, by=admin)
    record(ada, "1")
    record(ada, "2")
    assert serve(webhook) == 1
    assert serve(webhook) == 0
    (message,), (headers,) = receiver.messages, receiver.headers
    assert (message["agent"], message["number"]) == ("ada", 1)
    assert receiver.objects == ["1", "2"]
    assert message["changes"][0]["id"] == str(Change.objects.get(object_id="1").key)
    delivery = WebhookDelivery.objects.get()
    assert headers["X-Nous-Delivery"] == message["delivery"] == str(delivery.pk)
    moment, signature = (part.partition("=")[2] for part in headers["X-Nous-Signature"].split(","))
    assert signature == webhook_signature(secret, int(moment), receiver.got[0])
    assert abs(int(moment) - timezone.now().timestamp()) < 60
    assert signature != webhook_signature(secret, int(moment) + 1, receiver.got[0])
    assert (delivery.status, delivery.attempts, delivery.answer_status) == ("delivered", 1, 200)


def test_a_failure_holds_back_what_follows_and_is_tried_again(ada, admin, receiver):
    webhook, _ = webhook_create(agent=ada, url=receiver.url, scopes=SCOPES, by=admin)
    receiver.answers = [500, 302]
    record(ada, "1")
    assert serve(webhook) == 0
    record(ada, "2")
    assert serve(webhook, now=False) == 0
    waiting = WebhookDelivery.objects.get()
    assert (waiting.status, waiting.attempts, waiting.error) == ("waiting", 1, "The address answered 500.")
    assert Webhook.objects.get().due_at > timezone.now()
    assert serve(webhook) == 0
    assert WebhookDelivery.objects.get().answer_status == 302
    assert serve(webhook) == 2
    assert receiver.objects == ["1", "1", "1", "2"]
    assert len({headers["X-Nous-Delivery"] for headers in receiver.headers}) == 2


def test_given_up_then_replayed(ada, admin, receiver):
    webhook, _ = webhook_create(agent=ada, url=receiver.url, scopes=SCOPES, by=admin)
    receiver.answers = [503] * DELIVERY.max_attempts
    record(ada, "1")
    for _ in range(DELIVERY.max_attempts):
        serve(webhook)
    dead = WebhookDelivery.objects.get()
    assert (dead.status, dead.attempts) == ("dead", DELIVERY.max_attempts)
    record(ada, "2")
    assert serve(webhook) == 1
    assert deliveries_replay(webhook=webhook, by=admin) == 1
    assert serve(webhook) == 1
    assert receiver.objects[-2:] == ["2", "1"]
    assert AuditEvent.objects.filter(action="delivery.replay").count() == 1
    assert deliveries_replay(webhook=webhook, by=admin, delivery=dead) == 1
    assert serve(webhook) == 1


def test_a_message_that_waits_is_tried_now_when_a_person_says_so(ada, admin, receiver):
    webhook, _ = webhook_create(agent=ada, url=receiver.url, scopes=SCOPES, by=admin)
    receiver.answers = [500]
    record(ada, "1")
    serve(webhook)
    Webhook.objects.update(due_at=timezone.now() + timedelta(minutes=5))
    assert serve(webhook, now=False) == 0
    assert deliveries_replay(webhook=webhook, by=admin, delivery=WebhookDelivery.objects.get()) == 1
    assert WebhookDelivery.objects.get().attempts == 1
    assert serve(webhook, now=False) == 1
    assert AuditEvent.objects.filter(action="delivery.replay").count() == 1


def test_disabled_when_nothing_arrives(ada, admin, receiver):
    webhook, _ = webhook_create(agent=ada, url=receiver.url, scopes=SCOPES, by=admin)
    for number in range(DISABLED_AFTER):
        record(ada, number)
        receiver.answers = [500]
        serve(webhook)
        WebhookDelivery.objects.filter(status="waiting").update(attempts=DELIVERY.max_attempts - 1)
        receiver.answers = [500]
        serve(webhook)
    webhook.refresh_from_db()
    assert webhook.state == "disabled"
    assert AuditEvent.objects.filter(action="webhook.disable").count() == 1
    record(ada, "later")
    assert serve(webhook) == 0
    webhook_update(webhook=webhook, active=True, by=admin)
    assert serve(webhook) == 1
    assert receiver.objects[-1] == "later"


def test_paused_keeps_what_comes(ada, admin, receiver):
    webhook, _ = webhook_create(agent=ada, url=receiver.url, scopes=SCOPES, by=admin)
    webhook_update(webhook=webhook, active=False, by=admin)
    record(ada, "1")
    assert serve(webhook) == 0
    webhook_update(webhook=webhook, active=True, by=admin)
    assert serve(webhook) == 1
    assert receiver.objects == ["1"]


def test_only_from_now_on_and_only_what_it_may_know(ada, admin, receiver):
    record(ada, "before")
    webhook, _ = webhook_create(agent=ada, url=receiver.url, scopes=["memory:read"], kinds=["fact.learned"], by=admin)
    record(ada, "1")
    record(ada, "2", kind="episode.closed")
    record(ada, "3", kind="identity.changed")
    record(ada, "4", persona="subconscious")
    serve(webhook)
    assert receiver.objects == ["1"]


def test_the_subconscious_needs_its_right(ada, admin, bob, receiver):
    webhook, _ = webhook_create(agent=ada, url=receiver.url, scopes=SCOPES, persona="subconscious", by=admin)
    record(ada, "1")
    record(ada, "2", persona="subconscious")
    while serve(webhook):
        pass
    assert sorted(receiver.objects) == ["1", "2"]
    assert AuditEvent.objects.get(action="webhook.create").persona == "subconscious"


def test_bodies_are_of_the_moment_of_sending(ada, admin, actor, system, receiver):
    webhook, _ = webhook_create(agent=ada, url=receiver.url, scopes=["memory:read"], bodies=True, by=admin)
    kept = fact_learn(agent=ada, content="Tim sails.", by=actor).fact
    gone = fact_learn(agent=ada, content="Alice keeps bees.", by=actor).fact
    fact_erase(fact=gone, by=system, reason="Asked.")
    serve(webhook)
    told = {change["object_id"]: change["body"] for change in receiver.messages[0]["changes"]}
    assert told[str(kept.pk)]["content"] == "Tim sails."
    assert told[str(gone.pk)] is None
    assert b"bees" not in receiver.got[0]


@pytest.mark.parametrize(("bodies", "limit"), [(False, CHANGES_IN_A_MESSAGE), (True, CHANGES_WITH_BODIES)])
def test_many_changes_are_few_messages(ada, admin, receiver, bodies, limit):
    webhook, _ = webhook_create(agent=ada, url=receiver.url, scopes=SCOPES, bodies=bodies, by=admin)
    made = record_many(ada, limit * 2 + 1)
    assert serve(webhook) == 3
    assert receiver.objects == made


def test_what_waited_behind_a_failure_goes_in_one_message(ada, admin, receiver):
    webhook, _ = webhook_create(agent=ada, url=receiver.url, scopes=SCOPES, by=admin)
    receiver.answers = [500]
    record(ada, "first")
    serve(webhook)
    record_many(ada, 200)
    assert serve(webhook) == 2
    assert [len(message["changes"]) for message in receiver.messages] == [1, 1, 200]


def test_a_hiccup_costs_less_than_a_second(ada, admin, receiver):
    webhook, _ = webhook_create(agent=ada, url=receiver.url, scopes=SCOPES, by=admin)
    receiver.answers = [500]
    record(ada, "1")
    serve(webhook)
    hook, delivery = Webhook.objects.get(), WebhookDelivery.objects.get()
    assert hook.due_at - delivery.tried_at <= timedelta(seconds=0.5)
    pauses = [DELIVERY.backoff(attempt) for attempt in range(1, DELIVERY.max_attempts)]
    assert sum(pauses, timedelta()) > timedelta(minutes=8)


def test_rare_changes_among_many_others_are_found_at_once(ada, admin, receiver):
    webhook, _ = webhook_create(agent=ada, url=receiver.url, scopes=SCOPES, kinds=["episode.closed"], by=admin)
    record_many(ada, CHANGES_IN_A_MESSAGE + 1)
    record(ada, "rare", kind="episode.closed")
    assert serve(webhook) == 1
    assert receiver.objects == ["rare"]
    assert webhooks_due() == []


def test_webhooks_take_turns(ada, bruno, admin, receiver, monkeypatch):
    """One that always has more to send keeps no other waiting for longer than a turn."""
    monkeypatch.setattr("identity.services.webhook_delivery.TURN_SECONDS", 0.0)
    monkeypatch.setattr("identity.services.webhook_delivery.CHANGES_IN_A_MESSAGE", 1)
    webhooks = [
        webhook_create(agent=agent, url=f"{receiver.url}&of={number}", scopes=SCOPES, by=admin)[0].pk
        for number, agent in enumerate([ada, bruno, ada, ada])
    ]
    record_many(ada, 5)
    record_many(bruno, 5)
    served = []
    for _ in range(8):
        served.append(webhooks_due()[0])
        assert webhook_serve(served[-1]) == 1
    assert sorted(served[:4]) == sorted(served[4:]) == sorted(webhooks)


def test_slow_receivers_keep_no_other_from_its_turn(ada, admin, receiver):
    """While as many are sent to as may be, the others wait; a place that is free goes to one that had none yet."""

    class Held(Executor):
        """Begins nothing: its work is under way for as long as the test wants."""

        def submit(self, work, key):
            return Future()

    webhooks = {
        webhook_create(agent=ada, url=f"{receiver.url}&of={number}", scopes=SCOPES, by=admin)[0].pk
        for number in range(AT_ONCE + 2)
    }
    record(ada, "1")
    busy, pool = {}, Held()
    webhooks_look(busy, pool)
    first = set(busy)
    assert len(first) == AT_ONCE
    webhooks_look(busy, pool)
    assert set(busy) == first
    record(ada, "2")
    for key in list(busy)[:2]:
        webhook_serve(key)
        record(ada, "3")
        busy[key].set_result(None)
    webhooks_look(busy, pool)
    assert webhooks - first <= set(busy)


def test_looking_for_what_is_due_takes_the_same_statements_for_any_number(ada, admin, django_assert_num_queries):
    for number in range(6):
        url = f"https://example.org/{number}"
        persona = "subconscious" if number % 2 else "actor"
        webhook_create(agent=ada, url=url, scopes=SCOPES, persona=persona, by=admin)
    record(ada, "1", persona="subconscious")
    streams_publish()
    with django_assert_num_queries(3):
        assert len(webhooks_due()) == 3


def test_an_answer_drop_by_drop_is_cut(monkeypatch):
    monkeypatch.setattr("identity.services.webhook_address.EXCHANGE_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server, override_settings(WEBHOOK_ALLOW_PRIVATE=True):
        over = threading.Event()

        def drip():
            connection, _ = server.accept()
            with connection, suppress(OSError):
                while not over.wait(0.05):
                    connection.sendall(b"H")

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(NotSent):
            message_send(f"http://127.0.0.1:{server.getsockname()[1]}/", b"{}", {})
        over.set()
        thread.join()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:1/", "It refuses connections."),
        ("http://nobody.invalid/", "The host name cannot be resolved."),
    ],
)
def test_what_kept_a_message_back_is_said_in_words(url, words):
    with override_settings(WEBHOOK_ALLOW_PRIVATE=True), pytest.raises(NotSent, match=words):
        message_send(url, b"{}", {})


def test_a_scope_taken_away_takes_what_waits_along(ada, admin, actor, receiver):
    webhook, _ = webhook_create(agent=ada, url=receiver.url, scopes=SCOPES, bodies=True, by=admin)
    receiver.answers = [500]
    fact_learn(agent=ada, content="Tim sails.", by=actor)
    agent_update(agent=ada, name="Ada L.", kind="knight", by=admin)
    serve(webhook)
    webhook_update(webhook=webhook, scopes=["identity:read"], by=admin)
    assert serve(webhook) == 1
    assert b"Tim sails" in receiver.got[0]
    assert b"Tim" not in receiver.got[1]
    assert [change["kind"] for change in receiver.messages[1]["changes"]] == ["agent.changed"]


def test_without_bodies_no_text_travels(ada, admin, actor, api, actor_token, receiver):
    webhook, _ = webhook_create(agent=ada, url=receiver.url, scopes=SCOPES, by=admin)
    caller = api.as_token(actor_token)
    caller.post("/facts", {"content": "Tim keeps a zeppelin.", "subject": "zeppelin", "tags": ["zeppelin"]})
    caller.post("/events", {"events": [{"kind": "user_input", "content": "zeppelin"}]})
    caller.post("/episodes", {"title": "zeppelin", "detail": "zeppelin"})
    caller.post("/censors", {"pattern": "zeppelin", "reason": "zeppelin"})
    caller.post("/censors/check", {"text": "zeppelin"})
    caller.post("/context", {"session_id": "s", "input": "zeppelin"})
    caller.put("/identity/values", {"content": "zeppelin"})
    while serve(webhook):
        pass
    assert len(receiver.objects) >= 7
    assert not any(b"zeppelin" in message for message in receiver.got)


def test_a_lease_keeps_others_away_and_ends(ada, admin, receiver):
    webhook, _ = webhook_create(agent=ada, url=receiver.url, scopes=SCOPES, by=admin)
    record(ada, "1")
    Webhook.objects.update(leased_until=timezone.now() + timedelta(seconds=30))
    assert webhooks_due() == []
    assert webhook_serve(webhook.pk) == 0
    Webhook.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
    assert serve(webhook) == 1


class TestWhoMay:
    @pytest.mark.parametrize("who", ["alice", "bob"])
    def test_not_a_viewer_or_reviewer(self, request, ada, who):
        by = Principal.of_user(request.getfixturevalue(who))
        with pytest.raises(NotAllowed):
            webhook_create(agent=ada, url="https://example.org/", scopes=SCOPES, by=by)

    def test_no_token_whatever_its_scopes(self, api, ada, all_scopes_token):
        caller = api.as_token(all_scopes_token)
        assert caller.get("/webhooks").status_code == 403
        assert caller.post("/webhooks", {"url": "https://example.org/", "scopes": SCOPES}).status_code == 403

    def test_an_administrator_over_the_api(self, api, ada, charlie):
        caller = api.as_person(charlie)
        agent = {"agent": "ada"}
        body = {"url": "https://example.org/hook", "scopes": ["memory:read"], "kinds": ["fact.learned"]}
        made = caller.post("/webhooks", body, agent)
        assert made.status_code == 201, made.content
        for wrong, field in [
            ({"kinds": ["identity.changed"]}, "kinds"),
            ({"secret": " " * 20}, "secret"),
            ({"scopes": []}, "scopes"),
        ]:
            refused = caller.post("/webhooks", {**body, **wrong}, agent)
            assert (refused.status_code, refused.json()["field"]) == (422, field)
        secret = made.json()["secret"]
        path = f"/webhooks/{made.json()['id']}"
        narrower = caller.request("PATCH", path, body={"scopes": ["identity:read"]}, query=agent)
        assert (narrower.status_code, narrower.json()["field"]) == (422, "kinds"), "it would be sent nothing"
        assert caller.request("PATCH", path, body={"active": False}, query=agent).json()["state"] == "paused"
        assert secret not in caller.get("/webhooks", agent).content.decode()
        assert caller.get(f"{path}/deliveries", agent).json() == {"items": [], "next": None}
        assert caller.post(f"{path}/replay", {}, agent).json() == {"replayed": 0}
        assert caller.request("DELETE", path, query=agent).status_code == 204
        assert caller.get("/webhooks", agent).json() == {"items": []}
        trail = AuditEvent.objects.filter(action__startswith="webhook.")
        assert sorted(trail.values_list("action", flat=True)) == ["webhook.create", "webhook.delete", "webhook.update"]
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM identity_auditevent a WHERE to_jsonb(a)::text LIKE %s", [f"%{secret}%"]
            )
            assert cursor.fetchone() == (0,)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/", "https://", "example.org", "https://user:word@example.org/", "https://example.org/#x",
        "http://127.0.0.1/", "http://10.0.0.1/", "http://[::1]/", "http://169.254.169.254/latest/", "http://0.0.0.0/",
        "http://[::ffff:10.0.0.1]/", "http://192.168.1.1:8000/", "http://[64:ff9b::a00:1]/", "https://exa mple.org/",
        "https://example.org:99999/", "http://[fe80::1]/", "http://[64:ff9b:1::a00:1]/", "http://[::10.0.0.1]/",
        "http://[::ffff:0:10.0.0.1]/", "http://[fec0::1]/", "http://2130706433/", "http://0x7f.1/", "http://127.1/",
        "http://127.0.0.1./", "http://localhost:8000/", "http://LOCALHOST./", "http://nous.localhost/",
    ],
)  # fmt: skip
def test_where_a_webhook_may_not_point(url):
    with pytest.raises(Invalid):
        url_check(url)


@pytest.mark.parametrize("name", ["localhost", "2130706433", "0x7f.1", "127.1"])
def test_a_name_that_leads_inside_is_not_called(name):
    with receiving() as receiver, override_settings(WEBHOOK_ALLOW_PRIVATE=False):
        with pytest.raises(NotSent, match="private network"):
            message_send(receiver.url.replace("127.0.0.1", name), b"{}", {})
        assert receiver.got == []


def test_a_webhook_cannot_be_moved_inside(api, ada, admin, charlie):
    webhook, _ = webhook_create(agent=ada, url="https://example.org/", scopes=SCOPES, by=admin)
    refused = api.as_person(charlie).request(
        "PATCH", f"/webhooks/{webhook.pk}", body={"url": "http://169.254.169.254/"}, query={"agent": "ada"}
    )
    assert (refused.status_code, refused.json()["field"]) == (422, "url")
    assert Webhook.objects.get().url == "https://example.org/"


def test_an_erased_agent_takes_its_webhooks_along(ada, admin, system, receiver):
    webhook, _ = webhook_create(agent=ada, url=receiver.url, scopes=SCOPES, by=admin)
    record(ada, "1")
    serve(webhook)
    agent_erase(agent=ada, by=system, reason="Asked.")
    assert not Webhook.objects.exists()
    assert not WebhookDelivery.objects.exists()


def test_a_deleted_webhook_is_sent_nothing(ada, admin, receiver):
    webhook, _ = webhook_create(agent=ada, url=receiver.url, scopes=SCOPES, by=admin)
    record(ada, "1")
    webhook_delete(webhook=webhook, by=admin)
    assert webhooks_due() == []
    assert receiver.got == []

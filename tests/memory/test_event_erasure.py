"""Erasing one event, such as a message with a password: gone with the prompts that quote it, and nothing else is."""

import io
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.urls import reverse

from context.models import ContextRun
from identity.models import Agent, ApiToken, AuditEvent, Change, Persona
from identity.principal import Principal
from memory.models import Episode, EpisodeEvent, Event, Fact, LoopSummary, MemoryReview, SearchItem, WorkingMemory
from memory.services.documents import document_put
from memory.services.erasure import event_erase, memories_quoting, project_erase
from memory.services.facts import fact_learn, fact_supersede
from memory.services.loops import loops_summarise
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.lib.errors import NotAllowed, NotFound
from nousweb.lib.injection.scan import secrets_in
from tests.api.problems import assert_problem
from tests.http import ApiClient, browser
from tests.memory.test_erasure import assert_gone
from tests.security.test_seals import sealed_all, verified

SAID = "For the printer in Zanzibar: the password is Quux77."
OTHER = "The printer stands on the second floor, next to the kitchen."


@pytest.fixture
def admin(charlie: User) -> Principal:
    return Principal.of_user(charlie)


def told(caller: ApiClient, *contents: str, loop: str = "chat", kind: str = "user_input") -> list[Event]:
    events = [{"kind": kind, "content": content, "loop_id": loop} for content in contents]
    answer = caller.post("/events", {"events": events})
    assert answer.status_code < 300, answer.content
    return [Event.objects.get(pk=event["id"]) for event in answer.json()["events"]]


@pytest.fixture
def caller(api: ApiClient, actor_token: str) -> ApiClient:
    return api.as_token(actor_token)


def test_event_erasure_leaves_only_a_receipt(ada: Agent, actor: Principal, admin: Principal, caller: ApiClient) -> None:
    said, other = told(caller, SAID, OTHER)
    run = caller.post("/context", {"session_id": "s", "input": SAID}).json()["id"]
    caller.post(f"/context/{run}/response", {"response": "Noted."})
    quoted = caller.post("/context", {"session_id": "s", "input": "Print this, please."}).json()["id"]
    caller.post(f"/context/{quoted}/response", {"response": "It asks for Quux77 first."})
    kept = caller.post("/context", {"session_id": "s", "input": "Which floor?"}).json()["id"]
    caller.post("/working/s/items", {"text": "Try Quux77 again."})
    caller.post("/working/s/items", {"text": "Buy paper."})
    caller.post("/loops/chat/close", {})
    loops_summarise(list(LoopSummary.objects.values_list("pk", flat=True)))
    embed_pending_rows()
    fact = fact_learn(agent=ada, content="The printer is on the second floor.", by=actor).fact
    Fact.objects.filter(pk=fact.pk).update(source_event=said)
    episode = Episode.objects.create(agent=ada, title="Printing")
    EpisodeEvent.objects.create(agent=ada, episode=episode, event=said)
    assert MemoryReview.objects.filter(details__items__contains=[["event", str(said.pk)]]).exists()
    sealed_all()
    receipt = event_erase(event=said, by=admin, reason="It holds a password.")
    assert_gone("Quux77", "Zanzibar")
    assert receipt.rows | {"auditevent": 0} == {
        "event": 1, "longtermentry": 1, "searchitem": 1, "contextrun": 2, "workingmemory": 1, "memoryreview": 1,
        "auditevent": 0,
    }  # fmt: skip
    assert receipt.still_quoted == {}
    assert Event.objects.get() == other
    assert str(ContextRun.objects.get().pk) == kept
    assert [item["text"] for item in WorkingMemory.objects.get().items] == ["Buy paper."]
    fact.refresh_from_db()
    assert fact.source_event is None
    assert not EpisodeEvent.objects.exists()
    assert not SearchItem.objects.filter(item_type="event", item_id=str(said.pk)).exists()
    loop = LoopSummary.objects.get()
    assert (loop.event_count, loop.covered_events, loop.long_term_ids) == (1, 1, [other.pk])
    assert "second floor" in loop.summary
    record = AuditEvent.objects.get(action="event.erase")
    assert (record.author_name, record.object_id, record.object_label) == ("charlie", str(said.pk), "An event")
    assert (record.message, record.after and record.after["rows"]) == ("It holds a password.", receipt.rows)
    assert Change.objects.get(kind="event.erased").object_id == str(said.pk)
    assert verified().problems == 0


def test_erased_events_are_not_stored_again_under_their_keys(ada: Agent, admin: Principal, caller: ApiClient) -> None:
    """A client that sends its messages again, each night or after a failure, must not undo an erasure."""
    event = {"kind": "user_input", "content": SAID, "key": "message-7"}
    zeus = {"kind": "user_input", "content": OTHER, "key": "message-8", "project": "zeus"}
    [said, _] = caller.post("/events", {"events": [event, zeus]}).json()["events"]
    event_erase(event=Event.objects.get(pk=said["id"]), by=admin, reason="It holds a password.")
    project_erase(agent=ada, project="zeus", by=admin, reason="Over.")
    for again in (event, event | {"content": "Something else."}, zeus):
        refused = caller.post("/events", {"events": [{"kind": "user_input", "content": "New."}, again]})
        problem = assert_problem(refused, 409, "key_erased", field="events[1].key")
        assert problem["key"] == again["key"]
    assert not Event.objects.exists()
    assert_gone("message-7", "message-8", "Quux77")
    assert caller.post("/events", {"events": [event | {"key": "message-9"}]}).status_code == 201


def test_event_erasure_takes_the_memories_that_are_named_and_a_session_without_events(
    ada: Agent, actor: Principal, admin: Principal, caller: ApiClient
) -> None:
    [said] = told(caller, SAID)
    [answered] = told(caller, f"You said: {SAID}", loop="other", kind="actor_output")
    told(caller, OTHER, loop="kept")
    fact = fact_learn(agent=ada, content=SAID, by=admin).fact
    document = document_put(agent=ada, namespace=["n"], key="k", value={"text": SAID}, by=actor).document
    receipt = event_erase(
        event=said, by=admin, reason="Asked.", events=[answered.pk], facts=[fact.pk], documents=[document.pk]
    )
    assert_gone("Quux77", "Zanzibar")
    assert [receipt.rows[name] for name in ("event", "fact", "document")] == [2, 1, 1]
    assert LoopSummary.objects.get().loop_id == "kept"
    actions = AuditEvent.objects.filter(action__endswith=".erase").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["event.erase", "fact.erase", "document.erase"]


def test_event_erasure_keeps_the_review_of_other_memories_with_the_same_words(
    admin: Principal, caller: ApiClient
) -> None:
    first, second = told(caller, SAID, SAID)
    receipt = event_erase(event=first, by=admin, reason="Asked.")
    assert receipt.still_quoted == {"event": 1}
    assert MemoryReview.objects.get().details["items"] == [["event", str(second.pk)]]


def test_event_erasure_takes_facts_that_replaced_each_other_and_the_review_of_both_events(
    ada: Agent, admin: Principal, caller: ApiClient
) -> None:
    first, second = told(caller, SAID, SAID)
    old = fact_learn(agent=ada, content=SAID, by=admin).fact
    new = fact_learn(agent=ada, content=f"{SAID} It is new.", by=admin).fact
    fact_supersede(old=old, new=new, by=admin)
    receipt = event_erase(event=first, by=admin, reason="Asked.", events=[second.pk], facts=[old.pk, new.pk])
    assert (receipt.rows["event"], receipt.rows["fact"], receipt.rows["searchitem"]) == (2, 2, 4)
    assert (receipt.still_quoted, MemoryReview.objects.count()) == ({}, 0)
    assert_gone("Quux77")


@pytest.mark.parametrize(
    "content",
    [
        "Thank you!", "continue", "response", "truncated", "The password is 2026-11.",
        "See https://x.example/?password=abc1&as=actor for it.", "password: request1",
    ],
)  # fmt: skip
def test_event_erasure_takes_nothing_that_only_has_a_common_word(
    ada: Agent, admin: Principal, caller: ApiClient, content: str
) -> None:
    metadata = {"session": "chat-2026-11-30-abcdef", "model": "some-model-of-2026-11-30"}
    shared = {"kind": "user_input", "metadata": metadata, "loop_id": "l"}
    [said, _] = caller.post(
        "/events", {"events": [{**shared, "content": content}, {**shared, "content": OTHER}]}
    ).json()["events"]
    for number, asked in enumerate(("Thank you! Please continue.", "Is the response truncated?", OTHER)):
        caller.post("/context", {"session_id": "chat-2026-11-30-abcdef", "input": f"{asked} {number}"})
    caller.post("/working/s/items", {"text": "Buy paper."})
    before = ContextRun.objects.count()
    event = Event.objects.get(pk=said["id"])
    assert memories_quoting(event, personas=Persona.values) == []
    receipt = event_erase(event=event, by=admin, reason="Asked.")
    assert (ContextRun.objects.count(), receipt.still_quoted) == (before, {})
    assert [item["text"] for item in WorkingMemory.objects.get(session_id="s").items] == ["Buy paper."]


def test_event_erasure_finds_a_secret_in_metadata_and_earlier_versions_of_a_document(
    ada: Agent, actor: Principal, admin: Principal, caller: ApiClient
) -> None:
    call = {"kind": "tool_call", "content": "login", "loop_id": "l", "metadata": {"arguments": {"password": "Quux:77"}}}
    [made] = caller.post("/events", {"events": [call]}).json()["events"]
    for text in ("It takes Quux:77 for now.", "It takes another one."):
        document_put(agent=ada, namespace=["n"], key="k", value={"text": text}, by=actor)
    caller.post("/context", {"session_id": "s", "input": "Is it Quux:77?"})
    event = Event.objects.get(pk=made["id"])
    [offered] = memories_quoting(event, personas=Persona.values)
    event_erase(event=event, by=admin, reason="Asked.", documents=[offered.memory.pk])
    assert_gone("Quux:77")


def test_event_erasure_is_refused_without_changes(
    ada: Agent, bruno: Agent, system: Principal, admin: Principal, bob: User, caller: ApiClient
) -> None:
    [said] = told(caller, SAID)
    foreign = fact_learn(agent=bruno, content="Sings.", by=system).fact
    with pytest.raises(NotAllowed):
        event_erase(event=said, by=Principal.of_user(bob), reason="Why not?")
    with pytest.raises(NotAllowed):
        event_erase(event=said, by=Principal.of_token(ApiToken.objects.get(agent=ada, name="actor")), reason="Mine.")
    more: dict[str, Any]
    for more in ({"events": [said.pk + 2]}, {"facts": [foreign.pk]}, {"documents": [foreign.pk]}):
        with pytest.raises(NotFound):
            event_erase(event=said, by=admin, reason="Asked.", **more)
    assert (Event.objects.get(), Fact.objects.get()) == (said, foreign)
    event_erase(event=said, by=admin, reason="Asked.")
    with pytest.raises(NotFound):
        event_erase(event=said, by=admin, reason="Again.")


def test_event_erasure_in_the_console_offers_what_quotes_it(
    ada: Agent, admin: Principal, charlie: User, bob: User, caller: ApiClient
) -> None:
    [said] = told(caller, SAID)
    review = MemoryReview.objects.get().get_absolute_url()
    [answered] = told(caller, "I noted Quux77 as the password.", loop="other", kind="actor_output")
    fact_learn(agent=ada, content=OTHER, by=admin)
    caller.post("/context", {"session_id": "s", "input": SAID})
    caller.post("/context", {"session_id": "s", "input": OTHER})
    client, address = browser(charlie), reverse("agent_event", args=["ada", said.pk])
    form = reverse("agent_event_erase", args=["ada", said.pk])
    assert form in client.get(address).content.decode()
    assert form not in browser(bob).get(address).content.decode()
    assert browser(bob).get(form).status_code == 403
    assert form in client.get(review).content.decode()
    assert form not in browser(bob).get(review).content.decode()
    page = client.get(form).content.decode()
    assert "I noted Quux77 as the password. (event, actor)" in page
    assert "<strong>1</strong> of the latest 2,000 stored prompts, where it is quoted" in " ".join(page.split())
    assert OTHER not in page
    given = {"reason": "It holds a password.", "name": "ada"}
    assert client.post(form, {**given, "memories": ["1"]}).status_code == 422
    assert Event.objects.count() == 2
    done = client.post(form, {**given, "memories": [str(answered.pk)]}, follow=True).content.decode()
    assert "Erased permanently" in done
    assert_gone("Quux77")


def test_event_erasure_by_command(ada: Agent, caller: ApiClient) -> None:
    [said] = told(caller, SAID)
    told(caller, "Quux77 does not work.", loop="other")
    output = io.StringIO()
    call_command("erase", "event", str(said.pk), reason="asked", memories=True, no_input=True, stderr=output)
    assert "2 event," in output.getvalue()
    assert_gone("Quux77")
    with pytest.raises(CommandError, match="There is no such event"):
        call_command("erase", "event", str(said.pk), reason="asked", no_input=True)


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        (SAID, {"Quux77"}),
        ("password=hunter22 and pw: 'a1b2c'", {"hunter22", "a1b2c"}),
        ("password: hunter2:prod, pw=pa=ss9=word!", {"hunter2:prod", "pa=ss9=word"}),
        ("https://x.example/?password=hunter22&redirect=dashboard1", {"hunter22"}),
        ("The password is 2026-11 or 12345678. pw: 30T04:12", set()),
        ("Use postgres://app:s3cret@db.example/app today.", {"postgres://app:s3cret@d"}),
        ("The key is AKIAABCDEFGHIJKLMNOP.", {"AKIAABCDEFGHIJKLMNOP"}),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE", set()),
        ("My PIN is 1234, keep the password safe.", set()),
        ("password: a1", set()),
    ],
)
def test_secrets_are_found_without_their_names(text: str, secrets: set[str]) -> None:
    assert secrets_in(text) == secrets

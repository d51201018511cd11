"""People without the right to the subconscious: whatever it does, no page, export or figure of theirs changes.

Each page and each reading endpoint is taken twice, without and with a busy subconscious behind it, at one standing
moment of the clock. Both must be the same, character for character, so that no text, id, count or date can hide.
"""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from identity.models import Agent, AuditEvent, ChangeProposal
from identity.principal import Principal
from identity.services.agents import agent_create
from memory.jobs import job_queue
from memory.models import (
    Decision,
    Episode,
    Fact,
    IndexStatus,
    Job,
    JudgeCall,
    LoopSummary,
    MemoryReview,
    SearchItem,
)
from memory.services.erasure import agent_erase
from memory.tasks import backfill_layers, derive_from_events, dream
from nousweb.lib import clock
from tests.api.test_access_matrix import QUERIES, World, endpoints, pages
from tests.http import ApiClient, signed_in

MARK = "MARKERQX"
PASSING = re.compile(
    r"""name="csrfmiddlewaretoken" value="[^"]*"|csrf-token" content="[^"]*"|hx-headers='[^']*'"""
    r"""|class="qr-code" src="[^"]*"|<code class="break-anywhere">[A-Z2-7 ]{39}</code>"""
    r"""|name="session" value="playground-[0-9a-f]{8}\""""
    r"""|"request_id": "[^"]*"|just now|in a moment|in \d+ (?:s|min|h|d)\b|\d+ (?:s|min|h|d) ago|· \d+ ms"""
)
"""What differs between any two answers: tokens of forms, keys for authenticator apps, new names of sessions, ids of
requests, ages by the real clock, and how long a prompt took to assemble. Moments are compared."""


@pytest.fixture
def world(request: pytest.FixtureRequest, bruno: Agent) -> World:
    return World(request)


def subconscious_lives(agent: Agent, secret: str) -> None:
    """Everything that a subconscious can leave behind, each with the mark in its words."""
    api = ApiClient().as_token(secret)

    def post(path: str, body: dict[str, object], method: str = "POST") -> dict[str, object]:
        answer = api.request(method, path, body=body)
        assert answer.status_code < 300, (path, answer.content)
        found: dict[str, object] = answer.json()
        return found

    events = [{"kind": "user_input", "content": f"{MARK} said.", "loop_id": f"{MARK}-loop"}]
    post("/events", {"events": events})
    post(f"/loops/{MARK}-loop/close", {})
    facts = [
        post("/facts", {"content": f"{MARK}{words}", "subject": f"{MARK}-subject"})
        for words in ("'s twin is Ann.", "'s twin is Eva.", " lives in Rome.", " lives in Oslo.")
    ]
    first = str(facts[3].get("id") or facts[3]["fact"]["id"])  # type: ignore[index]
    post(f"/facts/{first}/confirm", {})
    post(f"/facts/{first}/supersede", {"by": {"content": f"{MARK} lives in Bergen."}})
    episode = str(post("/episodes", {"title": f"{MARK} episode"})["id"])
    post(f"/episodes/{episode}/events", {"text": f"{MARK} happened."})
    post(f"/episodes/{episode}/close", {"outcome": "success", "summary": f"{MARK} summary"})
    decision = str(post("/decisions", {"description": f"{MARK} decided."})["id"])
    post(f"/decisions/{decision}/review", {"outcome": "success", "note": f"{MARK} lesson"})
    procedure = str(post("/procedures", {"name": f"{MARK} procedure"})["id"])
    post(f"/procedures/{procedure}/activate", {})
    post("/censors", {"pattern": f"{MARK}", "severity": "warn", "reason": f"{MARK} reason"})
    post("/censors/check", {"text": f"{MARK} text"})
    post(f"/working/{MARK}-session/items", {"text": f"{MARK} item"})
    post(f"/working/{MARK}-session/threads", {"text": f"{MARK} thread"})
    run = str(post("/context", {"session_id": f"{MARK}-session", "input": f"{MARK} asks"})["id"])
    post(f"/context/{run}/response", {"response": f"{MARK} answered"})
    post(f"/context/{run}/outcome", {"outcome": "failure"})
    for section in ("values", "preferences", "boundaries"):
        post(f"/identity/{section}", {"content": f"{MARK} {section}", "reason": MARK}, "PUT")
    derive_from_events(list(LoopSummary.objects.filter(persona="subconscious").values_list("pk", flat=True)))
    backfill_layers()
    dream()
    dead = job_queue("test", agent=agent, persona="subconscious", subject=agent, key=f"{MARK}")
    assert dead is not None
    Job.objects.filter(pk=dead.pk).update(status="dead", error=MARK, finished_at=timezone.now())
    JudgeCall.objects.create(
        agent=agent, persona="subconscious", task="merge", model=MARK, prompt_version="1", attempts=1, tokens_in=987,
        duration_ms=5, error=MARK,
    )  # fmt: skip
    SearchItem.objects.filter(persona="subconscious", item_type="fact").update(status=IndexStatus.FAILED, error=MARK)


def traces() -> list[str]:
    """The key of every row that the subconscious left, where keys are not small numbers."""
    found = [MARK, "subconscious-secret-name"]
    for model in (ChangeProposal, Decision, Episode, Fact, MemoryReview):
        found += [str(pk) for pk in model._default_manager.filter(persona="subconscious").values_list("pk", flat=True)]
    return found


def seen(world: World, user: User) -> dict[str, tuple[int, str]]:
    """Every page and every reading endpoint, as this person gets it."""
    answers = {}
    client = signed_in(user)
    for name in pages():
        if name not in ("healthz", "readyz", "metrics", "logout"):
            answer = client.get(world.url(name))
            answers[name] = answer.status_code, PASSING.sub("", answer.content.decode())
    for name, query in (
        ("audit", "q=MARKERQX"), ("audit", "kind=token"), ("review", "status=applied"), ("review", "status=decided"),
        ("usage", "agent=ada"), ("usage", "days=30"), ("lifecycle", "status=dead"), ("lifecycle", "status=done"),
        ("memory_review", "agent=ada"), ("agents", "q=ada"), ("context_profiles", ""),
    ):  # fmt: skip
        answer = client.get(f"{reverse(name)}?{query}")
        answers[f"{name}?{query}"] = answer.status_code, PASSING.sub("", answer.content.decode())
    api = ApiClient().as_person(user)
    for endpoint in endpoints():
        method, template = endpoint.split()
        if method == "GET":
            answer = api.get(world.path(template), {"agent": "ada"} | QUERIES.get(template, {}))
            answers[endpoint] = answer.status_code, PASSING.sub("", answer.content.decode())
    return answers


def test_viewers_see_nothing_of_what_the_subconscious_does(
    world: World, ada: Agent, subconscious_token: str, alice: User, bob: User
) -> None:
    with transaction.atomic():
        subconscious_lives(ada, subconscious_token)
        moment, left = timezone.now(), traces()
        with clock.at(moment):
            beside = {user: seen(world, user) for user in (alice, bob)}
        transaction.set_rollback(True)
    for user, with_it in beside.items():
        with clock.at(moment):
            without = seen(world, user)
        assert len(without) > 80
        assert [key for key in without if without[key][0] >= 500] == []
        differing = {
            key: _difference(without[key][1], with_it[key][1]) for key in without if without[key] != with_it[key]
        }
        assert differing == {}, user
        for key, (_, text) in with_it.items():
            # The words that were searched for stand in the search field.
            assert not [trace for trace in left if trace in text and key != "audit?q=MARKERQX"], key


def test_viewers_get_not_found_for_each_row_of_the_subconscious(
    world: World, alice: User, charlie: User, ada: Agent, subconscious_token: str
) -> None:
    subconscious_lives(ada, subconscious_token)
    proposal = ChangeProposal.objects.filter(persona="subconscious").first()
    assert proposal is not None
    addresses = [reverse("proposal", args=[proposal.pk])]
    hidden = AuditEvent.objects.filter(persona="subconscious")
    assert set(hidden.values_list("object_type", flat=True)) >= {
        "apitoken", "event", "loopsummary", "fact", "episode", "decision", "procedure", "censor", "agent",
        "workingmemory", "contextrun", "changeproposal", "memoryreview",
    }  # fmt: skip
    addresses += [reverse("audit_event", args=[key]) for key in hidden.values_list("pk", flat=True)]
    pages_of: dict[Any, str] = {Fact: "agent_fact", Episode: "agent_episode", Decision: "agent_decision"}
    for model, name in pages_of.items():
        row = model._default_manager.filter(persona="subconscious").first()
        addresses.append(reverse(name, args=["ada", row.pk]))
    viewer, administrator = signed_in(alice), signed_in(charlie)
    for address in addresses:
        answer = viewer.get(address)
        assert answer.status_code == 404, address
        assert MARK not in answer.content.decode()
    assert administrator.get(addresses[0]).status_code == 200
    assert MARK in administrator.get(reverse("audit") + "?agent=ada").content.decode()
    api = ApiClient()
    assert api.as_person(alice).get(f"/proposals/{proposal.pk}").status_code == 404
    assert api.as_person(charlie).get(f"/proposals/{proposal.pk}").status_code == 200


def test_viewers_decide_nothing_of_the_subconscious(
    world: World, bob: User, charlie: User, ada: Agent, subconscious_token: str
) -> None:
    subconscious_lives(ada, subconscious_token)
    proposal = ChangeProposal.objects.filter(persona="subconscious", section="values").get()
    for user, status in ((bob, "pending"), (charlie, "approved")):
        client = signed_in(user)
        token = {"csrfmiddlewaretoken": client.cookies["csrftoken"].value}
        form: dict[str, str] = {"action": "approve", "selected": str(proposal.pk)} | token
        client.post(reverse("inbox_bulk"), form)
        client.post(reverse("proposal", args=[proposal.pk]), form)
        proposal.refresh_from_db()
        assert proposal.status == status


def test_viewers_of_both_personas_alone_see_figures_of_both(
    charlie: User, alice: User, ada: Agent, subconscious_token: str
) -> None:
    other = agent_create(slug="other", by=Principal.of_user(charlie))
    agent_erase(agent=other, by=Principal.of_user(charlie), reason="Asked for.")
    record = AuditEvent.objects.get(action="agent.erase")
    address = reverse("audit_event", args=[record.pk])
    shown = signed_in(alice).get(address).content.decode()
    assert "Asked for." in shown
    assert "auditevent" not in shown
    assert "auditevent" in signed_in(charlie).get(address).content.decode()


def _difference(one: str, other: str) -> list[str]:
    before = set(one.splitlines())
    return [line.strip()[:300] for line in other.splitlines() if line not in before][:6]

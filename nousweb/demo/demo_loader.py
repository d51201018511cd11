"""Load the demo: its people, its agent, and its story told through the services and through the API, as an agent would,
each step at the moment at which it happened."""

import json
import logging
import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Max
from django.test import Client, override_settings
from django.utils import timezone

from context.expectations.services import expectation_create, expectations_verify, request_of
from context.feedback.health_score import score_keep
from context.services.agent_settings import settings_update
from identity.models import Agent, AgentKind, AuditEvent, Persona
from identity.principal import Principal
from identity.services.agents import agent_create
from identity.services.people import invitation_create
from identity.services.personal_settings import demo_tour_begin
from identity.services.proposals import (
    identity_propose,
    identity_rollback,
    proposal_approve,
    proposal_keep,
    proposal_reject,
)
from identity.services.tokens import token_create
from memory.models import Subject
from memory.persona import VIEWS
from memory.policy.oversight import AttentionBudget
from memory.services.censors import censor_create
from memory.services.facts import fact_learn
from memory.services.loops import loops_close_idle
from memory.services.search_index.row_embedding import embed_pending_rows
from memory.services.subjects.changes import subject_alias_add, subject_edit
from nousweb.access.roles import OWNER
from nousweb.demo import story
from nousweb.demo.demo_access import LOGINS, demo_check, demo_file
from nousweb.lib import clock

Step = tuple[float, Callable[[], Any]]
DAYS_OF_HEALTH = 30
CHECKS, DAYS_BETWEEN_CHECKS = 16, 1.5
DECISIONS: dict[str, Callable[..., Any]] = {
    "approve": proposal_approve,
    "reject": proposal_reject,
    "keep": proposal_keep,
}


# Its story is of one person in each role, who applies at once.
@override_settings(FOUR_EYES=False)
@transaction.atomic
def demo_load() -> None:
    """Fill an empty database with the demo: all of it is there afterwards, or none. Raises DemoInProduction."""
    demo_check()
    # A line for every call of a history played in seconds would bury what the terminal has to say.
    logging.getLogger("context").setLevel(logging.WARNING)
    passwords = {name: secrets.token_urlsafe(9) for name, _ in LOGINS}
    people = {name: _person(name, role, passwords[name]) for name, role in LOGINS}
    start = timezone.now()
    steps: list[Step] = []
    with clock.at(start - timedelta(days=56.5)):
        agent = agent_create(
            slug=story.AGENT_SLUG, name=story.AGENT_NAME, kind=AgentKind.SQUIRE, by=people["admin"],
            prompt=story.CHARACTER_1,
        )  # fmt: skip
        token, secret = token_create(agent=agent, persona=Persona.ACTOR, name="demo", by=people["admin"])
        _, dreamer = token_create(agent=agent, persona=Persona.SUBCONSCIOUS, name="dream", by=people["admin"])
    actors = {**people, "agent": Principal.of_token(token)}
    events: dict[str, list[int]] = {}
    for facts, author in ((story.PROFILE_FACTS, people["reviewer"]), (story.OTHER_FACTS, actors["agent"])):
        steps += [(fact[0], partial(_fact_learn, agent, fact, author, events)) for fact in facts]
    for entry in story.STORY:
        steps += _identity_steps(agent, entry, actors, events)
    steps += memory_steps(start, Caller(secret), Caller(dreamer), people["admin"], agent, events)
    steps += expectation_steps(agent, people["reviewer"])
    steps.append((2.5, partial(invitation_create, role="Viewer", note="Dora, data team", by=people["owner"])))
    play(start, steps)
    memory_finish(agent, people["reviewer"])
    for person in people.values():
        # Whoever has done something has logged in.
        done = AuditEvent.objects.filter(author_kind=AuditEvent.Kind.PERSON, author_id=person.id)
        User.objects.filter(pk=person.id).update(last_login=done.aggregate(at=Max("at"))["at"])
        demo_tour_begin(agent=agent, by=person)
    demo_file().write_text(json.dumps({"passwords": passwords, "token": secret}))
    demo_file().chmod(0o600)


def _person(name: str, role: str, password: str) -> Principal:
    owner = role == OWNER
    staff = owner or role == "Administrator"
    user = User.objects.create_user(name, f"{name}@nous.example", password, is_staff=staff, is_superuser=owner)
    user.groups.set(Group.objects.filter(name=role))
    return Principal.of_user(User.objects.get(pk=user.pk))


def _fact_learn(agent: Agent, fact: tuple[Any, ...], by: Principal, events: dict[str, list[int]]) -> None:
    _, category, subject, content, confidence, *learned = fact
    source = _event_named(learned[0], events) if learned else ""
    by, now = replace(by, request_id=secrets.token_hex(16)), clock.now()
    # "Changed on Monday": the last one before.
    monday = now - timedelta(days=now.weekday() or 7) if learned[1:] else None
    fact_learn(
        agent=agent, content=content, subject=subject, category=category, confidence=confidence, source=source, by=by,
        valid_from=monday,
    )  # fmt: skip


def _event_named(place: str, events: dict[str, list[int]]) -> str:
    """An event of a loop ("page-3102:4") as facts and proposals name it."""
    loop_id, _, turn = place.partition(":")
    return f"event {events[loop_id][int(turn)]}"


def _identity_steps(
    agent: Agent,
    entry: story.StoryChange | story.Rollback,
    actors: dict[str, Principal],
    events: dict[str, list[int]],
) -> list[Step]:
    if isinstance(entry, story.Rollback):
        rollback = entry
        return [
            (
                rollback.days_ago,
                lambda: identity_rollback(
                    agent=agent, section=rollback.section, to_version=rollback.to_version, reason=rollback.reason,
                    by=actors["reviewer"],
                ),
            )
        ]  # fmt: skip
    change = entry
    made: list[Any] = []

    def propose() -> None:
        result = identity_propose(
            agent=agent, section=change.section, content=change.content, reason=change.reason,
            learned_from=[_event_named(place, events) for place in change.learned_from], by=actors[change.who],
        )  # fmt: skip
        made.append(result.proposal)

    def decide() -> None:
        DECISIONS[change.decision](proposal=made[0], by=actors["reviewer"], comment=change.comment)

    steps: list[Step] = [(change.days_ago, propose)]
    if change.decision:
        steps.append((change.days_ago - change.decision_hours / 24, decide))
    return steps


class Caller:
    """An agent's token, used against the API inside this process: no server runs yet when the demo is made."""

    def __init__(self, token: str) -> None:
        self._client = Client(SERVER_NAME="localhost", headers={"Authorization": f"Bearer {token}"})

    def __call__(self, method: str, path: str, body: Any) -> Any:
        answer = self._client.generic(
            method, f"/api{path}", json.dumps(body), content_type="application/json", secure=True
        )
        if answer.status_code >= 400:
            raise RuntimeError(f"{method} {path}: {answer.content.decode()[:500]}")
        return answer.json() if answer.content else None


def memory_steps(
    start: datetime, actor: Caller, dreamer: Caller, admin: Principal, agent: Agent, events: dict[str, list[int]]
) -> list[Step]:
    """The events and their times, in days before `start`; `events` get their keys, by the loop."""
    facts: list[str] = []
    by_id = {loop.loop_id: loop for loop in story.LOOPS}
    days, most, reason = story.REVIEWS_PER_DAY
    change = partial(settings_update, agent=agent, attention=AttentionBudget(per_day=most), reason=reason, by=admin)

    return [
        *(
            (
                _end(loop),
                partial(_loop_record, start, loop, dreamer if loop.persona == "subconscious" else actor, events),
            )
            for loop in story.LOOPS
        ),
        *(
            (
                min(_end(by_id[loop_id]) for loop_id in one.loops) - 0.01,
                partial(_episode_tell, start, by_id, one, actor, events),
            )
            for one in story.EPISODES
        ),
        *((days_ago, partial(_decide, actor, *told)) for days_ago, *told in story.DECISIONS),
        *((days_ago, partial(_procedure_use, actor, *told)) for days_ago, *told in story.PROCEDURES),
        *((days_ago, _censor_step(who, censor, actor, admin, agent)) for days_ago, who, censor in story.CENSORS),
        *(
            (days_ago, partial(actor, "POST", "/censors/check", {"text": text}))
            for days_ago, text in story.CHECKED_TEXTS
        ),
        *((days_ago, partial(_believe, content, actor, facts)) for days_ago, content in story.CHAIN),
        *(
            (days_ago, partial(dreamer, "POST", "/facts", {"content": content, "subject": subject, "confidence": 0.6}))
            for days_ago, subject, content in story.SUBCONSCIOUS_FACTS
        ),
        (1.3, partial(_working, actor)),
        (days, change),
        *((days_ago, partial(_health_keep, agent)) for days_ago in range(DAYS_OF_HEALTH, -1, -1)),
        *((days_ago, partial(_ask, actor, *told)) for days_ago, *told in story.QUESTIONS),
    ]


def _end(loop: story.Loop) -> float:
    return loop.days_ago - loop.minutes * len(loop.turns) / 1440


def _loop_record(start: datetime, loop: story.Loop, caller: Caller, events: dict[str, list[int]]) -> None:
    begun = start - timedelta(days=loop.days_ago)
    body = [
        {
            "kind": kind,
            "content": content,
            "loop_id": loop.loop_id,
            "ts": (begun + timedelta(minutes=loop.minutes * place)).isoformat(),
            "metadata": {"speaker": loop.speaker} if loop.speaker and kind == "user_input" else {},
            "key": f"{loop.loop_id}:{place}",
        }
        for place, (kind, content) in enumerate(loop.turns)
    ]
    made = caller("POST", "/events", {"events": body})
    events[loop.loop_id] = [event["id"] for event in made["events"]]


def _episode_tell(
    start: datetime,
    loops: dict[str, story.Loop],
    episode: story.EpisodeStory,
    actor: Caller,
    events: dict[str, list[int]],
) -> None:
    begun = start - timedelta(days=max(loops[loop_id].days_ago for loop_id in episode.loops))
    made = actor(
        "POST", "/episodes", {"title": episode.title, "tags": list(episode.tags), "started_at": begun.isoformat()}
    )
    ids = [event_id for loop_id in episode.loops for event_id in events[loop_id]]
    actor("POST", f"/episodes/{made['id']}/events", {"event_ids": ids})
    closing = {"outcome": episode.outcome, "lessons": list(episode.lessons)}
    if episode.summary:
        closing["summary"] = episode.summary
    actor("POST", f"/episodes/{made['id']}/close", closing)


def _decide(actor: Caller, decision: Any, review: Any) -> None:
    made = actor("POST", "/decisions", decision)
    if review:
        actor("POST", f"/decisions/{made['id']}/review", {"outcome": review[0], "note": review[1]})


def _procedure_use(actor: Caller, procedure: Any, successes: Any, failures: Any) -> None:
    made = actor("POST", "/procedures", procedure)
    for success in [True] * successes + [False] * failures:
        actor("POST", f"/procedures/{made['id']}/activate", {})
        actor("POST", f"/procedures/{made['id']}/report", {"success": success})


def _censor_step(who: str, censor: dict[str, Any], actor: Caller, admin: Principal, agent: Agent) -> Callable[[], Any]:
    if who == "agent":
        return partial(actor, "POST", "/censors", censor)
    # People make theirs in the console, through the same service as the API.
    return partial(censor_create, agent=agent, by=admin, **censor)


def _believe(content: str, actor: Caller, facts: list[str]) -> None:
    body = {"content": content, "subject": "checkout", "category": "technical", "confidence": 0.9}
    if facts:
        made = actor("POST", f"/facts/{facts[-1]}/supersede", {"by": body, "reason": "Read from the configuration."})
        facts.append(made["new"]["id"])
    else:
        facts.append(actor("POST", "/facts", body)["fact"]["id"])


def _working(actor: Caller) -> None:
    session = story.WORKING["session"]
    actor("PUT", f"/working/{session}", {"task": story.WORKING["task"], "frame": story.WORKING["frame"]})
    for kind, text, relevance in story.WORKING["items"]:
        actor("POST", f"/working/{session}/items", {"type": kind, "text": text, "relevance": relevance})
    for text in story.WORKING["threads"]:
        actor("POST", f"/working/{session}/threads", {"text": text})


def _health_keep(agent: Agent) -> None:
    for view in VIEWS.values():
        score_keep(view(agent, include_quarantined=True))


def _ask(actor: Caller, session: str, asked: str, said: str, outcome: str) -> None:
    # Earlier facts must be searchable, as they would have been.
    embed_pending_rows()
    run = actor("POST", "/context", {"session_id": session, "input": asked})
    actor("POST", f"/context/{run['id']}/response", {"response": said})
    actor("POST", f"/context/{run['id']}/outcome", {"outcome": outcome})


def memory_finish(agent: Agent, reviewer: Principal) -> None:
    """What was done since: vectors, loops that went idle, and the kinds and names of subjects, which a person
    entered."""
    embed_pending_rows()
    loops_close_idle()
    for name, kind, names in story.SUBJECTS:
        subject = Subject.objects.select_related("agent").get(agent=agent, persona=Persona.ACTOR, name=name)
        subject_edit(subject=subject, by=reviewer, kind=kind)
        for spelling in names:
            subject_alias_add(subject=subject, by=reviewer, spelling=spelling)


def expectation_steps(agent: Agent, reviewer: Principal) -> list[Step]:
    """The expectations that a person entered, and their checks day by day."""

    def entered() -> None:
        for expectation in story.EXPECTATIONS:
            asked = request_of(expectation["question"])
            wanted = {name: value for name, value in expectation.items() if name != "question"}
            expectation_create(agent=agent, by=reviewer, request=asked, **wanted)

    def checked() -> None:
        embed_pending_rows()
        expectations_verify(agent=agent, by=reviewer)

    return [(CHECKS * DAYS_BETWEEN_CHECKS, entered), *((DAYS_BETWEEN_CHECKS * one, checked) for one in range(CHECKS))]


def play(start: datetime, steps: Iterable[Step]) -> None:
    """Carry the steps out, the oldest first, each at its own moment."""
    for days_ago, step in sorted(steps, key=lambda pair: -pair[0]):
        with clock.at(start - timedelta(days=days_ago)):
            step()

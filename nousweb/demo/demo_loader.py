"""Load the demo: its people, its agent, and its story told through the services, each step at the moment at which it
happened."""

import json
import logging
import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from identity.models import Agent, AgentKind, Persona
from identity.principal import Principal
from identity.services.agents import agent_create
from identity.services.personal_settings import demo_tour_begin
from identity.services.proposals import (
    identity_propose,
    identity_rollback,
    proposal_approve,
    proposal_keep,
    proposal_reject,
)
from identity.services.tokens import token_create
from memory.services.facts import fact_learn
from nousweb.access.roles import OWNER
from nousweb.demo import identity_story as story
from nousweb.demo.demo_access import LOGINS, demo_check, demo_file
from nousweb.demo.memory_load import Caller, Step, expectation_steps, memory_finish, memory_steps, play
from nousweb.lib import clock

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
    for facts, author in ((story.PROFILE_FACTS, people["reviewer"]), (story.OTHER_FACTS, actors["agent"])):
        steps += [(fact[0], _fact_step(agent, fact, author)) for fact in facts]
    for entry in story.STORY:
        steps += _identity_steps(agent, entry, actors)
    steps += memory_steps(start, Caller(secret), Caller(dreamer), people["admin"], agent)
    steps += expectation_steps(agent, people["reviewer"])
    play(start, steps)
    memory_finish(agent, people["reviewer"])
    for person in people.values():
        demo_tour_begin(agent=agent, by=person)
    demo_file().write_text(json.dumps({"passwords": passwords, "token": secret}))
    demo_file().chmod(0o600)


def _person(name: str, role: str, password: str) -> Principal:
    owner = role == OWNER
    staff = owner or role == "Administrator"
    user = User.objects.create_user(name, password=password, is_staff=staff, is_superuser=owner)
    user.groups.set(Group.objects.filter(name=role))
    return Principal.of_user(User.objects.get(pk=user.pk))


def _fact_step(agent: Agent, fact: tuple[float, str, str, str, float], by: Principal) -> Callable[[], Any]:
    _, category, subject, content, confidence = fact
    return lambda: fact_learn(
        agent=agent, content=content, subject=subject, category=category, confidence=confidence, by=by
    )


def _identity_steps(
    agent: Agent, entry: story.StoryChange | story.Rollback, actors: dict[str, Principal]
) -> list[tuple[float, Callable[[], Any]]]:
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
            agent=agent, section=change.section, content=change.content, reason=change.reason, by=actors[change.who]
        )
        made.append(result.proposal)

    def decide() -> None:
        DECISIONS[change.decision](proposal=made[0], by=actors["reviewer"], comment=change.comment)

    steps: list[tuple[float, Callable[[], Any]]] = [(change.days_ago, propose)]
    if change.decision:
        steps.append((change.days_ago - change.decision_hours / 24, decide))
    return steps

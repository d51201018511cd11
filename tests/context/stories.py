"""Things that tests of context do again and again."""

from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from context.engine.request import ContextRequest
from context.models import ContextRun
from context.services.context import context_assemble
from identity.models import Agent
from identity.principal import Principal
from memory.models import Fact
from memory.services.facts import fact_learn

EXPORT = "Why did the ledger export fail?"


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def send(agent: Agent, by: Principal, text: str = EXPORT, session: str = "s", **more: Any) -> ContextRun:
    """A logged call."""
    found = context_assemble(agent=agent, request=ContextRequest(session, text, **more), by=by)
    return ContextRun.objects.get(pk=found.id)


def learn(agent: Agent, content: str, by: Principal, **more: Any) -> Fact:
    return fact_learn(agent=agent, content=content, by=by, **{"category": "technical", "importance": 0.8, **more}).fact


def told(prompt: str) -> list[str]:
    """The lines of a prompt that are list items."""
    return [line for line in prompt.split("\n") if line.startswith("- ")]

"""What the fuzzers attack: the demo's agent with every kind of memory, another agent, people and tokens."""

from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from context.models import ContextRun
from identity.models import Agent, ApiToken, AuditEvent, ChangeProposal, Persona
from identity.policy.permissions import SCOPE_PERMISSIONS
from identity.policy.sections import Section
from identity.principal import Principal
from identity.services.agents import agent_create
from identity.services.tokens import token_create
from memory.models import (
    Censor,
    Decision,
    Document,
    Episode,
    Event,
    Fact,
    LoopSummary,
    MemoryReview,
    Procedure,
    WorkingMemory,
)
from memory.services.facts import fact_learn
from nousweb.demo.demo_loader import demo_load
from tests.http import signed_in

PEOPLE = ("viewer", "reviewer", "admin")


@dataclass
class World:
    """Ids by the name under which addresses and bodies ask for them, and callers by name."""

    agent: Agent
    ids: dict[str, list[str]]
    tokens: dict[str, str]
    clients: dict[str, Client] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)

    def sign_in(self) -> None:
        """Give everybody a new session, since some calls log out."""
        for name in PEOPLE:
            self.clients[name] = signed_in(User.objects.get(username=name))
            self.sessions[name] = self.clients[name].cookies[settings.SESSION_COOKIE_NAME].value
        stranger = Client(enforce_csrf_checks=True, raise_request_exception=False)
        stranger.cookies["csrftoken"] = "a" * 32
        self.clients["anonymous"] = stranger

    def stay_signed_in(self, name: str) -> None:
        """Give the client of `name` its session back, which an answer to a hostile cookie takes away."""
        if name in self.sessions:
            self.clients[name].cookies[settings.SESSION_COOKIE_NAME] = self.sessions[name]


def world_make() -> World:
    demo_load()
    agent = Agent.objects.get()
    system = Principal.of_system("tests")
    other = agent_create(slug="bruno", name="Bruno", prompt="You are Bruno.", by=system)
    fact_learn(agent=agent, content="Tim's twin is Ann.", subject="Tim", by=system)
    fact_learn(agent=agent, content="Tim's twin is Eva.", subject="Tim", by=system)

    def token(name: str, owner: Agent, **given: Any) -> str:
        return token_create(agent=owner, name=name, by=system, **given)[1]

    tokens = {
        "actor": token("a", agent, persona="actor"),
        "subconscious": token("s", agent, persona="subconscious"),
        "everything": token("e", agent, persona="actor", scopes=list(SCOPE_PERMISSIONS)),
        "everything-below": token("b", agent, persona="subconscious", scopes=list(SCOPE_PERMISSIONS)),
        "other": token("o", other, persona="actor"),
        "nobody": "nous_nobody",
    }
    made = World(agent, ids_of(agent), tokens)
    made.sign_in()
    return made


def ids_of(agent: Agent) -> dict[str, list[str]]:
    def keys(model: Any, column: str = "pk") -> list[str]:
        return [str(key) for key in model.objects.order_by("pk").values_list(column, flat=True)[:60]] or ["1"]

    working = list(WorkingMemory.objects.all()[:20])
    entries = [entry["id"] for row in working for entry in (*row.items, *row.open_threads)] or ["x"]
    uuids = {
        "fact": keys(Fact), "episode": keys(Episode), "decision": keys(Decision), "procedure": keys(Procedure),
        "document": keys(Document),
        "censor": keys(Censor), "proposal": keys(ChangeProposal), "review": keys(MemoryReview), "run": keys(ContextRun),
    }  # fmt: skip
    return {
        **{f"{name}_id": held for name, held in uuids.items()},
        **uuids,
        "event_id": keys(Event),
        "loop_id": keys(LoopSummary, "loop_id"),
        "session_id": [row.session_id for row in working] or ["s"],
        "item_id": [*entries, *uuids["fact"]],
        "thread_id": entries,
        "section": list(Section.values),
        "slug": [agent.slug],
        "version": ["0", "1", "2", "3"],
        "token": keys(ApiToken),
        "audit": keys(AuditEvent),
        "persona": list(Persona.values),
        "profile_slug": ["squire", "knight", "royalty"],
        "item_type": ["fact", "episode", "decision", "procedure", "document", "censor", "event"],
        "change": ["supersede", "invalidate", "restore", "confirm", "edit", "retire", "release"],
        "batch": uuids["proposal"],
    }

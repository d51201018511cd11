"""Whatever the policy and the order of what happens: what waits for consent is in no prompt, search, list or feed."""

import random
from uuid import uuid4

import pytest

from identity.policy.permissions import SCOPE_PERMISSIONS
from identity.services.agents import agent_create
from memory.models import MemoryReview
from memory.policy.oversight import ConsentPolicy
from memory.services.reviews.quarantine_resolution import quarantined_texts
from memory.services.reviews.resolve import review_resolve
from memory.services.reviews.states import reviews_expire
from memory.services.reviews.undo import review_undo
from memory.services.search_index.row_embedding import embed_pending_rows
from tests.factories import make_token
from tests.security.scale import scaled

SEQUENCES, STEPS = scaled(24, 200), 8
KINDS = ("fact", "decision", "procedure", "episode", "document", "event", "supersede", "append")
TYPES = {"supersede": "technical", "append": "episode", "fact": "technical"}
POLICIES = {
    "everything": [{"action": "pending"}],
    "facts": [{"action": "pending", "category": "technical"}],
    "not facts": [{"action": "use", "category": "technical"}, {"action": "pending"}],
    "of the web": [{"action": "pending", "trust": "web"}],
    "of tools": [{"action": "pending", "trust": "tool"}],
    "untrusted": [{"action": "pending", "trust": "untrusted"}],
    "of the agent": [{"action": "pending", "trust": "agent"}],
    "of a writer": [{"action": "pending", "writer": "crawler"}],
    "of another writer": [{"action": "pending", "writer": "nobody"}],
    "of a project": [{"action": "pending", "project": "atlas"}],
    "shown": [{"action": "use", "category": "event"}, {"action": "show"}],
    "malformed": [{"action": "never heard of"}],
}
ORIGINS = ("", "tool", "imported", "web")


def expected(rules, kind, origin, project):
    """What the rules say of a memory, read by hand."""
    of = {"category": TYPES.get(kind, kind), "writer": "crawler", "project": project, "trust": origin or "agent"}
    for rule in rules:
        if rule["action"] == "never heard of":
            return "pending"
        wanted = {name: value for name, value in rule.items() if name != "action"}
        if wanted.get("trust") == "untrusted" and origin:
            wanted.pop("trust")
        if all(of[name] == value for name, value in wanted.items()):
            return rule["action"]
    return "use"


class World:
    """An agent with a policy, its token, and what may be read of what was written: texts by word, and their states."""

    def __init__(self, api, system, rules):
        self.rules = rules
        self.agent = agent_create(slug=f"w{uuid4().hex[:12]}", name="W", prompt="You are W.", by=system)
        self.agent.config = {"consent": rules}
        self.agent.save(update_fields=["config"])
        self.caller = api.as_token(make_token(self.agent, name="crawler", scopes=sorted(SCOPE_PERMISSIONS)))
        self.state: dict[str, str] = {}

    def write(self, kind, origin="", project=""):
        word = "zq" + "".join(random.SystemRandom().choices("bcdfghklmnprstvw", k=10))
        text, more = f"The lighthouse {word} is green.", {"origin": origin, "project": project}
        call = {
            # Of a subject of its own, it is like no other fact.
            "fact": lambda: self.caller.post(
                "/facts", {"content": text, "subject": word, "category": "technical", **more}
            ),
            "decision": lambda: self.caller.post("/decisions", {"description": text, **more}),
            "procedure": lambda: self.caller.post("/procedures", {"name": "Lamp", "steps": [text], **more}),
            "episode": lambda: self.caller.post("/episodes", {"title": text, **more}),
            "document": lambda: self.caller.put(
                "/documents", {"namespace": ["n"], "key": word, "value": {"text": text}, **more}
            ),
            "event": lambda: self.caller.post(
                "/events", {"events": [{"kind": "user_input", "content": text, "loop_id": uuid4().hex, **more}]}
            ),
            "supersede": lambda: self._supersede(text, more),
            "append": lambda: self._append(text, more),
        }[kind]
        answer = call()
        if answer is None:
            return
        assert answer.status_code in (200, 201, 202), answer.content
        self.state[word] = expected(self.rules, kind, origin, project)

    def _supersede(self, text, more):
        old = self.caller.get("/facts").json()["items"]
        if not old:
            return None
        by = {"content": text, "category": "technical", **more}
        return self.caller.post(f"/facts/{old[0]['id']}/supersede", {"by": by})

    def _append(self, text, more):
        made = self.caller.post("/episodes", {"title": "Harbour", "project": more["project"]}).json()
        if made["quarantined"]:
            return None
        return self.caller.post(f"/episodes/{made['id']}/events", {"text": text, "origin": more["origin"]})

    def read(self):
        """All that the token is given, as one text."""
        embed_pending_rows()
        lists = [f"/{name}?state=all" for name in ("facts", "documents", "procedures", "episodes")]
        lists += ["/events", "/decisions", "/changes?bodies=1", "/reviews?status=all", "/loops", "/profile"]
        lists += ["/recall?q=green lighthouse", "/recall?q=green lighthouse&project=atlas"]
        asked = {"session_id": "s", "input": "Which lighthouse is green?", "fill": True, "explain": True}
        answers = [self.caller.get(path) for path in lists]
        answers += [self.caller.post("/context", asked | {"project": project}) for project in ("", "atlas")]
        assert all(answer.status_code == 200 for answer in answers), [answer.content[:200] for answer in answers]
        return b"".join(answer.content for answer in answers).decode()

    def check(self):
        told = self.read()
        out = {word for word, state in self.state.items() if state == "pending" and word in told}
        assert not out, "what waits is told"
        missing = {word for word, state in self.state.items() if state in ("use", "show") and word not in told}
        assert not missing, "what is in use is told nowhere"

    def reviews(self, **of):
        return MemoryReview.objects.filter(agent=self.agent, kind="new_memory", **of)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_door_keeps_back_what_waits(api, ada, system, name):
    world = World(api, system, POLICIES[name])
    for kind in KINDS[:6]:
        for origin in ORIGINS:
            world.write(kind, origin, "atlas" if origin == "web" else "")
    waits = sum(state in ("pending", "show") for state in world.state.values())
    assert world.reviews().count() == waits
    world.check()
    for kind in KINDS[6:]:
        world.write(kind, "web")
    world.check()


@pytest.mark.parametrize("part", range(4))
def test_no_sequence_tells_what_waits(api, ada, system, reviewer, part):
    for seed in range(part, SEQUENCES, 4):
        dice = random.Random(seed)
        world = World(api, system, dice.choice(list(POLICIES.values())))
        for _ in range(STEPS):
            step = dice.choice(("write", "write", "write", "decide", "undo", "policy", "expire"))
            if step == "write":
                world.write(dice.choice(KINDS[:6]), dice.choice(ORIGINS), dice.choice(("", "atlas")))
            elif step == "policy":
                world.rules = dice.choice(list(POLICIES.values()))
                world.agent.config = {"consent": world.rules}
                world.agent.save(update_fields=["config"])
            else:
                _decided(world, step, dice, reviewer, system)
        try:
            world.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def _decided(world, step, dice, reviewer, system):
    """Decide about one memory, undo that, or let what waits expire."""
    if step == "expire":
        world.reviews(status="pending").update(expires_at="2020-01-01T00:00:00Z")
        reviews_expire(by=system)
        return
    found = world.reviews(status="pending" if step == "decide" else "resolved").order_by("created_at", "id").first()
    if found is None:
        return
    word = _word_of(found, world)
    if step == "decide":
        answer = dice.choice(("allow", "hold"))
        review_resolve(review=found, resolution=answer, by=reviewer)
        world.state[word] = "use" if answer == "allow" else "pending"
    else:
        review_undo(review=found, by=reviewer)
        world.state[word] = "pending" if found.details["codes"] == ["consent"] else "show"


def _word_of(review, world):
    (text,) = quarantined_texts(review)
    return next(word for word in world.state if word in text)


def test_policies_are_as_they_are_stored():
    for name, rules in POLICIES.items():
        assert (ConsentPolicy.of_config({"consent": rules}).as_json() == rules) == (name != "malformed")

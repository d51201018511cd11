"""Items for an inbox, and the gold list: how each is to be decided. Django has to be set up."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from benchmarks.latency import WHAT

HIGH = ("values", "boundaries", "character")
SIBLINGS = ("protocols", "preferences")
"""Sections of which two proposals wait, each with a line of its own."""
AN_AGENT = len(HIGH) + 2 * len(SIBLINGS)
ANSWERS = (("replace", "3"), ("old_wrong", "4"), ("new_wrong", "2"), ("both", "5"))


@dataclass(frozen=True, slots=True)
class Gold:
    """How an item is to be decided: its type, the decision as it is stored, and the key that takes it.

    `line` is what the section holds afterwards, of a proposal that is approved.
    """

    type: str
    decision: str
    key: str
    line: str = ""


def items_made(by: Any, proposals: int, questions: int) -> dict[str, Gold]:
    """Let so many proposals and questions wait; of each seven proposals three are of high risk and four have siblings.

    `by` is the person who wrote the sections that siblings add to. Returns the gold list by the item's id.
    """
    from identity.principal import Principal
    from identity.services.agents import agent_configure, agent_create
    from identity.services.proposals import identity_propose
    from identity.services.tokens import token_create

    system = Principal.of_system("benchmark")
    found: dict[str, Gold] = {}
    agents = []
    for number in range(-(-proposals // AN_AGENT)):
        agent = agent_create(slug=f"desk-{number}", name=f"Desk {number}", prompt="You keep a desk.", by=system)
        token, _ = token_create(agent=agent, persona="actor", name="actor", by=system)
        agents.append((agent, Principal.of_token(token)))
        for section in SIBLINGS:
            identity_propose(agent=agent, section=section, content="- Look twice.", reason="", by=by)
    for place, (agent, actor, section, content, line) in enumerate(islice(_wishes(agents), proposals)):
        made = identity_propose(agent=agent, section=section, content=content, reason="Learned.", by=actor, wait=True)
        assert made.proposal is not None
        rejected = place % 3 == 2
        decision = ("rejected", "r") if rejected else ("approved", "a")
        found[str(made.proposal.pk)] = Gold("changeproposal", *decision, "" if rejected else line)
    agent, actor = agents[0]
    agent = agent_configure(agent=agent, name="attention", value={"unlimited": True}, by=system)
    return found | _questions((agent, actor), questions)


def _wishes(agents: list[Any]) -> Iterator[tuple[Any, Any, str, str, str]]:
    for agent, actor in agents:
        for section in HIGH:
            line = f"- The {section} of {agent.name} in one line."
            yield agent, actor, section, line, line
        for section in SIBLINGS:
            for side in ("first", "second"):
                line = f"- Ask for the {side} of {section} at noon."
                yield agent, actor, section, f"- Look twice.\n{line}", line


def _questions(whose: tuple[Any, Any], questions: int) -> dict[str, Gold]:
    from memory.services.facts import fact_learn

    agent, actor = whose
    found = {}
    for number, (thing, (decision, key)) in enumerate(islice(zip(cycle(WHAT), cycle(ANSWERS)), questions)):
        for words in ("'s twin is", " has its twin"):
            content = f"The {thing} {number}{words} in Graz."
            made = fact_learn(agent=agent, content=content, subject=f"{thing} {number}", by=actor)
        assert made.review, f"{content} opens no question: {made.action}"
        found[str(made.review)] = Gold("memoryreview", decision, key)
    return found


def differences(gold: dict[str, Gold]) -> list[str]:
    """What of the end state is not as the gold list says, in words."""
    from identity.models import ChangeProposal, IdentityVersion
    from memory.models import MemoryReview

    is_now = {str(row.pk): row.status for row in ChangeProposal.objects.filter(pk__in=gold)}
    is_now |= {str(row.pk): row.resolution for row in MemoryReview.objects.filter(pk__in=gold)}
    wanted = {key: one.decision for key, one in gold.items()}
    wrong = [f"{key}: {is_now.get(key)}, not {each}" for key, each in wanted.items() if is_now.get(key) != each]
    for proposal in ChangeProposal.objects.filter(pk__in=[key for key, one in gold.items() if one.line]):
        text = IdentityVersion.objects.current().get(agent=proposal.agent, section=proposal.section).content
        if gold[str(proposal.pk)].line not in text.split("\n"):
            wrong.append(f"{proposal.pk}: its line is not in the current text")
    return wrong

"""The consent policy of an agent, where a memory is written."""

from typing import Any

from identity.models import Agent
from identity.principal import Principal
from memory.policy.consent import ConsentAction, ConsentPolicy
from nousweb.lib import NotAllowed


def waits_for_consent(agent: Agent, by: Principal, *, category: str, trust: str, project: str) -> bool:
    """Whether a memory that `by` writes waits for a person. What people write never does.

    Raises NotAllowed where the policy refuses it.
    """
    if by.is_person or not agent.config:
        return False
    writer = by.token.name if by.token is not None else by.name
    of = {"category": category, "trust": trust, "writer": writer, "project": project}
    action = ConsentPolicy.of_config(agent.config).action_of(**of)
    if action is ConsentAction.REFUSE:
        raise NotAllowed("The consent policy of this agent refuses such memories.", **of)
    return action is ConsentAction.PENDING


def memory_waits(memory: Any, by: Principal) -> bool:
    """`waits_for_consent` of a memory; its category is that of a fact, else its type."""
    kind = str(memory._meta.model_name)
    category = memory.category if kind == "fact" else kind
    return waits_for_consent(
        memory.agent, by, category=category, trust=memory.trust, project=getattr(memory, "project", "")
    )

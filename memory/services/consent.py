"""The consent policy of an agent, where a memory is written."""

from typing import Any

from identity.models import Agent
from identity.principal import Principal
from memory.policy.consent import ConsentAction, ConsentPolicy, ConsentRequest
from nousweb.lib import NotAllowed, clock


def consent_request(
    agent: Agent, by: Principal, *, category: str, trust: str, project: str, source: str = ""
) -> ConsentRequest | None:
    """What people are asked about a memory that `by` writes, from `source`; None where it is used at once. Of what
    people write they are asked nothing.

    Raises NotAllowed where the policy refuses it.
    """
    if by.is_person or not agent.config:
        return None
    writer = by.token.name if by.token is not None else by.name
    of = {"category": category, "trust": trust, "writer": writer, "project": project}
    action = ConsentPolicy.of_config(agent.config).action_of(**of)
    if action is ConsentAction.REFUSE:
        raise NotAllowed("The consent policy of this agent refuses such memories.", **of)
    if action is ConsentAction.USE:
        return None
    source = source or f"{clock.now():%Y-%m-%d}"
    return ConsentRequest(action is ConsentAction.PENDING, writer, source, limited=by.kind == "token")


def memory_consent(memory: Any, by: Principal) -> ConsentRequest | None:
    """`consent_request` of a memory; its category is that of a fact, else its type."""
    kind = str(memory._meta.model_name)
    return consent_request(
        memory.agent,
        by,
        category=memory.category if kind == "fact" else kind,
        trust=memory.trust,
        project=getattr(memory, "project", ""),
        source=_source(memory),
    )


def _source(memory: Any) -> str:
    """What the memory says of where it comes from, "" for nothing."""
    read_from = getattr(memory, "source_ref", None) or {}
    episode = getattr(memory, "source_episode_id", None)
    return str(
        read_from.get("url")
        or read_from.get("path")
        or getattr(memory, "source", "")
        or (f"episode {episode}" if episode else "")
        or getattr(memory, "task", "")
    )

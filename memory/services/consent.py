"""The consent policy of an agent, where a memory is written."""

from collections.abc import Callable
from typing import Any

from identity.models import Agent
from identity.principal import Principal
from memory.models import Trust
from memory.policy.consent import ConsentAction, ConsentPolicy, ConsentRequest, NewMemory
from memory.services.quarantine.requests import instructs
from nousweb.lib import NotAllowed, clock


def consent_request(
    agent: Agent,
    by: Principal,
    *,
    category: str,
    trust: str,
    project: str,
    source: str = "",
    declared: str = "",
    instructs: Callable[[], bool] = lambda: False,
) -> ConsentRequest | None:
    """What people are asked about a memory that `by` writes, from `source`; None where it is used at once. Of what
    people write they are asked nothing. `declared` is the class by which it is screened, if that is not its trust
    class. The other arguments are those of NewMemory.

    Raises NotAllowed where the policy refuses it.
    """
    if by.is_person or not agent.config:
        return None
    writer = by.token.name if by.token is not None else by.name
    confirmed = by.channel == "import" and (declared or trust) == Trust.IMPORTED
    memory = NewMemory(category, trust, writer, project, confirmed, instructs)
    rule = ConsentPolicy.of_config(agent.config).rule_of(memory)
    if rule.action is ConsentAction.REFUSE:
        of = {"category": category, "trust": trust, "writer": writer, "project": project}
        raise NotAllowed("The consent policy of this agent refuses such memories.", **of)
    if rule.action is ConsentAction.USE:
        return None
    source = source or f"{clock.now():%Y-%m-%d}"
    waits = rule.action is ConsentAction.PENDING
    return ConsentRequest(waits, writer, source, limited=by.kind == "token", days=rule.days)


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
        declared=memory.screened_as,
        instructs=lambda: kind == "fact" and instructs(f"{memory.content}\n{getattr(memory, 'as_given', '')}"),
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

"""The trust class of a new memory, and the consent policy of its agent.

Nothing raises it but a person: what repeats, confirms, summarises or replaces a memory is trusted no more than that.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from identity.models import Agent
from identity.principal import Principal
from memory.models import Episode, EpisodeEvent, Fact, LongTermEntry, Trust
from memory.policy import DERIVED_TYPES, SOURCE_FIELDS, TRUST_OF_EVENT_KIND, TRUST_ORDER, UNTRUSTED, WEB_SOURCE
from memory.policy.oversight import ConsentAction, ConsentPolicy, ConsentRequest, NewMemory
from memory.services.quarantine.requests import instructs
from nousweb.lib import NotAllowed, choice_check, clock

_WEB = re.compile(WEB_SOURCE)
_EVENT = re.compile(r"\s*event[\s:#/]*(\d{1,18})\s*", re.I)
_EPISODE = re.compile(r"\s*episode[\s:#/]*([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\s*", re.I)
_TOOL = re.compile(r"\s*tool(?:[\s:#/]|$)", re.I)


def least_trusted(classes: Iterable[str]) -> str:
    """The least trusted of these trust classes, at least one."""
    return max(classes, key=TRUST_ORDER.index)


def writer_trust(by: Principal) -> str:
    """The trust class of what `by` writes."""
    if by.is_person:
        return Trust.PERSON.value
    return Trust.IMPORTED.value if by.channel == "import" else Trust.AGENT.value


def origin_of(by: Principal, *rests_on: str, declared: str = "") -> str:
    """The trust class of a text that `by` writes. `rests_on` are the trust classes of its sources; they do not count
    for the words of people. What the writer has `declared` can only lower the class, "" does not.

    Raises Invalid for a `declared` that is no trust class.
    """
    declared = origin_check(declared)
    classes = [writer_trust(by), *(() if by.is_person else rests_on), *([declared] if declared else [])]
    return least_trusted(classes)


def screened_as(by: Principal, declared: str) -> str:
    """The class by which a new text is screened whose origin its writer has `declared`; "" for that of its type and
    trust class. A person has consented to an import, and not to what a writer declares to be imported."""
    if declared == Trust.IMPORTED and by.channel != "import":
        return Trust.TOOL.value
    return declared if declared in UNTRUSTED else ""


def screening_class(trust: str, kind: str = "") -> str:
    """The class by which a text of this trust class and type of memory is screened; "" for people's words.

    Types of DERIVED_TYPES have the class of what they rest on, and words of their own.
    """
    if trust == Trust.PERSON:
        return ""
    return Trust.IMPORTED.value if kind in DERIVED_TYPES and trust in UNTRUSTED else trust


def origin_check(declared: str, field: str = "origin") -> str:
    """The origin that a writer declares, "" for none. Raises Invalid."""
    return declared and choice_check(field, declared, Trust.values)


def event_named(source: str) -> int | None:
    """The key of the event that a source names ("event 12"); None for another source."""
    named = _EVENT.fullmatch(source)
    return int(named[1]) if named else None


def fact_origin(fact: Fact, by: Principal, declared: str = "") -> str:
    """The trust class of a fact that `by` learns, including its episode, its event, its named source and what is
    `declared`."""
    if by.is_person:
        return origin_of(by, declared=declared)
    rests_on = []
    if fact.source_episode is not None:
        rests_on.append(fact.source_episode.trust)
    event_id: Any = event_named(fact.source) or fact.source_event_id
    if event_id is not None:
        entries = LongTermEntry.objects.filter(agent=fact.agent_id, event=event_id)
        rests_on += [entry.trust for entry in entries]
    if fact.source_episode is None and (named := _EPISODE.fullmatch(fact.source)):
        rests_on += [episode.trust for episode in Episode.objects.filter(agent=fact.agent_id, pk=UUID(named[1]))]
    if _WEB.search(fact.source):
        rests_on.append(Trust.WEB.value)
    rests_on += fields_trust(fact.source_ref or {})
    if _TOOL.match(fact.source):
        rests_on.append(Trust.TOOL.value)
    return origin_of(by, *rests_on, declared=declared)


def event_origin(kind: str, metadata: Mapping[str, Any], by: Principal | None, declared: str = "") -> str:
    """The trust class of an event, by its kind, by a page that its metadata may name, and by what is `declared`.

    Without a writer, for an event whose entry is made again, the kind decides.
    """
    rests_on = [TRUST_OF_EVENT_KIND[kind]] if kind in TRUST_OF_EVENT_KIND else []
    rests_on += fields_trust(metadata)
    if by is None:
        return least_trusted((Trust.AGENT.value, *rests_on))
    return origin_of(by, *rests_on, declared=declared)


def fields_trust(fields: Mapping[str, Any]) -> list[str]:
    """The web's class where one of SOURCE_FIELDS names a page, else nothing."""
    named = (fields.get(name) for name in SOURCE_FIELDS)
    return [Trust.WEB.value] if any(isinstance(one, str) and _WEB.search(one) for one in named) else []


def episode_origin(episode: Episode) -> str:
    """The trust class of an episode: the least trusted of the episode and its events."""
    members = EpisodeEvent.objects.filter(agent=episode.agent_id, episode=episode).values("event")
    origins = (
        LongTermEntry.objects.filter(agent=episode.agent_id, event__in=members)
        .order_by()
        .values_list("origin", flat=True)
        .distinct()
    )
    return least_trusted((episode.origin, *origins))


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

"""Open episodes, add events to them, close and describe them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from identity.models import Agent, AuditEvent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.jobs import job_queue
from memory.layers.event_validation import extract_summary, extract_title
from memory.models import Episode, EpisodeEvent, carried_keys, keys_of, scope_label
from memory.persona import VIEWS, change_check
from memory.policy import (
    MAX_DETAIL_CHARACTERS,
    MAX_EVENTS_PER_APPEND,
)
from memory.services.memory_write import (
    fields_change,
    fields_checked,
    human_author_check,
    memory_add,
    memory_change,
    memory_index,
    memory_lock,
    memory_new,
    origin_lowered,
    row_lock,
)
from memory.services.quarantine.memories import quarantine_if_needed
from memory.services.trust import episode_origin, least_trusted, memory_consent, origin_of, screened_as
from nousweb.lib import Conflict, Invalid, choice_check, clock, past_check, text_check

EVENTS_READ = 500


def episode_words(episode: Episode) -> str:
    """The source of an extractive summary: the episode's detail, or else the contents of its events."""
    if episode.detail:
        return episode.detail
    events = VIEWS[episode.persona](episode.agent).transcript(episode)
    return "\n".join(events.values_list("content", flat=True)[:EVENTS_READ])


def episode_transcript(episode: Episode) -> str:
    """The transcript of an episode: its events in order, then its free text."""
    events = VIEWS[episode.persona](episode.agent).transcript(episode)
    parts: list[str] = []
    room = MAX_DETAIL_CHARACTERS * 2
    for kind, content in events.values_list("kind", "content").iterator(chunk_size=500):
        parts.append(f"{kind.replace('_', ' ')}: {content}" if kind else content)
        room -= len(content)
        if room < 0:
            break
    return "\n".join([*parts, episode.detail] if episode.detail else parts)


LARGEST_EVENT_ID = 2**63 - 1
SummaryKind = Episode.SummaryKind
BY_ITSELF = Principal.of_system("lifecycle")


@dataclass(frozen=True, slots=True)
class EpisodeAppendResult:
    """Numbers of events: `added` are new in the episode, `already` were in it before."""

    episode: Episode
    added: int
    already: int


@agent_transaction()
def episode_open(*, agent: Agent, by: Principal, started_at: datetime | None = None, **fields: Any) -> Episode:
    """Begin an episode of the persona that `by` acts as; `fields` are title, detail, participants, tags, keys,
    importance and origin. Raises Invalid, naming the field, or NotAllowed."""
    episode = memory_new(Episode, agent, by, **fields)
    episode.started_at = past_check("started_at", started_at) or clock.now()
    return memory_add(episode, by, "episode.open", {"title": episode.title, **carried_keys(episode)})


@agent_transaction(of="episode")
def episode_append(
    *, episode: Episode, by: Principal, event_ids: Sequence[int] = (), text: str = "", origin: str = ""
) -> EpisodeAppendResult:
    """Add events of the same memory, at most 1,000 in a call, and text to an open episode. `origin` is where the text
    comes from, as its writer says.

    An event is added once, however often it is sent. Raises Conflict if the episode is closed; Invalid without events
    and text, if an event is not in this memory or has another project, task or user, or if the detail becomes too long.
    """
    change_check(episode, by, "memory.change_episode")
    if len(event_ids) > MAX_EVENTS_PER_APPEND:
        raise Invalid(f"At most {MAX_EVENTS_PER_APPEND:,} events in one call.", field="event_ids")
    text = text_check("text", text, MAX_DETAIL_CHARACTERS)
    wanted = set(event_ids)
    if not wanted and not text:
        raise Invalid("Give event_ids, a text, or both.", field="event_ids")
    episode = row_lock(episode)
    if episode.ended_at is not None:
        raise Conflict("This episode is closed.")
    possible = {key for key in wanted if 0 < key <= LARGEST_EVENT_ID}
    events = VIEWS[episode.persona](episode.agent).events.filter(pk__in=possible)
    if missing := wanted - set(events.values_list("pk", flat=True)):
        shown = ", ".join(str(key) for key in sorted(missing)[:5])
        raise Invalid(f"There is no event {shown}{' …' if len(missing) > 5 else ''} in this memory.", field="event_ids")
    same = {f"{name}__in": {"", key} for name, key in keys_of(episode).items()}
    foreign = events.exclude(**same).order_by("pk").first()
    if foreign is not None:
        raise Invalid(
            f"Event {foreign.pk} belongs to {scope_label(foreign)}, and the episode does not: its summary would "
            "reveal the event elsewhere.",
            field="event_ids",
        )
    agent_id = episode.agent_id
    places = EpisodeEvent.objects.filter(agent=agent_id, episode=episode, event__in=wanted)
    held = set(places.values_list("event_id", flat=True))
    EpisodeEvent.objects.bulk_create(
        EpisodeEvent(agent_id=agent_id, episode=episode, event_id=key) for key in sorted(wanted - held)
    )
    own = origin_of(by, declared=origin) if text else episode.origin
    if (least := least_trusted((episode_origin(episode), own))) != episode.origin:
        episode.put(origin=least)
    if text:
        detail = f"{episode.detail}\n{text}" if episode.detail else text
        if len(detail) > MAX_DETAIL_CHARACTERS:
            raise Invalid(
                f"An episode's detail holds at most {MAX_DETAIL_CHARACTERS:,} characters; "
                f"there is room for {max(MAX_DETAIL_CHARACTERS - len(episode.detail) - 1, 0):,} more.",
                field="text",
            )
        fields_change(episode, {"detail": detail})
        episode.screened_as = screened_as(by, origin)
        if not by.is_person or origin:
            episode.consent = memory_consent(episode, by)
            quarantine_if_needed(episode)
        memory_index(episode)
    after = {"events_added": len(wanted - held), "characters_added": len(text)}
    audit_record(by=by, action="episode.append", target=episode, agent=episode.agent, after=after)
    return EpisodeAppendResult(episode, len(wanted - held), len(held))


@agent_transaction(of="episode")
def episode_close(
    *,
    episode: Episode,
    by: Principal,
    outcome: str = Episode.Outcome.UNKNOWN,
    title: str | None = None,
    summary: str | None = None,
    lessons: Sequence[str] | None = None,
    ended_at: datetime | None = None,
    origin: str = "",
) -> Episode:
    """End an episode; it stays in search.

    `outcome` is what the caller says and never inferred from words. A summary given here counts as written by
    the agent. Title and summary that it lacks are at once made of its own sentences, so that no worker and no judge is
    needed to know what it was about; a judge's take their place. Raises Conflict when the episode is closed already or
    people's and `by` is no person, Invalid, naming the field, or NotAllowed.
    """
    episode = memory_lock(episode, by, "memory.change_episode", endorsed_too=True)
    ended = past_check("ended_at", ended_at) or clock.now()
    given = {
        "outcome": choice_check("outcome", outcome, Episode.Outcome.values),
        **_described(title=title, summary=summary, lessons=lessons),
        **origin_lowered(episode, origin, by),
    }
    if episode.ended_at is not None:
        raise Conflict("This episode is already closed.", ended_at=episode.ended_at.isoformat())
    human_author_check(episode, by)
    if ended < episode.started_at:
        raise Invalid("ended_at must not be earlier than started_at.", field="ended_at")
    memory_change(episode, by, "episode.close", given | {"ended_at": ended})
    job_queue("episode_close", agent=episode.agent, persona=episode.persona, subject=episode)
    if episode.title and episode.summary:
        return episode
    said = episode_words(episode)
    title, summary = extract_title(episode.summary or said), extract_summary(said)
    return episode_describe(episode=episode, by=BY_ITSELF, title=title, summary=summary, kind=SummaryKind.EXTRACTIVE)


@agent_transaction(of="episode")
def episode_update(*, episode: Episode, by: Principal, **fields: Any) -> Episode:
    """Change title, summary, tags, importance, and whether search shows the episode; None leaves a field alone.

    Raises Invalid, NotAllowed, or Conflict where people wrote, changed or closed it and `by` is no person.
    """
    episode = memory_lock(episode, by, "memory.change_episode")
    lowered = origin_lowered(episode, fields.pop("origin", None), by)
    if unknown := fields.keys() - {"title", "summary", "tags", "importance", "active"}:
        raise TypeError(f"{', '.join(sorted(unknown))} of an episode cannot be changed.")
    memory_change(episode, by, "episode.update", _described(**fields) | lowered)
    return episode


@agent_transaction(of="episode")
def episode_describe(*, episode: Episode, by: Principal, title: str, summary: str, kind: str) -> Episode:
    """Give an episode a title if it has none, and a summary of `kind` unless the agent wrote one; "" leaves it alone.

    Where the title was made of the episode's own sentences too, the judge's takes its place.
    """
    episode = memory_lock(episode, by, "memory.change_episode", endorsed_too=True)
    given: dict[str, Any] = {}
    replaced = episode.summary_kind == SummaryKind.EXTRACTIVE and kind == SummaryKind.JUDGE
    if title and (not episode.title or (replaced and _title_was_made(episode))):
        given |= fields_checked(Episode, {"title": title})
    if summary and (episode.summary_kind == SummaryKind.NONE or replaced):
        given |= fields_checked(Episode, {"summary": summary}) | {"summary_kind": kind}
    memory_change(episode, by, "episode.describe", given)
    return episode


def _title_was_made(episode: Episode) -> bool:
    """Whether the lifecycle gave the episode its title, as the audit trail tells."""
    records = AuditEvent.objects.of_object("episode", episode.pk).filter(after__has_key="title").order_by("-id")
    last = records.first()
    return last is not None and last.action == "episode.describe"


def _described(**fields: Any) -> dict[str, Any]:
    """These fields as they are stored; a summary that people or agents write is marked as given."""
    given = fields_checked(Episode, fields)
    if "summary" in given:
        given["summary_kind"] = SummaryKind.GIVEN if given["summary"] else SummaryKind.NONE
    return given

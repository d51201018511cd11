"""The log of the lifecycle's activities as loops of the subconscious persona.

Source: seed "Agentic Memory System", Prompt Loop Boundaries. A loop of learning is about one memory; a dream is one day
of one agent, with an event for each of its jobs. Texts name memories by id and never quote them.
"""

from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from identity.models import Persona
from identity.principal import Principal
from memory.layers.event_validation import MAX_KEY_CHARACTERS
from memory.lifecycle.handlers import DREAM, handlers
from memory.lifecycle.job_words import handler_label, result_text
from memory.models import Event, EventKind, Job
from memory.services.events import RepeatedKey, events_record
from nousweb.lib import clock

BY = Principal.of_system("lifecycle")
HEALED_BACK = timedelta(days=2)
BATCH = 500
VISIBILITY = "internal"

Draft = dict[str, Any]


def activity_record(job: Job) -> bool:
    """Log what a done job learned or dreamed, once for each run of it; False where its handler does neither.

    It is a transaction of its own: the log of the subconscious is written one call after another, and a job that waited
    for its turn would keep the actor waiting for what the job has locked.
    """
    handler = handlers().get(job.handler)
    if handler is None or not (handler.learns or job.handler in DREAM):
        return False
    record = partial(events_record, agent=job.agent, by=BY, persona=Persona.SUBCONSCIOUS)
    label = handler_label(job.handler)
    told: Draft = {"handler": job.handler, "subject_type": job.subject_type, "subject_id": job.subject_id}
    done: Draft = {
        "key": _key(job),
        "content": f"{label}: {result_text(job.result) or 'nothing to do'}.",
        "metadata": {**told, "result": job.result, "tokens": job.tokens},
    }
    if job.handler in DREAM:
        day = f"{job.queued_at:%Y-%m-%d}"
        loop = {"loop_id": f"dream:{day}", "visibility": VISIBILITY}
        opening: Draft = {
            "key": f"dream:{day}:prompt",
            "content": f"Dream of {day}. {'. '.join(map(handler_label, DREAM))}.",
        }
        drafts = [
            {**loop, **opening, "kind": EventKind.SUBCONSCIOUS_PROMPT.value},
            {**loop, **done, "kind": EventKind.SYSTEM_EVENT.value},
        ]
        recorded = record(events=drafts)
        if (closing := _dream_summary(job, day, parts=len(DREAM))) is not None:
            record(events=[{**loop, **closing, "kind": EventKind.SUBCONSCIOUS_OUTPUT.value}])
    else:
        loop = {"loop_id": f"learn:{job.handler}:{job.subject_id}", "visibility": VISIBILITY}
        prompt = f"{label}: {job.subject_type} {job.subject_id}."
        opening = {"key": f"{_key(job)}:prompt", "content": prompt, "metadata": told, "ts": job.started_at}
        drafts = [
            {**loop, **opening, "kind": EventKind.SUBCONSCIOUS_PROMPT.value},
            {**loop, **done, "kind": EventKind.SUBCONSCIOUS_OUTPUT.value, "ts": job.finished_at},
        ]
        recorded = record(events=drafts)
    return not recorded[-1].repeated


def activities_heal() -> int:
    """Log what jobs of the last days did and the log lacks, since their worker was killed; returns how many."""
    active = [name for name, handler in handlers().items() if handler.learns or name in DREAM]
    done = Job.objects.filter(
        status=Job.Status.DONE, handler__in=active, finished_at__gte=clock.now() - HEALED_BACK
    ).select_related("agent")
    healed, last = 0, 0
    while jobs := list(done.filter(pk__gt=last).order_by("pk")[:BATCH]):
        keys = {job.pk: _key(job) for job in jobs}
        logged = set(
            Event.objects.filter(
                agent__in={job.agent_id for job in jobs}, persona=Persona.SUBCONSCIOUS, key__in=keys.values()
            ).values_list("agent_id", "key")
        )
        for job in jobs:
            if (job.agent_id, keys[job.pk]) not in logged:
                # A token of the subconscious may have taken a key, and must not keep the others' from being logged.
                with suppress(RepeatedKey):
                    healed += activity_record(job)
        last = jobs[-1].pk
    return healed


def _dream_summary(job: Job, day: str, *, parts: int) -> dict[str, str] | None:
    """The event that closes the loop of a dream, once all its parts are in the log; None before, and afterwards."""
    key = f"dream:{day}:output"
    events = Event.objects.filter(agent=job.agent, persona=Persona.SUBCONSCIOUS, loop_id=f"dream:{day}")
    found = list(events.order_by("ts", "id").values_list("key", "kind", "metadata__handler", "content"))
    said = {handler: content for _, kind, handler, content in found if kind == EventKind.SYSTEM_EVENT}
    if len(said) < parts or any(known == key for known, *_ in found):
        return None
    return {"key": key, "content": "\n".join([f"Dreamed of {day}.", *(said[name] for name in sorted(said))])}


def _key(job: Job) -> str:
    """One for each time that the job was queued: what is run again has something new to tell."""
    return f"{job.key[: MAX_KEY_CHARACTERS - 50]}:{job.queued_at:%Y%m%dT%H%M%S%f}"

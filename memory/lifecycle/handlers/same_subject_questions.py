"""Open reviews of whether two subjects are the same because their facts agree, whatever their names."""

from typing import Any

from identity.models import Persona
from memory.lifecycle.handler import Handler
from memory.models import Fact, Job, Subject, SubjectAlias
from memory.services.subjects.proposals import open_subject_review
from memory.subjects.same_subject_evidence import WORDS, SubjectEvidence, SubjectSentence, shared_contexts

MAX_FACTS = 5_000
"""Facts of one memory that are looked at, the latest."""
MAX_PROPOSALS = 20
"""Maximum number per memory and day; the rest follows the next day."""


def _prepare(job: Job) -> list[SubjectEvidence]:
    return [each for persona in Persona.values for each in _alike(job, persona)]


def _alike(job: Job, persona: str) -> list[SubjectEvidence]:
    """Each memory by itself: what is said in one says nothing about the other."""
    spelled = SubjectAlias.objects.filter(agent=job.agent, persona=persona)
    keys = dict(spelled.values_list("key", "subject_id"))
    facts = Fact.objects.active().filter(agent=job.agent, persona=persona, subject_alias__isnull=False)
    rows = facts.order_by("-recorded_at", "id").values_list("subject_alias__subject_id", "content")[:MAX_FACTS]
    return shared_contexts([SubjectSentence(subject, content) for subject, content in rows], keys)


def _apply(job: Job, alike: list[SubjectEvidence]) -> dict[str, Any]:
    asked = 0
    keys = {key for each in alike for key in (each.one, each.other)}
    rows = Subject.objects.standing().filter(agent=job.agent, pk__in=keys).select_related("agent")
    subjects = {row.pk: row for row in rows}
    for each in sorted(alike, key=lambda one: (-one.score, one.one, one.other)):
        pair = [subjects[key] for key in (each.one, each.other) if key in subjects]
        if len(pair) < 2 or asked >= MAX_PROPOSALS * len(Persona.values):
            continue
        older, newer = sorted(pair, key=lambda row: (row.created_at, row.pk))
        reasons = [(each.code, f"{WORDS[each.code]} {each.quote}"[:300], older.name, newer.name)]
        asked += open_subject_review(older=older, newer=newer, score=each.score, reasons=reasons) is not None
    return {"asked": asked}


SUBJECT_CONTEXTS = Handler(apply=_apply, prepare=_prepare)

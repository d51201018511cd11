"""Propose merges of similar facts of subjects with many facts, project by project."""

import hashlib
import time
from collections.abc import Mapping
from typing import Any

from django.db.models import Count, F
from django.db.models.functions import Lower

from identity.models import Persona
from identity.principal import Principal
from memory.judge import ASK_WITHIN_SECONDS, JudgeFailed, configured_judge
from memory.lifecycle.handler import Handler
from memory.lifecycle.job_thresholds import COMPACTION_FACTS, COMPACTION_LISTED
from memory.models import Fact, Job, MemoryReview
from memory.services.reviews.open_review import review_open
from memory.services.subjects.fact_snapshots import snapshot_of

BY = Principal.of_system("lifecycle")
MAX_PROPOSALS = 5

Crowded = list[tuple[str, str, list[Fact], str]]


def _prepare(job: Job) -> Crowded:
    """Persona, subject, facts and the judge's text, or "", of the subjects that nobody was asked about yet.

    Each persona has its own share of what is asked in a day; the actor's comes first, so that none of its time is lost.
    """
    began = time.monotonic()
    return [each for persona in Persona.values for each in _crowded(job, persona, began)]


def _crowded(job: Job, persona: str, began: float) -> Crowded:
    counts = (
        Fact.objects.current()
        .filter(agent=job.agent, persona=persona)
        .exclude(subject_alias=None)
        .values("project", "task", thing=F("subject_alias__subject"), named=Lower("subject_alias__subject__name"))
        .annotate(facts=Count("pk"))
        .filter(facts__gt=COMPACTION_FACTS)
        .order_by("-facts", "named", "project", "task")
    )
    found: Crowded = []
    judge = configured_judge()
    for row in counts[:200]:
        about = _about(job, persona, row)
        if MemoryReview.objects.filter(agent=job.agent, about=about).exists():
            continue
        facts = list(
            Fact.objects.current()
            .filter(agent=job.agent, persona=persona, subject_alias__subject=row["thing"])
            .filter(project=row["project"], task=row["task"])
            .order_by("recorded_at", "id")[:COMPACTION_LISTED]
        )
        text = ""
        if judge is not None:
            try:
                judge_result = judge.merge(
                    agent=job.agent, persona=persona, facts=[snapshot_of(each) for each in facts]
                )
                text, job.tokens = judge_result.value.content, job.tokens + judge_result.tokens
            except JudgeFailed:
                judge = None
        found.append((persona, about, facts, text))
        # What is left is proposed tomorrow.
        if len(found) >= MAX_PROPOSALS or time.monotonic() - began > ASK_WITHIN_SECONDS:
            break
    return found


def _about(job: Job, persona: str, row: Mapping[str, Any]) -> str:
    """Asked about again only when the subject has grown by as much once more, in its project and task."""
    told = "\n".join([row["named"], *([row["project"], row["task"]] if row["project"] or row["task"] else [])])
    named = hashlib.sha256(told.encode()).hexdigest()[:24]
    return f"compaction:{job.agent_id}:{persona}:{named}:{row['facts'] // (COMPACTION_FACTS + 1)}"


def _apply(job: Job, crowded: Crowded) -> dict[str, Any]:
    asked = 0
    for persona, about, facts, text in crowded:
        if len(facts) < 2:
            continue
        asked += (
            review_open(
                agent=job.agent,
                persona=persona,
                kind=MemoryReview.Kind.COMPACTION,
                about=about,
                by=BY,
                subject=facts[0].subject,
                facts=[each.pk for each in facts],
                proposal=text,
            )
            is not None
        )
    return {"asked": asked}


COMPACTION = Handler(apply=_apply, prepare=_prepare, activity="dream")

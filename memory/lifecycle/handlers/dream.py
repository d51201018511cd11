"""The jobs of the dream cycle, which runs once a day for each agent.

Sources: seed 009.1, parts 2 and 4, and seed "Agentic Memory System". Each persona has bounds of its own, or much of one
memory would keep the other from its turn.
"""

import hashlib
import time
from collections.abc import Mapping
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q
from django.db.models.functions import Lower, TruncDate

from identity.models import Persona
from identity.principal import Principal
from memory.judge import ASK_WITHIN_SECONDS, JudgeFailed, configured_judge
from memory.lifecycle.handler import (
    CENSOR_FALSE_SHARE,
    CENSOR_MIN_ACTIVATIONS,
    COMPACTION_FACTS,
    COMPACTION_LISTED,
    CORE_CONFIRMATIONS,
    CORE_IMPORTANCE,
    NEVER_STALE,
    PROCEDURE_FLAGS,
    PROCEDURE_MIN_USES,
    STALE_AFTER,
    STALE_CONFIDENCE_FLOOR,
    STALE_CONFIDENCE_STEP,
    Handler,
)
from memory.models import (
    KEYS,
    Censor,
    Episode,
    Fact,
    FactChange,
    Job,
    MemoryReview,
    Procedure,
    Subject,
    SubjectAlias,
)
from memory.policy import COMPACT_EPISODES
from memory.services.censors import censor_retire
from memory.services.facts import fact_edit
from memory.services.procedures import procedure_update
from memory.services.reviews.open_review import review_open
from memory.services.search_index.writer import index_put
from memory.services.subjects.registry import open_subject_review, snapshot_of
from memory.subjects.same_subject_evidence import WORDS, SubjectEvidence, SubjectSentence, shared_contexts
from memory.types import entry_of
from nousweb.lib import clock

BY = Principal.of_system("lifecycle")
MAX_EPISODES = 2_000
"""Episodes of each memory that are compacted, the latest."""


def _stale_lower(job: Job, persona: str) -> int:
    """Lower the confidence of stale facts, which nobody has confirmed for long; some categories do not age."""
    horizon = clock.now() - STALE_AFTER
    lowered = FactChange.objects.filter(
        agent=OuterRef("agent"), fact=OuterRef("pk"), at__gt=horizon, evidence__has_key="staleness"
    )
    stale = (
        Fact.objects.current()
        .filter(
            Q(last_confirmed_at__lt=horizon) | Q(last_confirmed_at__isnull=True),
            ~Exists(lowered),
            agent=job.agent,
            persona=persona,
            recorded_at__lt=horizon,
            confidence__gt=STALE_CONFIDENCE_FLOOR,
        )
        .exclude(category__in=NEVER_STALE)
        .select_related("agent")
        .order_by("pk")[:500]
    )
    for fact in stale:
        fact_edit(
            fact=fact,
            by=BY,
            confidence=round(max(fact.confidence - STALE_CONFIDENCE_STEP, STALE_CONFIDENCE_FLOOR), 4),
            reason=f"Not confirmed for {STALE_AFTER.days} days.",
            evidence={"staleness": True},
        )
    return len(stale)


def _core_raise(job: Job, persona: str) -> int:
    """Raise the importance of facts that are confirmed on many days: repeating what a prompt told is nothing new."""
    confirmed = Count(TruncDate("changes__at"), distinct=True, filter=Q(changes__action=FactChange.Action.CONFIRMED))
    often = (
        Fact.objects.current()
        .filter(agent=job.agent, persona=persona, importance__lt=CORE_IMPORTANCE)
        .filter(confirmation_count__gte=CORE_CONFIRMATIONS)
        .annotate(days=confirmed)
        .filter(days__gte=CORE_CONFIRMATIONS)
        .order_by("pk")
    )
    keys = list(often.values_list("pk", flat=True)[:500])
    for fact in Fact.objects.select_related("agent").filter(pk__in=keys).order_by("pk"):
        fact_edit(
            fact=fact,
            by=BY,
            importance=CORE_IMPORTANCE,
            reason=f"Confirmed on {CORE_CONFIRMATIONS} days or more: a core fact.",
        )
    return len(keys)


def _episodes_compact(job: Job, prepared: None) -> dict[str, Any]:
    """Index old episodes again, as short as their age has it; they are kept whole."""
    youngest = min(age for age, _ in COMPACT_EPISODES)
    old = Episode.objects.filter(agent=job.agent, ended_at__lt=clock.now() - youngest).order_by("-ended_at")
    closed = [episode for persona in Persona.values for episode in old.filter(persona=persona)[:MAX_EPISODES]]
    entries = [entry for entry in map(entry_of, closed) if entry.text]
    # Rows whose text is the same keep their vectors.
    index_put(entries)
    return {"looked_at": len(entries)}


def flag_of(successes: int, failures: int) -> str:
    """ "effective", "ineffective" or "" for a procedure with so many known outcomes."""
    known = successes + failures
    if known < PROCEDURE_MIN_USES:
        return ""
    (low, bad), (high, good) = PROCEDURE_FLAGS
    share = successes / known
    return bad if share <= low else good if share >= high else ""


def _procedures_flag(job: Job, prepared: None) -> dict[str, Any]:
    """Tag procedures by their rate of success; people and plans can filter by these tags."""
    names = {name for _, name in PROCEDURE_FLAGS}
    changed = 0
    for procedure in Procedure.objects.active().filter(agent=job.agent).select_related("agent").order_by("pk"):
        flag = flag_of(procedure.success_count, procedure.failure_count)
        tags = sorted((set(procedure.tags) - names) | ({flag} if flag else set()))
        if tags != sorted(procedure.tags):
            procedure_update(procedure=procedure, by=BY, tags=tags[:20])
            changed += 1
    return {"flagged": changed}


def _censors_retire(job: Job, prepared: None) -> dict[str, Any]:
    """Retire censors whose matches people mostly reported as false positives."""
    mistaken = (
        Censor.objects.active()
        .filter(
            agent=job.agent,
            activation_count__gte=CENSOR_MIN_ACTIVATIONS,
            false_positive_count__gt=F("activation_count") * CENSOR_FALSE_SHARE,
        )
        .exclude(severity=Censor.Severity.ABSOLUTE)
        .select_related("agent")
        .order_by("pk")
    )
    for censor in mistaken:
        said = f"{censor.false_positive_count} of {censor.activation_count} matches were false positives."
        censor_retire(censor=censor, by=BY, message=said)
    return {"retired": [str(censor.pk) for censor in mistaken]}


MAX_MERGES = 5

Crowded = list[tuple[str, str, list[Fact], str]]


def _merges_prepare(job: Job) -> Crowded:
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
        .values(*KEYS, thing=F("subject_alias__subject"), named=Lower("subject_alias__subject__name"))
        .annotate(facts=Count("pk"))
        .filter(facts__gt=COMPACTION_FACTS)
        .order_by("-facts", "named", *KEYS)
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
            .filter(**{name: row[name] for name in KEYS})
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
        if len(found) >= MAX_MERGES or time.monotonic() - began > ASK_WITHIN_SECONDS:
            break
    return found


def _about(job: Job, persona: str, row: Mapping[str, Any]) -> str:
    """Asked about again only when the subject has grown by as much once more, within the same keys."""
    told = "\n".join([row["named"], *(f"{name} {row[name]}" for name in KEYS if row[name])])
    named = hashlib.sha256(told.encode()).hexdigest()[:24]
    return f"compaction:{job.agent_id}:{persona}:{named}:{row['facts'] // (COMPACTION_FACTS + 1)}"


def _merges_propose(job: Job, crowded: Crowded) -> dict[str, Any]:
    """Propose merges of similar facts of subjects with many facts, project by project."""
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


MAX_FACTS = 5_000
"""Facts of one memory that are looked at, the latest."""
MAX_SUBJECT_PAIRS = 20
"""Maximum number per memory and day; the rest follows the next day."""


def _alike(job: Job, persona: str) -> list[SubjectEvidence]:
    """Each memory by itself: what is said in one says nothing about the other."""
    spelled = SubjectAlias.objects.filter(agent=job.agent, persona=persona)
    keys = dict(spelled.values_list("key", "subject_id"))
    facts = Fact.objects.active().filter(agent=job.agent, persona=persona, subject_alias__isnull=False)
    rows = facts.order_by("-recorded_at", "id").values_list("subject_alias__subject_id", "content")[:MAX_FACTS]
    return shared_contexts([SubjectSentence(subject, content) for subject, content in rows], keys)


def _subjects_propose(job: Job, alike: list[SubjectEvidence]) -> dict[str, Any]:
    """Open reviews of whether two subjects are the same because their facts agree, whatever their names."""
    asked = 0
    keys = {key for each in alike for key in (each.one, each.other)}
    rows = Subject.objects.standing().filter(agent=job.agent, pk__in=keys).select_related("agent")
    subjects = {row.pk: row for row in rows}
    for each in sorted(alike, key=lambda one: (-one.score, one.one, one.other)):
        pair = [subjects[key] for key in (each.one, each.other) if key in subjects]
        if len(pair) < 2 or asked >= MAX_SUBJECT_PAIRS * len(Persona.values):
            continue
        older, newer = sorted(pair, key=lambda row: (row.created_at, row.pk))
        reasons = [(each.code, f"{WORDS[each.code]} {each.quote}"[:300], older.name, newer.name)]
        asked += open_subject_review(older=older, newer=newer, score=each.score, reasons=reasons) is not None
    return {"asked": asked}


DREAM: dict[str, Handler] = {
    "staleness": Handler(lambda job, _: {"lowered": sum(_stale_lower(job, persona) for persona in Persona.values)}),
    "core_facts": Handler(lambda job, _: {"raised": sum(_core_raise(job, persona) for persona in Persona.values)}),
    "episode_compact": Handler(_episodes_compact),
    "procedure_flags": Handler(_procedures_flag),
    "censor_retire": Handler(_censors_retire),
    "compaction": Handler(_merges_propose, _merges_prepare),
    "subject_contexts": Handler(
        _subjects_propose, lambda job: [each for persona in Persona.values for each in _alike(job, persona)]
    ),
}

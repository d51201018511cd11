"""Complete a closed episode: its title, its summary and the facts extracted from it. Source: seed 009.1, part 3.

Closing it made both of its own sentences, and marked them so. With a judge, title and summary are its own, and at most
five facts are learned. Without one, or when it fails or takes long, the job's result says that the judge is still to be
asked; the job is run again when there is one. What the agent wrote itself is never replaced.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from identity.principal import Principal
from memory.judge import ASK_WITHIN_SECONDS, ExtractedFact, Judge, JudgeFailed, configured_judge
from memory.layers.event_validation import extract_summary, extract_title
from memory.lifecycle.handler import LOW_CONFIDENCE, Handler
from memory.lifecycle.judge_backlog import NO_JUDGE, PENDING, backlog_continue
from memory.models import (
    Episode,
    Fact,
    Job,
    MemoryReview,
    keys_of,
)
from memory.services.decisions import decisions_link
from memory.services.episodes import episode_describe, episode_transcript, episode_words
from memory.services.facts import Precheck, fact_learn, fact_precheck
from memory.services.facts.reconcile import MAX_VERDICTS
from memory.services.reviews.open_review import review_open

BY = Principal.of_system("lifecycle")
Kind = Episode.SummaryKind


@dataclass(slots=True)
class PreparedEpisode:
    """The prepared result. `judge`: "done", NO_JUDGE or PENDING if it must be called again, or the reason why it will
    not be."""

    title: str = ""
    summary: str = ""
    kind: str = ""
    judge: str = "done"
    facts: list[tuple[ExtractedFact, Precheck]] = field(default_factory=list)
    skipped: bool = False


def _prepare(job: Job) -> PreparedEpisode:
    episode = (
        Episode.objects.select_related("agent")
        .filter(agent=job.agent_id, pk=job.subject_id, ended_at__isnull=False)
        .first()
    )
    if episode is None:
        return PreparedEpisode(skipped=True)
    text = episode_transcript(episode)
    plain = episode_words(episode)
    if not text.strip():
        return PreparedEpisode(skipped=True)
    prepared = PreparedEpisode()
    judge = configured_judge()
    if judge is None:
        prepared.judge = NO_JUDGE
    else:
        _ask(judge, job, episode, text, prepared)
    if not prepared.summary and episode.summary_kind == Kind.NONE:
        prepared.title, prepared.summary, prepared.kind = extract_title(plain), extract_summary(plain), Kind.EXTRACTIVE
    elif not prepared.title and not episode.title:
        prepared.title = extract_title(episode.summary or plain)
    return prepared


def _ask(judge: Judge, job: Job, episode: Episode, text: str, prepared: PreparedEpisode) -> None:
    began = time.monotonic()
    try:
        summary = episode.summary
        if episode.summary_kind in (Kind.NONE, Kind.EXTRACTIVE) or not episode.title:
            judge_result = judge.summarise(agent=episode.agent, persona=episode.persona, transcript=text)
            job.tokens += judge_result.tokens
            prepared.title = judge_result.value.title
            if episode.summary_kind != Kind.GIVEN:
                summary = prepared.summary = judge_result.value.summary
                prepared.kind = Kind.JUDGE
        if "facts" not in job.result:
            if time.monotonic() - began > ASK_WITHIN_SECONDS:
                prepared.judge = PENDING
                return
            extracted = judge.extract_facts(
                agent=episode.agent, persona=episode.persona, summary=summary, transcript=text
            )
            job.tokens += extracted.tokens
            for each in extracted.value.facts:
                # What there is no time for is asked by the checks of the stored facts.
                limit = MAX_VERDICTS if time.monotonic() - began < ASK_WITHIN_SECONDS else 0
                precheck = fact_precheck(_draft(episode, each), waiting=False, limit=limit)
                prepared.facts.append((each, precheck))
            job.tokens += sum(precheck.tokens for _, precheck in prepared.facts)
    except JudgeFailed as error:
        prepared.judge = PENDING if error.retryable else str(error)


def _draft(episode: Episode, extracted: ExtractedFact) -> Fact:
    return Fact(
        agent=episode.agent,
        persona=episode.persona,
        content=extracted.content,
        subject=extracted.subject,
        attribute=extracted.attribute,
        value=extracted.value,
        category=extracted.category,
        **keys_of(episode),
    )


def _apply(job: Job, prepared: PreparedEpisode) -> dict[str, Any]:
    if prepared.skipped:
        return {"skipped": "There is nothing to summarise."}
    episode = Episode.objects.select_related("agent").get(agent=job.agent_id, pk=job.subject_id)
    episode_describe(episode=episode, by=BY, title=prepared.title, summary=prepared.summary, kind=prepared.kind)
    result: dict[str, Any] = {
        "judge": prepared.judge,
        "summary": prepared.kind or episode.summary_kind,
        "decisions_linked": decisions_link(episode=episode, by=BY),
    }
    if "facts" in job.result:
        result["facts"] = job.result["facts"]
    elif prepared.judge not in (NO_JUDGE, PENDING):
        result["facts"] = _learn(episode, prepared.facts)
    if prepared.judge == PENDING:
        result["tries"] = job.result.get("tries", 0) + 1
    elif prepared.judge != NO_JUDGE:
        backlog_continue()
    return result


def _learn(episode: Episode, facts: Sequence[tuple[ExtractedFact, Precheck]]) -> dict[str, int]:
    actions: dict[str, int] = {}
    for each, precheck in facts:
        learned = fact_learn(
            agent=episode.agent,
            persona=episode.persona,
            content=each.content,
            subject=each.subject,
            attribute=each.attribute,
            value=each.value,
            category=each.category,
            confidence=each.confidence,
            source=f"episode:{episode.pk}",
            source_episode=episode,
            by=BY,
            precheck=precheck,
        )
        actions[learned.action] = actions.get(learned.action, 0) + 1
        if learned.action != "confirmed" and learned.fact.active and each.confidence < LOW_CONFIDENCE:
            review_open(
                agent=episode.agent,
                persona=episode.persona,
                kind=MemoryReview.Kind.LOW_CONFIDENCE,
                about=f"low:{learned.fact.pk}",
                by=BY,
                new=learned.fact,
                subject=learned.fact.subject,
                score=each.confidence,
            )
    return actions


EPISODE_CLOSE = Handler(apply=_apply, prepare=_prepare, learns=True)

"""Learn a fact: store it, confirm an equal one, or supersede an old one, in one transaction.

1. `fact_learn` checks what was given, and the precheck asks the models, which no transaction may wait for.
2. Those who learn for the same memory wait for each other, so that what two of them learn at once is compared too.
3. `fact_reconcile` finds what the fact resembles, decides, and applies it. The later check of a fact that was stored
   without its embedding calls the same.
"""

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from identity.models import Agent
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from memory.comparison.compare_facts import Comparison
from memory.comparison.learning_decision import FactMatch, decide_learning, reasons_of
from memory.judge import JudgeResult, RelationVerdict
from memory.models import Episode, Fact, FactChange, MemoryReview, Scope, key_check
from memory.policy import CATEGORY_PERMISSIONS, DEFAULT_CATEGORY
from memory.policy.autonomy import AutomaticDecision, Autonomy
from memory.services.facts.changes import fact_change_record, fact_invalidate, facts_lock
from memory.services.facts.comparable_facts import candidates_compare
from memory.services.facts.cross_subject_duplicates import cross_subject_review, holds_for_both
from memory.services.facts.fields import fact_fields_check
from memory.services.facts.invalidated_facts import invalidated_match, relearned_review_open
from memory.services.facts.pairs import AppliedResolution, Resolution, resolution_apply
from memory.services.facts.precheck import Precheck, fact_precheck, in_transaction
from memory.services.facts.store import alias_assign, fact_store, fact_store_audit
from memory.services.memory_write import learning_lock
from memory.services.quarantine.memories import memory_text, open_quarantine_review, quarantine_memory, scan_memory
from memory.services.reviews.blind_samples import fields_before, sample_is_due, sample_open
from memory.services.reviews.open_review import (
    PairReviewDraft,
    asks_about_attribute,
    attribute_questions_open,
    pair_reviews_open,
)
from memory.services.subjects.registry import alias_find
from memory.services.trust import fact_origin
from nousweb.lib import clock
from nousweb.lib.characters import shows_all
from nousweb.lib.errors import Conflict, Invalid, NotAllowed
from nousweb.lib.injection.scan import InjectionMatch


@dataclass(frozen=True, slots=True)
class LearnResult:
    """The result of learning one fact. `action` is one of:

    - "stored": `fact` is new.
    - "confirmed": `fact` is an old fact with the same statement.
    - "superseded": `fact` is new and replaced the facts in `superseded`.
    - "queued": `fact` is new and has pending `reviews`.
    - "quarantined": `fact` reads like an instruction to the agent. It was compared with nothing.
      `reviews` has its review, unless that is resolved.

    Two cases store nothing. If the same sentence is stored about another subject, `fact` is that one: "queued" while a
    review asks whether it is true of both, "decided" if people decided that it is not. If people invalidated the same
    statement, `fact` is the invalidated one: "queued" with a pending review, "decided" without a new source.
    """

    action: str
    fact: Fact
    superseded: tuple[Fact, ...] = ()
    reviews: tuple[MemoryReview, ...] = field(default=())

    @property
    def review(self) -> UUID | None:
        """The id of the first pending review, None without one."""
        return self.reviews[0].pk if self.reviews else None


def fact_learn(
    *,
    agent: Agent,
    content: str,
    by: Principal,
    subject: str = "",
    attribute: str = "",
    value: str = "",
    category: str = DEFAULT_CATEGORY,
    kind: str = "",
    scope: str = Scope.GLOBAL,
    project: str | None = None,
    task: str | None = None,
    tags: Sequence[str] = (),
    confidence: float = 1.0,
    importance: float = 0.5,
    source: str = "",
    valid_from: datetime | None = None,
    valid_until: datetime | None = None,
    source_episode: Episode | None = None,
    persona: str = "",
    exclude: Sequence[UUID] = (),
    precheck: Precheck | None = None,
    repeats: bool = False,
) -> LearnResult:
    """Learn a fact in the memory of the persona of `by`; the system names the `persona`.

    A fact with the same statement as an old one confirms that. One with a certainly newer value supersedes the old one.
    Uncertain cases are stored with a review, and so is a fact that would replace one that is verified by people or has
    a pending review. A statement that people invalidated is only stored if a person learns it.

    `exclude`: ids of facts that it is not compared with.
    `repeats`: a person decided that the sentence, which is stored about another subject, is true of this one too.
    `attribute`, `value`: what it says of the subject, if the writer names both ("job title", "nurse").
    `project`, `task`: without them, those of the episode.
    `confidence`, `importance`: in [0, 1].
    `precheck`: the result of `fact_precheck`. Without it, one is made, unless a transaction is open; then the fact is
    compared by meaning later.
    Raises Invalid with the name of the field, or NotAllowed.
    """
    fact = build_fact(
        agent=agent, by=by, persona=persona, source_episode=source_episode, content=content, subject=subject,
        attribute=attribute, value=value, category=category, kind=kind, scope=scope, project=project, task=task,
        tags=tags, confidence=confidence, importance=importance, source=source, valid_from=valid_from,
        valid_until=valid_until,
    )  # fmt: skip
    may_replace = replaceable_by(by)
    if precheck is None:
        # No model is called for a quarantined fact.
        alone = in_transaction() or scan_memory(fact) is not None
        precheck = Precheck() if alone else fact_precheck(fact, may_replace=may_replace, exclude=exclude)
    return learn_built_fact(
        fact=fact, by=by, precheck=precheck, may_replace=may_replace, exclude=exclude, repeats=repeats
    )


def build_fact(
    *,
    agent: Agent,
    by: Principal,
    persona: str = "",
    category: str = DEFAULT_CATEGORY,
    project: str | None = None,
    task: str | None = None,
    source_episode: Episode | None = None,
    **fields: Any,
) -> Fact:
    """Validate the arguments of `fact_learn` and build the unsaved fact. `fields` are those of `fact_fields_check`.

    Raises Invalid with the name of the field, or NotAllowed.
    """
    by.require("memory.add_fact", agent)
    if category in CATEGORY_PERMISSIONS:
        by.require(CATEGORY_PERMISSIONS[category], agent)
    if persona and persona != by.persona and not (by.kind == "system" or (by.is_person and by.may(VIEW_SUBCONSCIOUS))):
        raise NotAllowed(f"This belongs to the {persona}.")
    project = key_check("project", _inherited(project, "project", source_episode))
    task = key_check("task", _inherited(task, "task", source_episode))
    by.require_project(project)
    fact = Fact(
        agent=agent,
        persona=persona or by.persona,
        source_episode=source_episode,
        endorsed=by.is_person,
        **fact_fields_check(category=category, project=project, task=task, **fields),
    )
    fact.origin = fact_origin(fact, by)
    names = [str(fields.get(name, "")) for name in ("subject", "attribute", "value")]
    given = "\n".join([str(fields["content"]), *names, *map(str, fields.get("tags", ()))])
    if not shows_all(given):
        fact.as_given = given
    return fact


def replaceable_by(by: Principal) -> set[str]:
    """The categories with a permission of their own whose facts `by` may replace."""
    return {name for name, right in CATEGORY_PERMISSIONS.items() if by.may(right)}


def _inherited(value: str | None, name: str, episode: Episode | None) -> str:
    if value is not None:
        return value
    return str(getattr(episode, name)) if episode else ""


def store_quarantined_fact(*, fact: Fact, by: Principal, match: InjectionMatch) -> LearnResult:
    """Store a quarantined fact, under the learning lock. If people allow it, its subject is entered and it is compared
    with other facts then."""
    same = Fact.objects.filter(agent=fact.agent, persona=fact.persona, quarantined=True, content=fact.content)
    stored = same.filter(subject=fact.subject, project=fact.project, task=fact.task).select_related("agent").first()
    if stored is None:
        stored = fact
        stored.subject_alias = None
        stored.save(force_insert=True)
        fact_change_record(stored, FactChange.Action.STORED, by, at=stored.recorded_at)
        fact_store_audit(stored, by)
        quarantine_memory(stored)
    items = [("fact", str(stored.pk))]
    review = open_quarantine_review(stored.agent, stored.persona, items, memory_text(stored), match)
    return LearnResult(
        "quarantined", stored, reviews=(review,) if review and review.status == review.Status.PENDING else ()
    )


@agent_transaction(of="fact")
def learn_built_fact(
    *,
    fact: Fact,
    by: Principal,
    precheck: Precheck,
    may_replace: set[str],
    exclude: Sequence[UUID] = (),
    repeats: bool = False,
) -> LearnResult:
    """Compare and store a fact of `build_fact`, as `fact_learn` does."""
    # A retry after a deadlock must begin with the unchanged fact.
    fact = copy.copy(fact)
    learning_lock(fact.agent, fact.persona)
    # Facts that were learned while this one waited for the lock are older.
    fact.recorded_at = clock.now()
    if (match := scan_memory(fact)) is not None:
        return store_quarantined_fact(fact=fact, by=by, match=match)
    before = fact.subject_alias and fact.subject_alias.subject_id
    fact.subject_alias = alias_find(agent=fact.agent, persona=fact.persona, spelling=fact.subject)
    if before != (fact.subject_alias and fact.subject_alias.subject_id):
        # The subject has changed, so the comparisons of the precheck no longer apply.
        precheck = replace(precheck, comparisons={})
    return fact_reconcile(
        fact=fact, by=by, precheck=precheck, may_replace=may_replace, exclude=exclude, repeats=repeats
    )


def fact_reconcile(
    *,
    fact: Fact,
    by: Principal,
    precheck: Precheck,
    may_replace: Collection[str] = (),
    exclude: Sequence[UUID] = (),
    repeats: bool = False,
) -> LearnResult:
    """Compare `fact` with the other facts and apply the result. Call it under the learning lock.

    A new fact is stored, unless it repeats an active or an invalidated fact. A stored fact, whose embedding was not
    available when it was learned, is compared with older facts and retired in these two cases; but a fact that a person
    wrote is not merged automatically: it gets a review.
    """
    stored = not fact._state.adding
    matches = candidates_compare(
        fact,
        vector=precheck.vector,
        may_replace=may_replace,
        exclude=exclude,
        comparisons=precheck.comparisons,
    )
    if stored:
        # Newer facts are compared with this one when they are learned.
        matches = _recorded_before(fact, matches)
    decision = decide_learning(matches, {key: judge_result.value for key, judge_result in precheck.verdicts.items()})
    known, ask = decision.confirm, list(decision.ask)
    autonomy = Autonomy() if by.is_person else Autonomy.of_config(fact.agent.config)
    asks_same = known is not None and not known.exact_match and autonomy.asks(AutomaticDecision.CONFIRMED)
    if known is not None and (asks_same or (stored and fact.endorsed)):
        ask.insert(0, known)
        known = None
    matched = [match.fact_id for match in [*([known] if known else []), *decision.supersede, *ask]]
    olds = facts_lock(fact.agent_id, [*matched, fact.pk] if stored else matched)
    if known is not None and not by.writes_project(olds[known.fact_id].project):
        # The old fact is global, and this token may not confirm it.
        return LearnResult("confirmed", olds[known.fact_id])
    if known is not None:
        old = olds[known.fact_id]
        if not (stored or known.exact_match or precheck.vector is None) and sample_is_due(fact, by):
            # Reviewers see the new words too, so they are stored, and merged into the known fact.
            alias_assign(fact, by)
            fact_store(fact, precheck.vector, by=by)
        before = {"old": fields_before(old), "new": fields_before(fact)}
        confirmed = _resolve_pair(Resolution.SAME, known, old, fact, by, precheck)
        if not fact._state.adding and not stored:
            _sample(AutomaticDecision.CONFIRMED, known, confirmed, before, by, precheck)
        return LearnResult("confirmed", confirmed.old)
    repeated_invalid = None if fact.endorsed else invalidated_match(fact, vector=precheck.vector, by=by)
    if repeated_invalid is not None:
        invalidated, match = repeated_invalid
        review = relearned_review_open(fact=fact, invalidated=invalidated, match=match, by=by)
        if stored:
            fact_invalidate(fact=fact, by=by, reason="People marked this statement as wrong.")
        if review is None:
            return LearnResult("decided", invalidated)
        return LearnResult("queued", invalidated, reviews=(review,))
    if decision.repeats is not None and not stored and not repeats:
        repeated = Fact.objects.select_related("agent", "subject_alias").get(
            agent=fact.agent_id, pk=decision.repeats.fact_id
        )
        review = cross_subject_review(fact=fact, stored=repeated, by=by)
        if review is not None:
            return LearnResult("queued", repeated, reviews=(review,))
        if not holds_for_both(fact=fact, stored=repeated):
            return LearnResult("decided", repeated)
    if not stored:
        alias_assign(fact, by)
        fact_store(fact, precheck.vector, by=by, unjudged=precheck.unjudged)
    superseded, refused = [], []
    asks_newer = autonomy.asks(AutomaticDecision.SUPERSEDED)
    for match in decision.supersede:
        older = olds.get(match.fact_id)
        before = {"old": fields_before(older), "new": fields_before(fact)} if older else {}
        replaced = None if asks_newer else _replace(match, older, fact, by, precheck)
        if replaced is None:
            refused.append(match)
            continue
        superseded.append(replaced.old)
        fact = replaced.new
        if len(superseded) == 1 and sample_is_due(fact, by):
            _sample(AutomaticDecision.SUPERSEDED, match, replaced, before, by, precheck)
    drafts, of_attributes = (
        [
            PairReviewDraft(olds[match.fact_id], fact, match.comparison, precheck.verdicts.get(match.fact_id))
            for match in [*refused, *ask]
            if match.fact_id in olds and asks_about_attribute(match) is about_attribute
        ]
        for about_attribute in (False, True)
    )
    opened = (*pair_reviews_open(drafts, by=by), *attribute_questions_open(of_attributes, by=by))
    action = "queued" if opened else "superseded" if superseded else "stored"
    return LearnResult(action, fact, tuple(superseded), opened)


def _recorded_before(fact: Fact, matches: Sequence[FactMatch]) -> list[FactMatch]:
    keys = [match.fact_id for match in matches]
    earlier = set(
        Fact.objects.filter(agent=fact.agent_id, pk__in=keys, recorded_at__lte=fact.recorded_at).values_list(
            "pk", flat=True
        )
    )
    return [match for match in matches if match.fact_id in earlier]


def _replace(
    match: FactMatch, old: Fact | None, new: Fact, by: Principal, precheck: Precheck
) -> AppliedResolution | None:
    """Supersede `old` by `new`; None if the valid times, or verification by people, do not allow it."""
    if old is None or (old.valid_from is not None and old.valid_from > new.recorded_at):
        # A fact that becomes valid later is not superseded automatically: a review decides.
        return None
    try:
        with transaction.atomic():
            return _resolve_pair(Resolution.REPLACE, match, old, new, by, precheck)
    except (Invalid, Conflict):
        return None


def _sample(
    decision: AutomaticDecision,
    match: FactMatch,
    applied: AppliedResolution,
    before: dict[str, Any],
    by: Principal,
    precheck: Precheck,
) -> None:
    """Let reviewers see the pair of an automatic decision as if it was undecided."""
    sample_open(
        old=applied.old,
        new=applied.new,
        decision=decision,
        comparison=match.comparison,
        writer="judge" if match.fact_id in precheck.verdicts else by.name,
        undo=applied.undo,
        before=before,
        by=by,
    )


def _resolve_pair(
    resolution: MemoryReview.Resolution, match: FactMatch, old: Fact, new: Fact, by: Principal, precheck: Precheck
) -> AppliedResolution:
    judge_result = precheck.verdicts.get(match.fact_id)
    if resolution is Resolution.SAME:
        reason = "Known already."
    else:
        reason = judge_result.value.reason if judge_result else match.comparison.words(match.comparison.reasons[0])
    return resolution_apply(
        resolution=resolution,
        old=old,
        new=new,
        by=by,
        reason=reason,
        score=None if match.exact_match else round(match.comparison.cosine, 4),
        evidence=_evidence_of(match.comparison, judge_result),
    )


def _evidence_of(comparison: Comparison, judge_result: JudgeResult[RelationVerdict] | None) -> dict[str, Any]:
    """The evidence of a change as JSON values."""
    evidence: dict[str, Any] = {"kind": str(comparison.kind), "reasons": reasons_of(comparison)}
    if comparison.attribute:
        values = {"old": comparison.old_value, "new": comparison.new_value}
        evidence["changed"] = {"attribute": comparison.attribute} | values
    if judge_result is not None:
        evidence["judge"] = judge_result.value.model_dump(mode="json") | {
            "call": judge_result.call_id,
            "model": judge_result.model,
        }
    return evidence

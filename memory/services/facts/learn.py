"""Learning a fact: stored, confirmed, or stored in the place of an old one, in one transaction.

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
from identity.services.audit import audit_record
from memory.censoring.injection import Finding
from memory.comparison.compare import REASONS, Comparison
from memory.comparison.resolution import FactMatch, reasons_of, resolve
from memory.judge import Judged, RelationVerdict
from memory.models import Episode, Fact, FactChange, MemoryReview, Scope
from memory.models.project_scope import carried_keys, key_check, tier_of
from memory.policy import CATEGORY_PERMISSIONS, DEFAULT_CATEGORY, MAX_CONTENT_CHARACTERS
from memory.services.facts.apply_resolution import AppliedResolution, Resolution, resolution_apply
from memory.services.facts.comparison_candidates import candidates_compare
from memory.services.facts.history import change_record
from memory.services.facts.invalidate import fact_invalidate
from memory.services.facts.locks import facts_lock, learning_lock
from memory.services.facts.precheck import Precheck, fact_precheck, in_transaction
from memory.services.facts.rejected_facts import rejected_like, relearned_review_open
from memory.services.facts.repeated_facts import holds_of_both, repeated_review
from memory.services.facts.store import alias_give, facts_store
from memory.services.holds import hold_ask, hold_set, memory_finding, said_by
from memory.services.reviews.opening import PairQuestion, pair_reviews_open
from memory.services.subjects.registry import alias_find
from memory.services.trust import fact_origin
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, Invalid, NotAllowed
from nousweb.lib.validation import (
    choice_check,
    moment_check,
    tags_check,
    text_check,
    unit_check,
    visible_text_check,
    word_check,
)


@dataclass(frozen=True, slots=True)
class LearnResult:
    """What learning came to. `action`: "stored"; "confirmed", then `fact` is the one that was known already;
    "superseded", then it took the place of `superseded`; "queued": stored, and `reviews` ask people about it.

    Where the very same is known about another subject, nothing is stored, and `fact` is the known one: "queued" while
    people are asked whether it holds of both, "decided" when they said that it does not.

    Where people found wrong what is learned, nothing is stored, and `fact` is the one that they found wrong: "queued"
    with a review while one waits, "decided" when its source is none that they did not know.

    "held": it reads like an instruction to the agent, is compared with nothing, and comes up nowhere until people allow
    it; `reviews` asks them, unless they have answered.
    """

    action: str
    fact: Fact
    superseded: tuple[Fact, ...] = ()
    reviews: tuple[MemoryReview, ...] = field(default=())

    @property
    def review(self) -> UUID | None:
        """The first review that waits."""
        return self.reviews[0].pk if self.reviews else None


def fact_learn(
    *,
    agent: Agent,
    content: str,
    by: Principal,
    subject: str = "",
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
    """Learn a fact in the memory of the persona that `by` acts as, or for the system of `persona`.

    A fact that is known already is confirmed, one that certainly tells a newer value of an old one takes its place, and
    one that may do either is stored with a review, as is what would take the place of people's word or of what they
    are being asked about. What people found wrong is not stored again unless a person learns it. `exclude` are facts
    that it is not compared with. With `repeats` it may say of another subject what is known of one already, as a person
    has decided. Without a `project` or `task` of its own it has those of its episode. `confidence` and `importance` lie
    in [0, 1]. `precheck` is of `fact_precheck`; without it, one is made unless a transaction is open, and then the
    comparison by meaning follows later. Raises Invalid, naming the field, or NotAllowed.
    """
    fact = fact_draft(
        agent=agent, by=by, persona=persona, source_episode=source_episode, content=content, subject=subject,
        category=category, kind=kind, scope=scope, project=project, task=task, tags=tags, confidence=confidence,
        importance=importance, source=source, valid_from=valid_from, valid_until=valid_until,
    )  # fmt: skip
    may_replace = replaceable_by(by)
    if precheck is None:
        # No model is asked about what is held back.
        alone = in_transaction() or memory_finding(fact) is not None
        precheck = Precheck() if alone else fact_precheck(fact, may_replace=may_replace, exclude=exclude)
    return draft_learn(fact=fact, by=by, precheck=precheck, may_replace=may_replace, exclude=exclude, repeats=repeats)


def fact_draft(
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
    """The fact that `fact_learn` would compare and store, checked, with the rights of `by`; the rest is its `fields`.

    Raises Invalid, naming the field, or NotAllowed.
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
    return fact


def replaceable_by(by: Principal) -> set[str]:
    """The categories with a right of their own whose facts `by` may let others replace."""
    return {name for name, right in CATEGORY_PERMISSIONS.items() if by.may(right)}


def fact_fields_check(
    *,
    content: str,
    subject: str = "",
    category: str = DEFAULT_CATEGORY,
    kind: str = "",
    scope: str = Scope.GLOBAL,
    project: str = "",
    task: str = "",
    tags: Sequence[str] = (),
    confidence: float = 1.0,
    importance: float = 0.5,
    source: str = "",
    valid_from: datetime | None = None,
    valid_until: datetime | None = None,
) -> dict[str, Any]:
    """What is said of a fact, as it is stored. Raises Invalid, naming the field."""
    project, task = key_check("project", project), key_check("task", task)
    fields: dict[str, Any] = {
        "content": visible_text_check("content", content, MAX_CONTENT_CHARACTERS, required=True),
        "subject": visible_text_check("subject", subject, 200),
        "category": word_check("category", category),
        "kind": word_check("kind", kind) if kind else "",
        "scope": tier_of(choice_check("scope", scope, Scope.values), project, task),
        "project": project,
        "task": task,
        "tags": tags_check(tags),
        "confidence": unit_check("confidence", confidence),
        "importance": unit_check("importance", importance),
        "source": text_check("source", source, 200),
        "valid_from": moment_check("valid_from", valid_from),
        "valid_until": moment_check("valid_until", valid_until),
    }
    if valid_from and valid_until and valid_until <= valid_from:
        raise Invalid("valid_until must be later than valid_from.", field="valid_until")
    return fields


def _inherited(given: str | None, name: str, episode: Episode | None) -> str:
    if given is not None:
        return given
    return str(getattr(episode, name)) if episode else ""


def fact_hold(*, fact: Fact, by: Principal, found: Finding) -> LearnResult:
    """Store a fact that is held back, under the learning lock. It is compared with nothing, and its subject is entered,
    once people allow it."""
    same = Fact.objects.filter(agent=fact.agent, persona=fact.persona, held=True, content=fact.content)
    held = same.filter(subject=fact.subject, project=fact.project, task=fact.task).select_related("agent").first()
    if held is None:
        held = fact
        held.subject_alias = None
        held.save(force_insert=True)
        change_record(held, FactChange.Action.STORED, by, at=held.recorded_at)
        audit_record(
            by=by,
            action="fact.store",
            target=held,
            agent=held.agent,
            after={"content": held.content, "subject": held.subject, "category": held.category, **carried_keys(held)},
        )
        hold_set(held)
    review = hold_ask(held.agent, held.persona, [("fact", str(held.pk))], said_by(held), found)
    return LearnResult("held", held, reviews=(review,) if review and review.status == review.Status.PENDING else ())


@agent_transaction(of="fact")
def draft_learn(
    *,
    fact: Fact,
    by: Principal,
    precheck: Precheck,
    may_replace: set[str],
    exclude: Sequence[UUID] = (),
    repeats: bool = False,
) -> LearnResult:
    """Learn a fact of `fact_draft`, as `fact_learn` does."""
    # Another try, after a deadlock, begins with what was given.
    fact = copy.copy(fact)
    learning_lock(fact.agent, fact.persona)
    # What waited for the lock is learned after what was learned in the meantime.
    fact.recorded_at = clock.now()
    if (found := memory_finding(fact)) is not None:
        return fact_hold(fact=fact, by=by, found=found)
    before = fact.subject_alias and fact.subject_alias.subject_id
    fact.subject_alias = alias_find(agent=fact.agent, persona=fact.persona, spelling=fact.subject)
    if before != (fact.subject_alias and fact.subject_alias.subject_id):
        # What was compared before was compared as something else.
        precheck = replace(precheck, comparisons={}, near=None)
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
    """Compare `fact` with what is known, once, and do what follows. Called under the learning lock.

    A fact that is not stored yet is stored, unless it is known or was found wrong. One that is (it came while its
    embedding could not be had) is compared with what was known before it, and leaves again in these two cases; but what
    a person wrote is merged into nothing by itself, and people are asked.
    """
    stored = not fact._state.adding
    matches = candidates_compare(
        fact,
        vector=precheck.vector,
        may_replace=may_replace,
        exclude=exclude,
        comparisons=precheck.comparisons,
        near=precheck.near,
    )
    if stored:
        # Later facts were compared with this one when they came, or will be.
        matches = _recorded_before(fact, matches)
    decision = resolve(matches, {key: judged.value for key, judged in precheck.verdicts.items()})
    known, ask = decision.confirm, list(decision.ask)
    if known is not None and stored and fact.endorsed:
        ask.insert(0, known)
        known = None
    matched = [match.fact_id for match in [*([known] if known else []), *decision.supersede, *ask]]
    olds = facts_lock(fact.agent_id, [*matched, fact.pk] if stored else matched)
    if known is not None and not by.writes_project(olds[known.fact_id].project):
        # Known everywhere, and not this token's to confirm.
        return LearnResult("confirmed", olds[known.fact_id])
    if known is not None:
        confirmed = _resolve_pair(Resolution.SAME, known, olds[known.fact_id], fact, by, precheck)
        return LearnResult("confirmed", confirmed.old)
    rejected = None if fact.endorsed else rejected_like(fact, vector=precheck.vector)
    if rejected is not None:
        wrong, match = rejected
        if not by.reads_project(wrong.project):
            raise Conflict("People marked this statement as wrong in a project that this token cannot access.")
        review = relearned_review_open(fact=fact, rejected=wrong, match=match, by=by)
        if stored:
            fact_invalidate(fact=fact, by=by, reason="People marked this statement as wrong.")
        return LearnResult("queued", wrong, reviews=(review,)) if review else LearnResult("decided", wrong)
    if decision.repeats is not None and not stored and not repeats:
        repeated = Fact.objects.select_related("agent", "subject_alias").get(
            agent=fact.agent_id, pk=decision.repeats.fact_id
        )
        review = repeated_review(fact=fact, known=repeated, by=by)
        if review is not None:
            return LearnResult("queued", repeated, reviews=(review,))
        if not holds_of_both(fact=fact, known=repeated):
            return LearnResult("decided", repeated)
    if not stored:
        alias_give(fact, by)
        facts_store([(fact, precheck.vector)], by=by)
    superseded, refused = [], []
    for match in decision.supersede:
        replaced = _replace(match, olds.get(match.fact_id), fact, by, precheck)
        if replaced is None:
            refused.append(match)
        else:
            superseded.append(replaced.old)
            fact = replaced.new
    questions = [
        PairQuestion(olds[match.fact_id], fact, match.comparison, precheck.verdicts.get(match.fact_id))
        for match in [*refused, *ask]
        if match.fact_id in olds
    ]
    opened = tuple(pair_reviews_open(questions, by=by))
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
    """Let `new` take a place that it certainly takes; None where the spans or people's word do not allow it."""
    if old is None or (old.valid_from is not None and old.valid_from > new.recorded_at):
        # What is to come does not yield by itself to what is: people say which of the two holds.
        return None
    try:
        with transaction.atomic():
            return _resolve_pair(Resolution.REPLACE, match, old, new, by, precheck)
    except (Invalid, Conflict):
        return None


def _resolve_pair(
    resolution: MemoryReview.Resolution, match: FactMatch, old: Fact, new: Fact, by: Principal, precheck: Precheck
) -> AppliedResolution:
    judged = precheck.verdicts.get(match.fact_id)
    if resolution is Resolution.SAME:
        reason = "Known already."
    else:
        reason = judged.value.reason if judged else REASONS[match.comparison.reasons[0].code]
    return resolution_apply(
        resolution=resolution,
        old=old,
        new=new,
        by=by,
        reason=reason,
        score=None if match.exact_match else round(match.comparison.cosine, 4),
        evidence=_evidence_of(match.comparison, judged),
    )


def _evidence_of(comparison: Comparison, judged: Judged[RelationVerdict] | None) -> dict[str, Any]:
    """What a change rests on, ready for JSON."""
    found: dict[str, Any] = {"kind": str(comparison.kind), "reasons": reasons_of(comparison)}
    if comparison.attribute:
        values = {"old": comparison.old_value, "new": comparison.new_value}
        found["changed"] = {"attribute": comparison.attribute} | values
    if judged is not None:
        found["judge"] = judged.value.model_dump(mode="json") | {"call": judged.call_id, "model": judged.model}
    return found

"""Learn a fact (store it, confirm an equal one, or supersede an old one), and replace one on request.

1. `fact_learn` checks what was given, and the precheck asks the models, which no transaction may wait for.
2. Those who learn for the same memory wait for each other, so that what two of them learn at once is compared too.
3. `fact_reconcile` finds what the fact resembles, decides, and applies it. The later check of a fact that was stored
   without its embedding calls the same.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from identity.models import Agent
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from memory.comparison.compare_facts import compare_facts
from memory.models import (
    KEYS,
    Episode,
    Fact,
    FactChange,
    MemoryReview,
    Trust,
    inherited_user,
    key_check,
    keys_of,
    user_write_check,
)
from memory.persona import change_check
from memory.policy import CATEGORY_PERMISSIONS, DEFAULT_CATEGORY, MAX_REMARK_CHARACTERS
from memory.services.facts.changes import (
    fact_change_record,
    fact_fields_check,
    fact_store_audit,
    pending_review_check,
    source_event_link,
)
from memory.services.facts.reconcile import LearnResult, Precheck, fact_precheck, fact_reconcile, in_transaction
from memory.services.facts.repeated_facts import fact_supersede, successor_scope_check
from memory.services.memory_write import learning_lock
from memory.services.quarantine.memories import (
    WAITING,
    memory_text,
    open_quarantine_review,
    quarantine_memory,
    scan_memory,
    show_to_people,
)
from memory.services.reviews.open_review import PairReviewDraft, pair_review_key, pair_reviews_open
from memory.services.subjects.registry import alias_find, pair_snapshots
from memory.services.trust import fact_origin, memory_consent, screened_as
from nousweb.lib import Conflict, Invalid, NotAllowed, clock, existing, text_check
from nousweb.lib.characters import shows_all
from nousweb.lib.injection.scan import InjectionMatch


def fact_learn(
    *,
    agent: Agent,
    content: str,
    by: Principal,
    exclude: Sequence[UUID] = (),
    precheck: Precheck | None = None,
    repeats: bool = False,
    **fields: Any,
) -> LearnResult:
    """Learn a fact in the memory of the persona of `by`; the system names the `persona`.

    A fact with the same statement as an old one confirms that. One with a certainly newer value supersedes the old one.
    Uncertain cases are stored with a review, and so is a fact that would replace one that is verified by people or has
    a pending review. A statement that people invalidated is only stored if a person learns it.

    `exclude`: ids of facts that it is not compared with.
    `repeats`: a person decided that the sentence, which is stored about another subject, is true of this one too.
    `fields`: persona, FACT_FIELDS, TIME_FIELDS, `origin`, and `source_episode`, whose project, task and user it has
    without its own.
    `precheck`: the result of `fact_precheck`. Without it, one is made, unless a transaction is open; then the fact is
    compared by meaning later.
    Raises Invalid with the name of the field, or NotAllowed.
    """
    fact = build_fact(agent=agent, by=by, content=content, **fields)
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
    user: str | None = None,
    source_episode: Episode | None = None,
    origin: str = "",
    **fields: Any,
) -> Fact:
    """Validate the arguments of `fact_learn` and build the unsaved fact. `fields` are those of `fact_fields_check`.
    `origin` is where its words come from, as its writer says.

    Raises Invalid with the name of the field, or NotAllowed.
    """
    by.require("memory.add_fact", agent)
    if category in CATEGORY_PERMISSIONS:
        by.require(CATEGORY_PERMISSIONS[category], agent)
    if persona and persona != by.persona and not (by.kind == "system" or (by.is_person and by.may(VIEW_SUBCONSCIOUS))):
        raise NotAllowed(f"This belongs to the {persona}.")
    project = key_check("project", _inherited(project, "project", source_episode))
    task = key_check("task", _inherited(task, "task", source_episode))
    user = user_write_check(agent, by, inherited_user(user, source_episode))
    by.require_project(project)
    fact = Fact(
        agent=agent,
        persona=persona or by.persona,
        source_episode=source_episode,
        **fact_fields_check(category=category, project=project, task=task, user=user, **fields),
    )
    fact.origin = fact_origin(fact, by, origin)
    fact.endorsed = fact.origin == Trust.PERSON
    fact.screened_as = screened_as(by, origin)
    names = [str(fields.get(name, "")) for name in ("subject", "attribute", "value")]
    given = "\n".join([str(fields["content"]), *names, *map(str, fields.get("tags", ()))])
    if not shows_all(given):
        fact.as_given = given
    fact.consent = memory_consent(fact, by)
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
    stored = same.filter(subject=fact.subject, **keys_of(fact)).select_related("agent").first()
    if stored is None:
        stored = fact
        stored.subject_alias = None
        source_event_link(stored, by)
        stored.save(force_insert=True)
        fact_change_record(stored, FactChange.Action.STORED, by, at=stored.recorded_at)
        fact_store_audit(stored, by)
        quarantine_memory(stored)
    items = [("fact", str(stored.pk))]
    review = open_quarantine_review(stored.agent, stored.persona, items, memory_text(stored), match, fact.consent)
    stored.pending = match is WAITING
    action = "pending" if stored.pending else "quarantined"
    return LearnResult(action, stored, reviews=(review,) if review and review.status == review.Status.PENDING else ())


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
    result = fact_reconcile(
        fact=fact, by=by, precheck=precheck, may_replace=may_replace, exclude=exclude, repeats=repeats
    )
    if result.fact.pk == fact.pk and (review := show_to_people(fact)) is not None:
        result = replace(result, reviews=(*result.reviews, review))
    return result


INHERITED = ("subject", "attribute", "category", "kind", "scope", *KEYS, "tags", "confidence", "importance")
"""Fields that a replacement takes from the old fact, unless they are given; it expires with it too."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """`action`: "superseded", or "queued" if nothing was replaced and `review` is pending."""

    action: str
    old: Fact
    new: Fact
    review: UUID | None = None


@agent_transaction(of="old")
def fact_replace(
    *,
    old: Fact,
    by: Principal,
    new: Fact | None = None,
    fields: Mapping[str, Any] | None = None,
    reason: str = "",
    at: datetime | None = None,
) -> Replacement:
    """Supersede `old` by `new`, or by a fact that is learned from `fields` (arguments of `fact_learn`).

    INHERITED fields that are missing in `fields` are taken from `old`. If the call is refused, nothing is learned. If
    `by` is not a person and `old` is verified by people, a review is opened instead. Raises Conflict with the review's
    id if a review of `old` is pending or one of the two facts was resolved; Conflict if both are verified by people;
    else as `fact_supersede`.
    """
    change_check(old, by, "memory.add_fact")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    if not by.is_person:
        # Reviews are opened under this lock, so none is opened between this check and the change.
        learning_lock(old.agent, old.persona)
        # Not locked here: facts are locked in one order only, and `fact_supersede` checks again under the lock.
        current = existing(
            Fact.objects.select_related("agent").filter(agent=old.agent_id, pk=old.pk).first(), "There is no such fact."
        )
        old = current
        if old.active:
            pending_review_check(old)
    if new is None:
        learned = _replacement_learn(old, dict(fields or {}), by)
        # Nothing was learned where a review asks whether the sentence is true of two subjects.
        if learned.waits or any(review.kind == MemoryReview.Kind.REPEATED for review in learned.reviews):
            return Replacement("queued", old, learned.fact, learned.review)
        new = learned.fact
    if by.is_person or not old.endorsed or not old.active:
        superseded, successor = fact_supersede(old=old, new=new, by=by, reason=reason, at=at)
        return Replacement("superseded", superseded, successor)
    if old.pk == new.pk:
        raise Invalid("A fact cannot supersede itself.", field="fact_id")
    change_check(new, by, "memory.add_fact")
    successor_scope_check(old, new)
    return Replacement("queued", old, new, _open_replacement_review(old, new, by, reason).pk)


def _replacement_learn(old: Fact, fields: dict[str, Any], by: Principal) -> LearnResult:
    fields = {name: getattr(old, name) for name in INHERITED} | {"user": inherited_user(None, old)} | fields
    if old.expires_at and old.expires_at > clock.now():
        fields = fields if "ttl" in fields else {"expires_at": old.expires_at} | fields
    # A person who corrects a fact has decided about its subject, so no review about another subject is needed.
    learned = fact_learn(agent=old.agent, persona=old.persona, by=by, exclude=[old.pk], repeats=by.is_person, **fields)
    if learned.waits:
        return learned
    if not learned.fact.active:
        raise Conflict(
            "People marked the new text as wrong. To request a review, learn it separately and give its source.",
            fact=str(learned.fact.pk),
        )
    if learned.action == "decided":
        raise Conflict(
            "The same is known about another subject, and people decided that it is not true of this one.",
            fact=str(learned.fact.pk),
        )
    return learned


def _open_replacement_review(old: Fact, new: Fact, by: Principal, reason: str) -> MemoryReview:
    """Open the review of whether `new` replaces `old`, which is verified by people. Raises Conflict."""
    decided = MemoryReview.objects.filter(agent=old.agent_id, about=pair_review_key(old.pk, new.pk)).first()
    if decided is not None:
        raise Conflict(
            f"People have decided about these two facts already (review {decided.pk}).", review=str(decided.pk)
        )
    # Read again: learning may have confirmed a fact that is verified by people.
    if Fact.objects.filter(agent=new.agent_id, pk=new.pk, endorsed=True).exists():
        raise Conflict(
            "Both facts are verified by people: only people can let one replace the other.",
            fact=str(new.pk),
        )
    before, after = pair_snapshots(old, new)
    opened = pair_reviews_open([PairReviewDraft(old, new, compare_facts(before, after), wish=reason)], by=by)
    if not opened:
        raise Conflict("These two facts already had a review.")
    return opened[0]
